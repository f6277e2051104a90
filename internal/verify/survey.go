package verify

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/manifest"
	"github.com/seed65876f4f/sealift/internal/quote"
)

// survey reads the manifests of a tree to the end. It counts the files to check, and finds
// which digests they need. A manifest that the user has not named and that cannot be read is a
// failure; the others are checked.
func (r *run) survey(ctx context.Context, t *tree) error {
	var total, leftOut int64
	var valid, invalid []*treeManifest
	var firstErr error // the refusal of the first invalid one
	t.ids = map[fsys.ID]bool{}
	for _, s := range t.manifests {
		t.ids[s.id] = true
		in := s.read()
		err := in.each(ctx, func(expectation) error { // counts the lines
			s.lines++
			return nil
		})
		if err != nil {
			if !s.found || t.bag != nil || ctx.Err() != nil {
				return refused(s.shown, err)
			}
			if invalid == nil {
				firstErr = refused(s.shown, err)
			}
			invalid = append(invalid, s)
			t.untrusted = append(t.untrusted, filepath.Base(s.shown))
			t.notes = append(t.notes, note{Failure, filepath.Base(s.shown), fmt.Errorf("the manifest cannot be read: %w", err)})
			r.summary.Manifests = append(r.summary.Manifests, ManifestSummary{s.shown, t.given, string(s.algorithm), 0})
			continue
		}
		valid = append(valid, s)
		total += s.lines
		leftOut += in.leftOut
		mayBeEmpty := s.size == 0 && (s.isHistory || s.format == manifest.BagIt) // the payload of a bag may be empty
		if s.lines+in.leftOut == 0 && !mayBeEmpty {
			t.notes = append(t.notes, note{Failure, filepath.Base(s.shown), errNoLine})
		}
		if err := in.complaint(); err != nil {
			verdict := Warning
			if r.opts.Strict {
				verdict = Failure
			}
			t.notes = append(t.notes, note{verdict, filepath.Base(s.shown), err})
			r.summary.Malformed += in.malformed()
		}
		r.summary.Manifests = append(r.summary.Manifests, ManifestSummary{s.shown, t.given, string(s.algorithm), s.lines})
	}
	if invalid != nil && valid == nil && len(t.signs) == 0 {
		return firstErr
	}
	for _, s := range invalid { // none of their lines is checked
		s.close()
	}
	t.manifests = valid
	r.summary.LeftOut += leftOut
	if total == 0 && leftOut > 0 {
		return failure.Refuse("%s: the filters leave out every line of its manifests", quote.Name(t.given))
	}
	if total == 0 && len(t.signs) == 0 && t.bag == nil && (t.history == nil || len(t.notes) > 0) {
		if len(t.notes) == 0 {
			return failure.Refuse("%s: %s", quote.Name(t.manifests[0].shown), errNoLine)
		}
		if first := t.notes[0]; first.verdict == Failure && first.path != filepath.Base(t.manifests[0].shown) {
			return failure.Refuse("%s: %s", quote.Name(filepath.Join(t.given, first.path)), first.err) // an unreadable manifest
		}
		return failure.Refuse("%s: %s", quote.Name(t.manifests[0].shown), errNoLine)
	}
	r.counters.TotalFiles.Add(total)
	t.progress.ReadBack.TotalFiles.Store(total)
	return nil
}
