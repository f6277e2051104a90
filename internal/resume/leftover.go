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
	File *fsys.Pending // the opened temporary; the caller commits, aborts or keeps it
}

// TakeLeftover opens the temporary in dir of a large file that an interrupted run has left.
// path names the file, src describes the source's file, and owner is the owner of new files. The
// result is nil if there is none.
func (r *Reader) TakeLeftover(dir *fsys.Dir, path string, src fsys.Info, owner uint32) *Leftover {
	line, ok := r.partial(path, src)
	if !ok {
		return nil
	}
	r.mu.Lock()
	_, left := r.left[line.Temp]
	delete(r.left, line.Temp)
	r.mu.Unlock()
	if !left {
		return nil
	}
	file, info, err := dir.Reopen(line.Temp, owner)
	if err != nil { // the temporary does not exist any more, or is another file: the copy starts at the beginning
		r.mu.Lock()
		r.left[line.Temp] = path // RemoveAllLeftovers removes it
		r.mu.Unlock()
		return nil
	}
	if info.Size < line.Offset {
		file.Abort()
		return nil
	}
	return &Leftover{Partial: line, File: file}
}

// Continues returns how many bytes of a file a run would continue with, if the temporary in dir has
// not changed since.
func (r *Reader) Continues(dir *fsys.Dir, path string, src fsys.Info) int64 {
	line, ok := r.partial(path, src)
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
func (r *Reader) Reached(path string, src fsys.Info) int64 {
	if r == nil {
		return 0
	}
	line, _ := r.partial(path, src)
	return line.Offset
}

// partial returns how much of a large file an interrupted run has written to the device.
func (r *Reader) partial(path string, src fsys.Info) (line journal.Partial, ok bool) {
	if r.known == nil {
		return line, false
	}
	line, ok = r.known.Partial(path)
	if !ok || line.Size != src.Size || line.Mtime != src.Mtime || line.Ctime != src.Ctime {
		return journal.Partial{}, false
	}
	return line, true
}

// Shorten records, on the device, that a leftover can be continued at off with these states
// of the digests. The caller calls it before it truncates the file there. It has no effect
// if the log has no later offset of the file.
func (w *Writer) Shorten(f *Leftover, off int64, states [][]byte) error {
	if f.Offset <= off || !w.Active() {
		return nil
	}
	line := f.Partial
	line.Offset, line.States = off, states
	w.mu.Lock()
	err := w.recordPartial(&line) // the record replaces earlier records of the path
	if err == nil {
		err = w.mu.lines.Flush()
	}
	file := w.mu.file
	w.mu.Unlock()
	if err != nil {
		return err
	}
	return file.Sync()
}

// Discard removes a leftover and records that it does not exist any more.
func (w *Writer) Discard(f *Leftover) {
	f.File.Abort()
	w.gone(f.Path)
}

// RemoveTemporaries removes the temporaries of interrupted runs from dir, except those that
// can be continued. names has every name in dir that such temporaries can have.
func (r *Reader) RemoveTemporaries(dir *fsys.Dir, names []string) error {
	for _, name := range names {
		id, ok := fsys.TempID(name)
		if !ok || !r.ids[id] && (r.fenced == nil || !r.fenced(name)) {
			continue
		}
		r.mu.Lock()
		_, left := r.left[name]
		r.mu.Unlock()
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
func (r *Reader) RemoveLeftovers(dir *fsys.Dir, rel string) error {
	rel = cmp.Or(rel, ".")
	for temp := range r.takeLeft(func(file string) bool { return path.Dir(file) == rel }) {
		if err := remove(dir, temp); err != nil {
			return err
		}
	}
	return nil
}

// RemoveAllLeftovers removes all temporaries that this run has not continued.
func (r *Reader) RemoveAllLeftovers(find *fsys.Finder) error {
	for temp, file := range r.takeLeft(func(string) bool { return true }) {
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
func (r *Reader) takeLeft(wanted func(file string) bool) map[string]string {
	taken := map[string]string{}
	r.mu.Lock()
	defer r.mu.Unlock()
	for temp, file := range r.left {
		if wanted(file) {
			taken[temp] = file
			delete(r.left, temp)
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
