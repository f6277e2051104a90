package engine

import (
	"errors"
	"io"
	"path"
	"strings"

	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/manifest"
)

// settleDeferred settles which files of the source and which manifests get the
// names that both want. It is called when all else was copied.
func (r *run) settleDeferred() {
	r.sync()
	for _, t := range r.targets {
		t.takePrevious()
	}
	for len(r.deferred) > 0 {
		next := "" // the alternative name is settled last: the usual one decides whether it is needed
		for p := range r.deferred {
			if next == "" || strings.HasPrefix(path.Base(next), "sealift.") {
				next = p
			}
		}
		j := r.deferred[next]
		delete(r.deferred, next)
		if r.ctx.Err() == nil {
			r.sync()
			r.settleName(next, j)
		}
		j.dir.Done()
	}
	r.sync()
}

// settleName gives the name of a file of the source to the manifest where that
// will be byte for byte the same; elsewhere the file is copied as the file that
// it is, and the manifest gets the alternative name.
func (r *run) settleName(name string, j job) {
	e := &entry{clock: r.clock, dir: j.dir, name: j.name, path: name, kind: j.kind, leave: map[*target]bool{}}
	if err := e.openSource(); err != nil {
		r.failSource(e, failure.StageOpen, err)
		return
	}
	for _, t := range r.targets {
		if t.isLost() {
			continue
		}
		for _, m := range t.manifests {
			if m.slot < 0 || m.rel != name {
				continue
			}
			same, err := m.equals(t, e.file, e.meta.info.Size)
			switch {
			case err != nil:
				m.err = err
			case same:
				e.leave[t] = true
			default:
				r.makeWay(t, m, e)
			}
		}
	}
	r.take(e)
}

// makeWay lets a file of the source have the manifest's name.
func (r *run) makeWay(t *target, m *manifestFile, e *entry) {
	if m.prev != nil && m.prevDir != nil && m.prevName == m.name && !m.foreign {
		// Our earlier manifest, not a copy of the source's file.
		if err := t.retireManifests(r); err != nil {
			r.failTarget(t, e.path, failure.StageJournal, err)
			e.leave[t] = true
			return
		}
	}
	alternative := alternativeName(m.algorithm)
	if m.rel == alternative && isManifest(e.file, e.meta.info.Size, m.algorithm) {
		// It is one of ours, of the source as it was; the copy has its own.
		e.leave[t] = true
		err := errors.New("the source's is not copied: the manifest of this copy differs and has its name")
		r.tell(Event{Kind: EventWarning, Path: e.path, Target: t.given, Err: err})
		return
	}
	if kind := r.kindInSource(alternative); m.rel == alternative || kind != fsys.Unknown && kind != fsys.Regular {
		m.err = errors.New("the source has files of both names that the manifest could have; name another with --manifest")
		return
	}
	m.rename(alternative)
}

// isManifest reports whether a file has a line of a manifest.
func isManifest(f *fsys.File, size int64, a hash.Algorithm) bool {
	lines := manifest.NewReader(io.NewSectionReader(fsys.ReaderAt{File: f}, 0, size), a)
	l, err := lines.Next()
	return err == nil && len(l.Digest) == a.Size()
}
