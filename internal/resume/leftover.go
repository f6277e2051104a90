package resume

import (
	"cmp"
	"errors"
	"io/fs"
	"path"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/journal"
)

// Leftover is the temporary of a large file that an interrupted run has left.
type Leftover struct {
	// Partial has the part that is on the device.
	journal.Partial
	File *fsys.Pending // opened; the caller commits, aborts or keeps it

	log *Log
}

// TakeLeftover opens the temporary in dir of a large file that an interrupted run has left.
// path names the file and src describes the source's file. The result is nil if there is
// none.
func (l *Log) TakeLeftover(dir *fsys.Dir, path string, src fsys.Info) *Leftover {
	line, ok := l.partial(path, src)
	if !ok {
		return nil
	}
	l.mu.Lock()
	_, left := l.mu.left[line.Temp]
	delete(l.mu.left, line.Temp)
	l.mu.Unlock()
	if !left {
		return nil
	}
	file, info, err := dir.Reopen(line.Temp, l.Owner)
	if err != nil { // the temporary does not exist any more, or is another file: the copy starts at the beginning
		l.mu.Lock()
		l.mu.left[line.Temp] = path // to be removed
		l.mu.Unlock()
		return nil
	}
	f := &Leftover{Partial: line, File: file, log: l}
	if info.Size < line.Offset {
		f.Discard()
		return nil
	}
	return f
}

// Continues returns how many bytes of a file a run would continue with, if the temporary in dir has
// not changed since.
func (l *Log) Continues(dir *fsys.Dir, path string, src fsys.Info) int64 {
	line, ok := l.partial(path, src)
	if !ok {
		return 0
	}
	have, err := dir.Lstat(line.Temp)
	if err != nil || have.Kind != fsys.Regular || have.Size < line.Offset {
		return 0
	}
	return line.Offset
}

// Reached returns how many bytes of a file an interrupted run has copied, at most.
func (l *Log) Reached(path string, src fsys.Info) int64 {
	if l == nil {
		return 0
	}
	line, _ := l.partial(path, src)
	return line.Offset
}

// partial returns how much of a large file an interrupted run has written to the device.
func (l *Log) partial(path string, src fsys.Info) (line journal.Partial, ok bool) {
	if l.known == nil {
		return line, false
	}
	line, ok = l.known.Partial(path)
	if !ok || line.Size != src.Size || line.Mtime != src.Mtime || line.Ctime != src.Ctime {
		return journal.Partial{}, false
	}
	return line, true
}

// Shorten records, on the device, that the file can be continued at off with these states
// of the digests. The caller calls it before it truncates the file there. It has no effect
// if the log has no later offset of the file.
func (f *Leftover) Shorten(off int64, states [][]byte) error {
	if f.Offset <= off || !f.log.Active() {
		return nil
	}
	line := f.Partial
	line.Offset, line.States = off, states
	log, err := f.log.replacePartial(&line)
	if err != nil {
		return err
	}
	return log.Sync()
}

// replacePartial writes line, which replaces earlier records of its path, and returns the log,
// which is not synced yet.
func (l *Log) replacePartial(line *journal.Partial) (*fsys.Pending, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.mu.w.Partial(line); err != nil {
		return nil, err
	}
	return l.mu.file, l.mu.w.Flush()
}

// Discard removes the file and records that it does not exist any more.
func (f *Leftover) Discard() {
	f.File.Abort()
	f.log.gone(f.Path)
}

// RemoveTemporaries removes the temporaries of interrupted runs from dir, except those that
// can be continued. names has every name in dir that such temporaries can have.
func (l *Log) RemoveTemporaries(dir *fsys.Dir, names []string) error {
	if !l.Interrupted && l.clock == nil {
		return nil
	}
	for _, name := range names {
		id, ok := fsys.TempID(name)
		if !ok || !l.ids[id] {
			continue
		}
		l.mu.Lock()
		_, left := l.mu.left[name]
		l.mu.Unlock()
		if left {
			continue
		}
		if err := remove(dir, name); err != nil {
			return err
		}
	}
	return nil
}

// RemoveLeftovers removes the temporaries in dir that this run has not continued; rel is
// the path of dir, "" or "." for the root.
func (l *Log) RemoveLeftovers(dir *fsys.Dir, rel string) error {
	if !l.Interrupted {
		return nil
	}
	rel = cmp.Or(rel, ".")
	for temp := range l.takeLeft(func(file string) bool { return path.Dir(file) == rel }) {
		if err := remove(dir, temp); err != nil {
			return err
		}
	}
	return nil
}

// RemoveAllLeftovers removes all temporaries that this run has not continued.
func (l *Log) RemoveAllLeftovers(find *fsys.Finder) error {
	for temp, file := range l.takeLeft(func(string) bool { return true }) {
		dir, _, err := find.Parent(file)
		if err != nil {
			continue // its directory does not exist any more, or is another directory
		}
		if err := remove(dir, temp); err != nil {
			return err
		}
	}
	return nil
}

// takeLeft returns the temporaries that this run has not continued, each with the path of
// its file, if wanted accepts that path. It returns each one once.
func (l *Log) takeLeft(wanted func(file string) bool) map[string]string {
	taken := map[string]string{}
	l.mu.Lock()
	defer l.mu.Unlock()
	for temp, file := range l.mu.left {
		if wanted(file) {
			taken[temp] = file
			delete(l.mu.left, temp)
		}
	}
	return taken
}

// remove removes an entry of dir that may not exist any more.
func remove(dir *fsys.Dir, name string) error {
	if err := dir.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
