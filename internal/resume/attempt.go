package resume

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/journal"
)

// Attempt describes the log of an attempt at a shard. The log is not at the destination,
// because many attempts copy to one destination at the same time, without locks.
type Attempt struct {
	Dir    *fsys.Dir // contains the log; the caller closes it
	Name   string    // name of the log in Dir
	TempID string    // id in the names of temporaries at the destination
	// Earlier has the attempts before, the first one first.
	Earlier []EarlierAttempt
	// Fenced reports whether a temporary is that of a lower attempt.
	Fenced func(name string) bool
}

// EarlierAttempt is an attempt before the current one.
type EarlierAttempt struct {
	Dir    *fsys.Dir // directory of the log; nil if it does not exist any more
	TempID string
	Ended  bool // true if its process writes no more
}

// OpenAttempt opens a destination for an attempt. It reads the logs of the earlier attempts, and
// begins one that continues them. The destination must have the mark of a plan. The caller must
// Close all results.
func OpenAttempt(root *fsys.Dir, a Attempt, o Options) (_ *Journal, _ *Reader, _ *Writer, err error) {
	dir, err := a.Dir.OpenDir(".")
	if err != nil {
		return nil, nil, nil, err
	}
	j := &Journal{root: root, dir: dir, foreign: map[string]bool{}}
	r := newReader(j, o)
	r.name, r.fenced = a.Name, a.Fenced
	w := newWriter(j, r)
	root.SetTempID(a.TempID)
	if err = w.openClock(); err == nil {
		err = r.readEarlier(a.Earlier)
	}
	if err == nil {
		err = w.beginAttempt(r, a.TempID)
	}
	if err != nil {
		w.Close()
		r.Close()
		j.Close()
		return nil, nil, nil, err
	}
	return j, r, w, nil
}

// openClock creates a file at the destination that shows the time there. The log of an
// attempt may be on another file system with another clock.
func (w *Writer) openClock() error {
	dir, err := w.journal.root.OpenDir(JournalName(""))
	if errors.Is(err, fs.ErrNotExist) {
		return ErrNotPlanned
	}
	if err != nil {
		return err
	}
	w.clockDir = dir
	mark, err := dir.Lstat(planName)
	if err != nil {
		return ErrNotPlanned
	}
	w.mark = mark.ID
	if w.clock, err = dir.Create(true); err != nil { // network file systems have no files without a name
		return err
	}
	info, err := w.clock.Stat()
	w.Owner = info.UID
	return err
}

// ErrNotMarked says that a destination does not have the mark of the plan any more.
var ErrNotMarked = errors.New("the destination does not have the mark of the plan any more")

// CheckMark returns ErrNotMarked if the plan of an attempt has ended at this destination.
func (w *Writer) CheckMark() error {
	mark, err := w.clockDir.Lstat(planName)
	if fsys.NoSuchFile(err) || err == nil && mark.ID != w.mark {
		return ErrNotMarked
	}
	return nil // the next operation at the destination reports other errors
}

// Fence lets the run remove the temporaries for which fenced returns true.
func (r *Reader) Fence(fenced func(name string) bool) { r.fenced = fenced }

// Clock returns the file in the destination's journal that shows the time there, or nil if the log
// is in the journal itself. The caller may change its mode, owner and times.
func (w *Writer) Clock() *fsys.Pending { return w.clock }

// now returns the time at the destination. A file there that was changed earlier has no
// later change time.
func (w *Writer) now() (fsys.Time, error) {
	file := w.mu.file
	if w.clock != nil {
		if err := w.clock.WriteAt([]byte{0}, 0); err != nil {
			return fsys.Time{}, err
		}
		file = w.clock
	}
	info, err := file.Stat()
	return info.Mtime, err
}

// readEarlier reads the logs of the earlier attempts. The last valid one contains the
// records of those before it.
func (r *Reader) readEarlier(earlier []EarlierAttempt) error {
	quiet := true               // true if this attempt and all later ones have ended
	unused := map[string]bool{} // ids of temporaries that no process writes to
	for i := len(earlier) - 1; i >= 0; i-- {
		e := earlier[i]
		quiet = quiet && e.Ended
		unused[e.TempID] = quiet
		if r.known != nil || e.Dir == nil {
			continue
		}
		file, log, err := readLog(e.Dir, r.name)
		if errors.Is(err, fs.ErrNotExist) { // the attempt was killed before it copied a file
			continue
		}
		if err != nil {
			return fmt.Errorf("log of attempt %d: %w", i+1, err)
		}
		head := r.addInterrupted(log)
		if log != nil && head.Options == r.opts.Terms && head.Source == r.opts.Source {
			r.known, r.knownFile = log, file
		} else if file != nil {
			file.Close()
		}
	}
	if r.known == nil {
		return nil
	}
	for p := range r.known.Partials() {
		if id, ok := fsys.TempID(p.Temp); ok && unused[id] {
			r.left[p.Temp] = p.Path
		}
	}
	return nil
}

// beginAttempt begins the log with the records of earlier attempts, durably.
func (w *Writer) beginAttempt(r *Reader, id string) error {
	var err error
	if r.known == nil {
		err = w.createLog(r, journal.Header{ID: id, Options: r.opts.Terms, Source: r.opts.Source})
	} else {
		err = w.copyLog(r)
	}
	if err != nil {
		return err
	}
	if !w.durable {
		err := w.mu.file.Keep()
		w.mu.file = nil
		return err
	}
	return w.journal.dir.Sync() // place has synced the log
}
