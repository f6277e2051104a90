package repair

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/metadata"
	"github.com/seed65876f4f/sealift/internal/pipe"
	"github.com/seed65876f4f/sealift/internal/verify"
)

// Result is what became of a damaged file.
type Result uint8

// The results.
const (
	Untried  Result = iota // The run was stopped before.
	Repaired               // The name has the right content.
	Left                   // The file stays as it was, because no directory has a good copy; Reasons or Err says why.
	Failed                 // The file could not be replaced; Err says why.
)

// File is a damaged file, and what became of it.
type File struct {
	*verify.DamagedFile
	Result  Result
	From    int      // index in Options.From of the directory that a Repaired file was read from
	Linked  string   // the other name of the file to which a Repaired name was linked; "" if it was copied
	Kept    string   // path under which the damaged file is kept; "" if there is none
	Size    int64    // size of a Repaired file in bytes
	Reasons []Reason // why the directories before did not help, in the order of Options.From
	Err     error
}

// Reason says why a directory has no good copy of a file.
type Reason struct {
	From int    // index in Options.From
	Kind string // one of the constants below
	Err  error  // details; nil for Absent
}

// The kinds of reasons.
const (
	Absent     = "absent"
	Differs    = "differs"
	OtherType  = "other_type"
	Unreadable = "unreadable"
)

// group has the names of one damaged file, or one missing file.
type group struct {
	number int64
	files  []*File
	done   bool
}

func newGroup(number int64, names []*verify.DamagedFile) *group {
	g := &group{number: number}
	for _, n := range names {
		g.files = append(g.files, &File{DamagedFile: n, From: -1})
	}
	return g
}

// leave says why the file stays as it is.
func (f *File) leave(err error) { f.Result, f.Err = Left, err }

// fail says why the file could not be replaced.
func (f *File) fail(err error) { f.Result, f.Err = Failed, err }

// isUnopened reports whether the check could not open the file.
func (f *File) isUnopened() bool { return f.Info.ID == fsys.ID{} }

// matches reports whether content with these digests and this size, in bytes, matches all lines about the
// file. A line without a digest does not justify a replacement.
func (f *File) matches(algorithms []hash.Algorithm, digests hash.Digests, size int64) bool {
	proven := false
	for _, line := range f.Lines {
		if line.Size >= 0 && line.Size != size {
			return false
		}
		for _, want := range line.Digests {
			if !want.Matches(digests[slices.Index(algorithms, want.Algorithm)]) {
				return false
			}
			proven = true
		}
	}
	return proven
}

// hasSize reports whether the lines about the file allow a size, in bytes.
func (f *File) hasSize(size int64) bool {
	return !slices.ContainsFunc(f.Lines, func(l verify.Listed) bool { return l.Size >= 0 && l.Size != size })
}

// algorithms returns those of all lines about the names of the group.
func (g *group) algorithms() (list []hash.Algorithm) {
	for _, f := range g.files {
		for _, line := range f.Lines {
			for _, want := range line.Digests {
				if !slices.Contains(list, want.Algorithm) {
					list = append(list, want.Algorithm)
				}
			}
		}
	}
	return list
}

// worker repairs one group after the other.
type worker struct {
	*run
	ctx        context.Context
	set        *hash.Set
	algorithms []hash.Algorithm
}

// replacement is a complete file with the right content. It is on the device, under the temporary name
// of the damaged file. In a dry run it has no name.
type replacement struct {
	of      *File
	spot    spot
	digests hash.Digests
	size    int64
	id      fsys.ID
}

// do repairs the names of a group. The first name that a directory has a good copy of is replaced, and names
// whose lines the same content matches become links of it. Each other name is repaired separately.
func (w *worker) do(g *group) {
	w.algorithms = g.algorithms()
	w.set = hash.NewSet(w.algorithms)
	for _, f := range g.files {
		if f.Result != Untried { // it is a link of an earlier name
			continue
		}
		if err := w.refuse(f); err != nil {
			f.leave(err)
			continue
		}
		n, err := w.obtain(f)
		switch {
		case w.ctx.Err() != nil && n == nil:
			f.Result = Untried
			return
		case errors.As(err, new(*leftError)):
			f.leave(err)
		case err != nil:
			f.fail(err)
		case n == nil:
			f.Result = Left // it may become a link of a later name
		default:
			w.place(n, g)
			n.spot.close()
		}
	}
}

// leftError means that no directory could help, because of what has the name of the file.
type leftError struct{ error }

var (
	errReserved = errors.New("it has a name that Sealift reserves")
	errManifest = errors.New("it is a manifest, which a repair never changes")
	errNoDigest = errors.New("no line has a digest of it")
	errOtherNow = errors.New("it has changed since it was checked; run the same command again")
	errReadBack = errors.New("the device returned other data than were written")
)

// refuse returns why a file must not be replaced, whatever the other directories have.
func (w *worker) refuse(f *File) error {
	names, err := elements(f.Path)
	switch {
	case err != nil:
		return err
	case slices.ContainsFunc(names, func(s string) bool { return fsys.IsTemp(s) || fsys.IsJournal(s) }):
		return errReserved
	case isManifest(names):
		return errManifest
	case f.Verdict == verify.Unreadable && !f.Broken:
		return errors.New(f.Reason)
	case !slices.ContainsFunc(f.Lines, func(l verify.Listed) bool { return len(l.Digests) > 0 }):
		return errNoDigest
	case contradicts(f.Lines):
		return errors.New("its lines contradict each other")
	}
	return nil
}

// contradicts reports whether no content can match all lines: two have different digests of one algorithm, or
// different sizes.
func contradicts(lines []verify.Listed) bool {
	size := int64(-1)
	digests := map[hash.Algorithm]hash.Expected{}
	for _, l := range lines {
		if l.Size >= 0 && size >= 0 && l.Size != size {
			return true
		}
		size = max(size, l.Size)
		for _, d := range l.Digests {
			if known, ok := digests[d.Algorithm]; ok && !known.Matches(d.Digest) && !d.Matches(known.Digest) {
				return true
			}
			digests[d.Algorithm] = d
		}
	}
	return false
}

// obtain returns a replacement of f. It is nil if no directory has a good copy; f.Reasons says why. The
// error is one of writing.
func (w *worker) obtain(f *File) (*replacement, error) {
	at, err := w.dirs.enter(w.run, f.Path)
	if fsys.IsSymlinkRefusal(err) {
		return nil, &leftError{errors.New("a part of its path is a symbolic link, or no directory")}
	}
	if err != nil {
		return nil, err
	}
	n, err := w.obtainAt(f, at)
	if n == nil {
		at.close()
	}
	return n, err
}

func (w *worker) obtainAt(f *File, at spot) (*replacement, error) {
	if err := w.unchanged(f, at); err != nil {
		return nil, err
	}
	if n, err := w.leftover(f, at); n != nil || err != nil {
		return n, err
	}
	f.Reasons = nil
	for i := range w.others {
		src, reason := w.open(i, f)
		if src == nil {
			f.Reasons = append(f.Reasons, reason)
			continue
		}
		n, reason, err := w.copy(f, at, src)
		src.close()
		if n != nil || err != nil || w.ctx.Err() != nil {
			f.From = i
			return n, err
		}
		reason.From = i
		f.Reasons = append(f.Reasons, reason)
	}
	return nil, nil //nolint:nilnil // no directory has a good copy
}

// unchanged returns an error if the entry of a damaged file is not the one that was checked.
func (w *worker) unchanged(f *File, at spot) error {
	if at.dir == nil { // a dry run, in which the directory does not exist
		return nil
	}
	now, err := at.dir.Lstat(at.name)
	switch {
	case fsys.NoSuchFile(err) && f.Verdict == verify.Missing:
		return nil
	case fsys.NoSuchFile(err):
		return errOtherNow
	case err != nil && f.isUnopened() && f.Broken: // the device cannot even describe it
		return nil
	case err != nil:
		return err
	case now.Kind != fsys.Regular:
		return &leftError{&fsys.KindError{Kind: now.Kind}}
	case f.isUnopened() && f.Broken: // the check could not open it
		f.Info = now
		return nil
	case now.ID != f.Info.ID || now.Size != f.Info.Size || now.Mtime != f.Info.Mtime:
		return errOtherNow // a further name changes the ctime, so that is not compared
	}
	return nil
}

// other is an open file of one of the other directories.
type other struct {
	file *fsys.File
	info fsys.Info
}

func (o *other) close() { o.file.Close() }

// open opens the file of the i-th directory that has one of the spellings of f. It returns nil and
// the reason if there is none.
func (w *worker) open(i int, f *File) (*other, Reason) {
	paths := []string{f.Path}
	if f.Verdict == verify.Missing {
		paths = f.Spellings
	}
	reason := Reason{From: i, Kind: Absent}
	for _, path := range paths {
		file, info, err := openBelow(w.others[i], path)
		kind := (*fsys.KindError)(nil)
		switch {
		case err == nil && f.hasSize(info.Size):
			return &other{file, info}, reason
		case err == nil:
			file.Close()
			reason.Kind, reason.Err = Differs, fmt.Errorf("it has %d bytes", info.Size)
		case errors.As(err, &kind):
			reason.Kind, reason.Err = OtherType, err
		case fsys.IsSymlinkRefusal(err):
			reason.Kind, reason.Err = OtherType, errors.New("a part of its path is no directory")
		case !fsys.NoSuchFile(err):
			reason.Kind, reason.Err = Unreadable, err
		}
		if reason.Kind != Absent {
			break
		}
	}
	return nil, reason
}

// openBelow opens a regular file by an untrusted path. It follows no symbolic link.
func openBelow(root *fsys.Dir, path string) (*fsys.File, fsys.Info, error) {
	look := fsys.NewFinder(root, 1)
	defer look.Close()
	dir, name, err := look.Parent(path)
	if err != nil {
		return nil, fsys.Info{}, err
	}
	return dir.OpenRegular(name)
}

// copy reads src once, hashes it and writes it into a new file at the place of f. It returns the reason if
// the content does not match the lines about f. The error is one of writing.
func (w *worker) copy(f *File, at spot, src *other) (n *replacement, reason Reason, err error) {
	var sinks []*pipe.Sink
	var p *fsys.Pending
	if !w.opts.DryRun {
		if p, err = at.dir.CreateAs(at.temp); err != nil {
			return nil, reason, err
		}
		defer p.Abort() // has no effect after Settle
		sinks = []*pipe.Sink{{File: p}}
	}
	w.counters.TotalBytes.Add(src.info.Size)
	w.set.Reset()
	size, err := w.pipe.Move(w.ctx, src.file, src.info, w.set, sinks, pipe.MoveOptions{})
	if err != nil {
		return nil, Reason{Kind: Unreadable, Err: err}, nil
	}
	for _, s := range sinks {
		if s.Finish(size); s.Err != nil {
			return nil, reason, s.Err
		}
	}
	n = &replacement{of: f, spot: at, digests: w.set.Digests(), size: size}
	if !f.matches(w.algorithms, n.digests, size) {
		return nil, Reason{Kind: Differs}, nil
	}
	if p == nil {
		return n, reason, nil
	}
	if err := w.complete(n, p, src); err != nil {
		return nil, reason, err
	}
	return n, reason, nil
}

// complete gives a pending file its metadata, checks that it is on the device, and leaves it under
// its temporary name.
func (w *worker) complete(n *replacement, p *fsys.Pending, src *other) error {
	if err := w.applyMetadata(n, p, src); err != nil {
		return err
	}
	if err := p.Sync(); err != nil {
		return err
	}
	info, err := p.Stat()
	if err != nil {
		return err
	}
	n.id = info.ID
	if w.opts.Cache != pipe.CacheKeep {
		w.set.Reset()
		if _, _, err := w.pipe.ReadBack(w.ctx, &p.File, info, w.set, w.opts.Cache, nil); err != nil {
			return fmt.Errorf("reading it back: %w", err)
		}
		if !w.set.Digests().Equal(n.digests) {
			return errReadBack
		}
	}
	return p.Settle(n.spot.temp)
}

// applyMetadata sets the metadata of the damaged file, or that of src if there is none.
func (w *worker) applyMetadata(n *replacement, p *fsys.Pending, src *other) error {
	dir, err := n.spot.dir.Stat()
	if err != nil {
		return err
	}
	store, err := w.systems.Find(n.spot.dir, dir)
	if err != nil {
		return err
	}
	v := metadata.Values{}
	damaged, err := w.readDamaged(n.of, n.spot, &v)
	if err != nil {
		return err
	}
	if !damaged {
		v.Info = src.info
		if err := w.reader.Read(&src.file.Object, n.of.Path, &v); err != nil {
			return err
		}
	}
	now, err := p.Stat()
	if err != nil {
		return err
	}
	_, err = store.Apply(&p.Object, &v, now, true, true)
	return err
}

// readDamaged reads the metadata of the damaged file. It returns false if there is none, or if it
// cannot be read.
func (w *worker) readDamaged(f *File, at spot, v *metadata.Values) (bool, error) {
	if f.isUnopened() {
		return false, nil
	}
	o, err := at.dir.OpenObject(at.name)
	if err != nil {
		return false, nil //nolint:nilerr // src has metadata, too
	}
	defer o.Close()
	if v.Info, err = o.Stat(); err != nil {
		return false, nil //nolint:nilerr // as above
	}
	if v.Info.ID != f.Info.ID {
		return false, errOtherNow
	}
	return w.reader.Read(o, f.Path, v) == nil, nil
}

// leftover returns the temporary that a killed repair has left for f, if that file has several names. It is
// complete then, because the killed repair has given it another name of f. leftover removes any other.
func (w *worker) leftover(f *File, at spot) (*replacement, error) {
	if w.opts.DryRun {
		return nil, nil //nolint:nilnil // as if there were none
	}
	info, err := at.dir.Lstat(at.temp)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // there is none
	}
	if err != nil {
		return nil, err
	}
	if info.Kind == fsys.Regular && info.Nlink > 1 {
		if n := w.readLeftover(f, at); n != nil {
			return n, nil
		}
	}
	return nil, at.dir.Remove(at.temp)
}

func (w *worker) readLeftover(f *File, at spot) *replacement {
	left, info, err := at.dir.OpenRegular(at.temp)
	if err != nil {
		return nil
	}
	defer left.Close()
	w.set.Reset()
	size, _, err := w.pipe.ReadBack(w.ctx, left, info, w.set, w.opts.Cache, nil)
	n := &replacement{of: f, spot: at, digests: w.set.Digests(), size: size, id: info.ID}
	if err != nil || !f.matches(w.algorithms, n.digests, size) {
		return nil
	}
	return n
}
