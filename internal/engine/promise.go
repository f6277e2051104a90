package engine

import (
	"errors"
	"fmt"
	"slices"
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

// openPromises opens the manifests of the source that this run checks, and tells
// what of them cannot be.
func (r *run) openPromises() {
	if r.opts.SourceManifest == SourceManifestIgnore || r.opts.DryRun {
		return
	}
	look := newFinder(r.source)
	defer look.Close()
	for slot, a := range r.opts.Hashes {
		for _, name := range r.promiseNames(slot, a) {
			p, note, bad, err := openPromise(look, name, slot, a)
			if note != nil {
				r.tell(Event{Kind: EventWarning, Path: name, Err: note})
			}
			if err != nil {
				r.tell(Event{Kind: EventFailed, Path: name, Err: &failure.FileError{Path: name, Stage: failure.StageManifest, Err: err}})
			}
			if bad != nil {
				r.doubt(name, bad)
			}
			if p != nil {
				r.promises = append(r.promises, p)
			}
		}
	}
}

// doubt tells of something that keeps a manifest of the source from being
// checked as a whole.
func (r *run) doubt(name string, err error) {
	if r.opts.SourceManifest == SourceManifestStrict {
		r.tell(Event{Kind: EventMismatch, Path: name, Err: &failure.FileError{Path: name, Stage: failure.StageVerify, Err: err}})
		return
	}
	r.tell(Event{Kind: EventWarning, Path: name, Err: err})
}

// promiseNames lists what a manifest in the source can be called: as this run's
// will be, as it usually is, and as sealift calls its own where the source has
// something else of the usual name.
func (r *run) promiseNames(slot int, a hash.Algorithm) []string {
	if r.opts.Manifest == "" && r.route.name == "" {
		return []string{fileManifestName("", a), alternativeName(a)}
	}
	if r.opts.Manifest == "" {
		return []string{fileManifestName(r.route.name, a)}
	}
	var names []string
	for _, t := range r.targets {
		for _, m := range t.manifests {
			if m.slot == slot && m.rel != "" && !slices.Contains(names, m.rel) {
				names = append(names, m.rel)
			}
		}
	}
	return names
}

// openPromise returns nil if there is nothing of that name that lists anything. A
// note says why what is there is no manifest; bad, what of a manifest cannot be
// checked.
func openPromise(look *fsys.Finder, name string, slot int, a hash.Algorithm) (p *promise, note, bad, err error) {
	info, err := look.Lstat(name)
	switch {
	case fsys.NoSuchFile(err), errors.Is(err, fsys.ErrOutside), err != nil && fsys.IsSymlinkRefusal(err):
		return nil, nil, nil, nil
	case err != nil:
		return nil, nil, nil, err
	case info.Kind != fsys.Regular && info.Kind != fsys.Symlink:
		return nil, nil, nil, nil
	}
	isLink := info.Kind == fsys.Symlink
	f, info, err := look.Open(name)
	if err != nil && isLink {
		return nil, fmt.Errorf("it is a link, and what it leads to is not checked as a manifest: %w", err), nil, nil
	}
	if err != nil {
		return nil, nil, nil, err
	}
	index, err := manifest.BuildCheckIndex(fsys.ReaderAt{File: f}, info.Size, a)
	if err != nil || index.Len() == 0 {
		f.Close()
		if err == nil && index.Malformed() > 0 {
			note = fmt.Errorf("it is not checked: no line of it is one of a %s manifest", a)
		}
		return nil, note, nil, err
	}
	switch n := index.Malformed(); n {
	case 0:
	case 1:
		bad = errors.New("1 line of it could not be read and is not checked")
	default:
		bad = fmt.Errorf("%d lines of it could not be read and are not checked", n)
	}
	return &promise{name: name, slot: slot, file: f, index: index}, nil, bad, nil
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

// findPledges looks up what the manifests of the source list for a file, and
// notes that it is there.
func (r *run) findPledges(e *entry) {
	if e.kind != fsys.Regular {
		return
	}
	for _, p := range r.promises {
		if p.name == e.path {
			continue // nothing can list its own digest; find and sha256sum leave such lines
		}
		found, err := p.promised(r, e.path)
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

// promised looks a path up, also as Windows spells it, unless the source has a
// file that is literally called so.
func (p *promise) promised(r *run, name string) (manifest.Promise, error) {
	found, err := p.index.Promised(name)
	if err != nil || len(found.Digests) > 0 || !strings.Contains(name, "/") {
		return found, err
	}
	literal := strings.ReplaceAll(name, "/", `\`)
	found, err = p.index.Promised(literal)
	if err == nil && len(found.Digests) > 0 && r.kindInSource(literal) != fsys.Unknown {
		return manifest.Promise{}, nil
	}
	return found, err
}

// pledged reports whether the manifests of the source list these digests for the
// entry, or nothing.
func (e *entry) pledged(digests hash.Digests) bool {
	for _, p := range e.pledges {
		for _, promised := range p.digests {
			if string(promised) != string(digests[p.slot]) {
				return false
			}
		}
	}
	return true
}

// keepsPromise reports whether the source, of which these digests were read,
// is what its manifests list. It tells if not, once.
func (r *run) keepsPromise(e *entry, digests hash.Digests) bool {
	if e.broken || e.pledged(digests) {
		return !e.broken
	}
	e.broken = true
	err := errBroken
	for _, p := range e.pledges {
		if len(p.digests) > 1 {
			err = fmt.Errorf("%w, which lists it with different digests", errBroken)
		}
	}
	r.tellBroken(e, err)
	return false
}

func (r *run) tellBroken(e *entry, err error) {
	r.tell(Event{Kind: EventMismatch, Path: e.path, Err: &failure.FileError{Path: e.path, Stage: failure.StageVerify, Err: err}})
}

// namesShown is how many absent files a warning names.
const namesShown = 3

// findAbsent tells what the manifests of the source list and the source lacks,
// or has and not as a file.
func (r *run) findAbsent() {
	if r.route.name != "" {
		return // the others in the directory were not asked for
	}
	look := newFinder(r.source)
	defer look.Close()
	for i, p := range r.promises {
		count, shown := 0, []string{}
		err := p.index.Unmet(func(name string) error {
			if r.ctx.Err() != nil {
				return r.ctx.Err()
			}
			if name == p.name || !r.wanted(name) || !r.absent(look, name) || r.listedBefore(i, name) {
				return nil
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

// listedBefore reports whether an earlier manifest lists the path, so that it
// was told already.
func (r *run) listedBefore(i int, name string) bool {
	for _, p := range r.promises[:i] {
		if found, err := p.index.Promised(name); err == nil && len(found.Digests) > 0 {
			return true
		}
	}
	return false
}

// absent reports whether there is no file of that name, nor a link in the source
// to one. What cannot be opened is there; why it was not copied was told.
func (r *run) absent(look *fsys.Finder, name string) bool {
	f, _, err := look.Open(name)
	if err == nil {
		f.Close()
		return false
	}
	if other := (*fsys.KindError)(nil); !fsys.NoSuchFile(err) && !errors.Is(err, fsys.ErrOutside) && !errors.As(err, &other) {
		return false
	}
	if !r.opts.OneFileSystem {
		return true
	}
	for end := strings.IndexByte(name, '/'); end > 0; { // in another file system it was not asked for
		if info, err := look.Lstat(name[:end]); err == nil && info.ID.Dev != r.sourceInfo.ID.Dev {
			return false
		}
		next := strings.IndexByte(name[end+1:], '/')
		if next < 0 {
			break
		}
		end += 1 + next
	}
	return true
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
