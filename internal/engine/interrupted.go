package engine

import (
	"cmp"
	"errors"
	"io/fs"
	"path"
	"time"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/journal"
	"github.com/seed65876f4f/sealift/internal/walk"
)

// listed returns the digests of a file that an interrupted run has copied, or
// found equal, and forced to the device, if neither it nor the source's has
// changed since. Only a change time that programs cannot set shows that.
func (l *ledger) listed(s *fileSystem, path string, src, have fsys.Info, r *run) (hash.Digests, bool) {
	if l.known == nil {
		return nil, false
	}
	f, at, ok, err := l.known.File(path)
	if err != nil || !ok || !l.fits(&f, src, have) { // what cannot be read is not known
		return nil, false
	}
	if at.Sec > time.Now().Unix() { // the clock has been put back: it proves nothing
		return nil, false
	}
	if r.opts.Preserve&PreserveTimes == 0 || !s.sameTime(have.Mtime, src.Mtime) {
		return nil, false // another file may have come to be here, with its directory
	}
	return f.Digests, s.ctimeHolds && s.before(have.Ctime, at) // without such a change time, it is read
}

// written returns the digests of a file that an interrupted run has copied, or
// found equal, if the source's has not changed since. It need not be on the device.
func (l *ledger) written(path string, src, have fsys.Info, r *run) (hash.Digests, bool) {
	if l.known == nil || len(r.opts.Hashes) == 0 {
		return nil, false
	}
	f, ok, err := l.known.Written(path)
	if err == nil && !ok { // forced, but not proved to be what it was: linked to since, or changed in the clock's last tick
		f, _, ok, err = l.known.File(path)
	}
	return f.Digests, err == nil && ok && l.fits(&f, src, have)
}

// fits reports whether a line of the log is about the file that the source has
// now, and has the digests that are wanted.
func (l *ledger) fits(f *journal.File, src, have fsys.Info) bool {
	return f.Size == src.Size && f.Mtime == src.Mtime && f.Ctime == src.Ctime && have.Size == src.Size && l.fitsHashes(f.Digests)
}

// fitsHashes reports whether digests are of the hashes of this run.
func (l *ledger) fitsHashes(digests hash.Digests) bool {
	if len(digests) != len(l.hashes) {
		return false
	}
	for i, a := range l.hashes {
		if len(digests[i]) != a.Size() {
			return false
		}
	}
	return true
}

// torn reports whether what stands at the destination may be of an interrupted
// run: after a power cut, a file can have the right size and time and hold zeros.
// Without a change time, the modification time tells: it is the source's already
// when a file gets its name, or else that of the writing.
func (l *ledger) torn(s *fileSystem, src, have fsys.Info) bool {
	if s.ctimeHolds {
		return l.unsettled && !s.before(have.Ctime, l.begun)
	}
	return l.unsettled && (s.sameTime(have.Mtime, src.Mtime) || !s.before(have.Mtime, l.begun))
}

// warnTorn tells of files that policy "never" leaves as an interrupted run has.
func (t *target) warnTorn(r *run, path string) {
	t.mu.Lock()
	told := t.warnedTorn
	t.warnedTorn = true
	t.mu.Unlock()
	if !told {
		err := errors.New("it differs from the source and was changed since a copy was interrupted, as may others; policy never leaves it")
		r.report(Event{Kind: EventWarning, Path: path, Target: t.Given, Err: err})
	}
}

// partial returns how far an interrupted run has come with a large file: what is
// on the device for certain, which may be nothing, and what was written besides.
func (l *ledger) partial(path string, src fsys.Info) (durable, written journal.Partial, ok bool) {
	if l.known == nil {
		return durable, written, false
	}
	durable, _ = l.known.Partial(path)
	written, _ = l.known.WrittenPartial(path)
	fits := func(p journal.Partial) bool {
		return p.Offset > 0 && p.Size == src.Size && p.Mtime == src.Mtime && p.Ctime == src.Ctime
	}
	if !fits(durable) {
		durable = journal.Partial{}
	}
	if !fits(written) || written.Offset <= durable.Offset || durable.Offset > 0 && durable.Temp != written.Temp {
		written = journal.Partial{}
	}
	temp := cmp.Or(durable.Temp, written.Temp)
	l.mu.Lock()
	defer l.mu.Unlock()
	_, left := l.left[temp]
	return durable, written, left
}

// takeLeft says that somebody deals with a temporary that was left.
func (l *ledger) takeLeft(temp string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.left, temp)
}

// giveBack says that nobody does, after all: it is to be removed.
func (l *ledger) giveBack(temp, path string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.left[temp] = path
}

// clean removes the temporaries that interrupted runs have left in a directory,
// of which names has all that can be such, except those that can be continued.
func (l *ledger) clean(dir *fsys.Dir, names []string) error {
	if !l.unsettled {
		return nil
	}
	for _, name := range names {
		id, ok := fsys.TempID(name)
		if !ok || !l.ids[id] {
			continue
		}
		l.mu.Lock()
		_, left := l.left[name]
		l.mu.Unlock()
		if left {
			continue
		}
		if err := dir.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// dropLeft removes the temporaries in dir, the counterpart of src, that nobody has
// continued; all of them if dir is nil, which finds them from the root.
func (l *ledger) dropLeft(dir *fsys.Dir, src *walk.Dir) error {
	if !l.unsettled {
		return nil
	}
	rel := ""
	if dir != nil {
		rel = src.Path()
	}
	gone := map[string]string{} // temporary → path
	l.mu.Lock()
	for temp, p := range l.left {
		if in := path.Dir(p); dir == nil || in == rel || in == "." && rel == "" {
			gone[temp] = p
			delete(l.left, temp)
		}
	}
	l.mu.Unlock()
	if len(gone) == 0 {
		return nil
	}
	var look *fsys.Finder
	if dir == nil {
		look = newFinder(l.target.root)
		defer look.Close()
	}
	for temp, p := range gone {
		in := dir
		if look != nil {
			var err error
			if in, _, err = look.Parent(p); err != nil {
				continue // its directory is not there, or not the one that it was
			}
		}
		if err := in.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// Touched implements catalog.Interrupted.
func (l *ledger) Touched(path string, have fsys.Info) (digests hash.Digests, touched bool) {
	if l.known != nil {
		for _, find := range []func(string) (journal.File, bool, error){
			l.known.Written,
			func(path string) (journal.File, bool, error) {
				f, _, ok, err := l.known.File(path)
				return f, ok, err
			},
		} {
			if f, ok, err := find(path); err == nil && ok && f.Size == have.Size && l.fitsHashes(f.Digests) {
				return f.Digests, true
			}
		}
	}
	s := l.target.fileSystems.known(have.ID.Dev)
	return nil, s == nil || !s.ctimeHolds || !s.before(have.Ctime, l.begun)
}
