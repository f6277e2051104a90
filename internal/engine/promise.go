package engine

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"strings"

	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/filter"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/manifest"
)

// A promise is a manifest that the source holds, of a name and kind that this
// run writes: what it lists is checked with the digests of the one read, and
// corruption is not handed on.
type promise struct {
	name  string // in the source
	slot  int    // which of the run's digests it lists
	file  *fsys.File
	index *manifest.Index
}

var errBroken = errors.New("source does not match its manifest")

// openPromises opens the manifests of the source that this run checks.
func (r *run) openPromises() {
	if r.opts.SourceManifest == SourceManifestIgnore || r.opts.DryRun {
		return
	}
	look := newFinder(r.source)
	defer look.Close()
	for slot, a := range r.opts.Hashes {
		for _, name := range r.promiseNames(a) {
			p, err := openPromise(look, name, slot, a)
			if err != nil {
				r.tell(Event{Kind: EventFailed, Path: name, Err: &failure.FileError{Path: name, Stage: failure.StageManifest, Err: err}})
			}
			if p != nil {
				r.promises = append(r.promises, p)
			}
		}
	}
}

// promiseNames lists what a manifest in the source can be called. Beside the
// usual name that is the one which sealift gives its own where the source has
// something of the usual one.
func (r *run) promiseNames(a hash.Algorithm) []string {
	switch {
	case r.opts.Manifest == "" && r.route.name == "":
		return []string{fileManifestName("", a), alternativeName(a)}
	case r.opts.Manifest == "":
		return []string{fileManifestName(r.route.name, a)}
	case filepath.IsLocal(r.opts.Manifest):
		return []string{path.Clean(filepath.ToSlash(r.opts.Manifest))}
	}
	return nil
}

// openPromise returns nil if there is nothing of that name that lists anything.
func openPromise(look *fsys.Finder, name string, slot int, a hash.Algorithm) (*promise, error) {
	f, info, err := look.Open(name)
	if other := (*fsys.KindError)(nil); errors.Is(err, fs.ErrNotExist) || errors.Is(err, fsys.ErrOutside) || errors.As(err, &other) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	index, err := manifest.BuildIndex(fsys.ReaderAt{File: f}, info.Size, a.Size(), manifest.Tags(string(a))...)
	if err != nil || index.Len() == 0 {
		f.Close()
		return nil, err
	}
	return &promise{name: name, slot: slot, file: f, index: index}, nil
}

func (r *run) closePromises() {
	for _, p := range r.promises {
		p.file.Close()
	}
}

// pledge is what one manifest of the source lists for an entry.
type pledge struct {
	*promise
	digests [][]byte
}

// findPledges looks up what the manifests of the source list for the entry, and
// notes that it is there.
func (r *run) findPledges(e *entry) {
	for _, p := range r.promises {
		found, err := p.index.Promised(e.path)
		if err != nil {
			r.failSource(e, failure.StageManifest, fmt.Errorf("%s: %w", quoteName(p.name), err))
			e.broken = true
			return
		}
		if len(found.Digests) > 0 {
			p.index.Meet(found)
			e.pledges = append(e.pledges, pledge{p, found.Digests})
		}
	}
}

// keepsPromise reports whether the manifests of the source list these digests
// for the entry, or nothing. It tells about the first that does not.
func (r *run) keepsPromise(e *entry, digests hash.Digests) bool {
	if e.broken {
		return false
	}
	for _, p := range e.pledges {
		for _, promised := range p.digests {
			if string(promised) == string(digests[p.slot]) {
				continue
			}
			e.broken = true
			err := errBroken
			if len(p.digests) > 1 {
				err = fmt.Errorf("%w, which lists it with different digests", err)
			}
			r.tell(Event{Kind: EventMismatch, Path: e.path, Err: &failure.FileError{Path: e.path, Stage: failure.StageVerify, Err: err}})
			return false
		}
	}
	return true
}

// checkPromise keeps a passage whose digests are known only if the source keeps
// its promise.
func (r *run) checkPromise(e *entry, p *passage) {
	if p.digests != nil && !r.keepsPromise(e, p.digests) {
		p.act, p.done, p.digests, p.broken = actNone, outNothing, nil, true
	}
}

// namesShown is how many absent files a warning names.
const namesShown = 3

// findAbsent tells what the manifests of the source list and the source lacks.
func (r *run) findAbsent() {
	if r.route.name != "" {
		return // the others in the directory were not asked for
	}
	look := newFinder(r.source)
	defer look.Close()
	for _, p := range r.promises {
		count, shown := 0, []string{}
		err := p.index.Unmet(func(name string) error {
			if r.ctx.Err() != nil {
				return r.ctx.Err()
			}
			if !r.wanted(name) {
				return nil
			}
			if _, err := look.Lstat(name); err == nil || !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fsys.ErrOutside) {
				return nil //nolint:nilerr // it is there; if it could not be copied, that was told
			}
			if r.opts.SourceManifest == SourceManifestStrict {
				err := fmt.Errorf("%s lists it, and it is absent", quoteName(p.name))
				r.tell(Event{Kind: EventMismatch, Path: name, Err: &failure.FileError{Path: name, Stage: failure.StageVerify, Err: err}})
				return nil
			}
			if count++; len(shown) < namesShown {
				shown = append(shown, quoteName(name))
			}
			return nil
		})
		switch {
		case r.ctx.Err() != nil:
			return
		case err != nil:
			r.tell(Event{Kind: EventFailed, Path: p.name, Err: &failure.FileError{Path: p.name, Stage: failure.StageManifest, Err: err}})
		case count == 1:
			r.tell(Event{Kind: EventWarning, Path: p.name, Err: fmt.Errorf("lists a file that is absent: %s", shown[0])})
		case count > 1:
			list := strings.Join(shown, ", ")
			if count > len(shown) {
				list += ", ..."
			}
			r.tell(Event{Kind: EventWarning, Path: p.name, Err: fmt.Errorf("lists %d files that are absent: %s", count, list)})
		}
	}
}

// wanted reports whether the run was asked for the path, by the filters.
func (r *run) wanted(name string) bool {
	verdict := r.opts.Filter.Root()
	var only *filter.Node
	if r.opts.Only != nil {
		only = r.opts.Only.Root()
	}
	for end := 0; end < len(name); {
		start := end
		if next := strings.IndexByte(name[start:], '/'); next >= 0 {
			end = start + next
		} else {
			end = len(name)
		}
		if r.opts.Filter != nil {
			if verdict = r.opts.Filter.Match(name[:end], end < len(name), verdict); verdict == filter.Excluded {
				return false
			}
		}
		if only != nil && !only.All() {
			if only = only.Child(name[start:end]); only == nil {
				return false
			}
		}
		end++ // past the slash
	}
	return true
}
