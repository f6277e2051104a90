package resume

import (
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/journal"
)

// Attempt describes the log of an attempt at a shard. The log is not at the destination,
// because many attempts copy to one destination at the same time, without locks.
type Attempt struct {
	Dir    *fsys.Dir // contains the log; the caller closes it
	Name   string    // of the log in it
	TempID string    // in the names of temporaries at the destination
	// Earlier has the attempts before, the first one first. All of them are fenced off:
	// they commit no more files.
	Earlier []EarlierAttempt
}

// EarlierAttempt is an attempt before the current one.
type EarlierAttempt struct {
	Dir    *fsys.Dir // nil if it does not exist any more
	TempID string
	Ended  bool // its process writes no more
}

// OpenAttempt is OpenLog for an attempt. It begins a log that continues those of the
// earlier attempts. The destination must have the mark of a plan. The caller must Close log
// and journal.
func OpenAttempt(root *fsys.Dir, a Attempt, o Options) (*Journal, *Log, error) {
	dir, err := a.Dir.OpenDir(".")
	if err != nil {
		return nil, nil, err
	}
	j := &Journal{root: root, dir: dir, foreign: map[string]bool{}}
	l := newLog(j, o)
	l.name = a.Name
	root.SetTempID(a.TempID)
	err = l.openClock()
	if err == nil {
		err = l.readEarlier(a.Earlier)
	}
	if err == nil {
		err = l.beginAttempt(a.TempID)
	}
	if err != nil {
		l.Close()
		j.Close()
		return nil, nil, err
	}
	return j, l, nil
}

// openClock creates a file at the destination that shows the time there. The log of an
// attempt may be on another file system with another clock.
func (l *Log) openClock() error {
	dir, err := l.journal.root.OpenDir(JournalName(""))
	if errors.Is(err, fs.ErrNotExist) {
		return ErrNotPlanned
	}
	if err != nil {
		return err
	}
	l.clockDir = dir
	if l.clock, err = dir.Create(true); err != nil { // network file systems have no files without a name
		return err
	}
	info, err := l.clock.Stat()
	l.Owner = info.UID
	return err
}

// Clock returns the file in the destination's journal that shows the time there, or nil if the log
// is in the journal itself. The caller may change its mode, owner and times.
func (l *Log) Clock() *fsys.Pending { return l.clock }

// now returns the time at the destination. A file there that was changed earlier has no
// later change time.
func (l *Log) now() (fsys.Time, error) {
	file := l.mu.file
	if l.clock != nil {
		if err := l.clock.WriteAt([]byte{0}, 0); err != nil {
			return fsys.Time{}, err
		}
		file = l.clock
	}
	info, err := file.Stat()
	return info.Mtime, err
}

// readEarlier reads the logs of the earlier attempts. The last valid one contains the
// records of those before it.
func (l *Log) readEarlier(earlier []EarlierAttempt) error {
	quiet := true               // this attempt and all later ones have ended
	unused := map[string]bool{} // ids of temporaries that no process writes to
	for i := len(earlier) - 1; i >= 0; i-- {
		e := earlier[i]
		l.ids[e.TempID] = true
		quiet = quiet && e.Ended
		unused[e.TempID] = quiet
		if l.known != nil || e.Dir == nil {
			continue
		}
		file, log, err := readLog(e.Dir, l.name)
		if errors.Is(err, fs.ErrNotExist) { // the attempt was killed before it copied a file
			continue
		}
		if err != nil {
			return fmt.Errorf("log of attempt %d: %w", i+1, err)
		}
		head := l.addInterrupted(log)
		if log != nil && head.Options == l.opts.Terms && head.Source == l.opts.Source {
			l.known, l.knownFile = log, file
		} else if file != nil {
			file.Close()
		}
	}
	if l.known == nil {
		return nil
	}
	for p := range l.known.Partials() {
		if id, ok := fsys.TempID(p.Temp); ok && unused[id] {
			l.mu.left[p.Temp] = p.Path
		}
	}
	return nil
}

// beginAttempt begins the log with the records of earlier attempts, durably.
func (l *Log) beginAttempt(id string) error {
	var err error
	if l.known == nil {
		err = l.createLog(journal.Header{ID: id, Options: l.opts.Terms, Source: l.opts.Source})
	} else {
		err = l.copyLog()
	}
	if err != nil {
		return err
	}
	if !l.opts.Durable {
		err := l.mu.file.Keep()
		l.mu.file = nil
		return err
	}
	return l.journal.dir.Sync() // place has synced the log
}

// copyLog begins a log with the valid part of the one that was read.
func (l *Log) copyLog() error {
	return l.place(func(to *appender) error {
		_, err := io.Copy(to, l.knownFile.Reader(l.known.Size))
		l.mu.w = journal.Continue(to, l.known.Header, l.known.Size)
		return err
	})
}
