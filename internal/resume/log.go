package resume

import (
	"path"
	"strings"
	"sync"
	"time"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/journal"
)

// Log is the log of the copy from one source to one destination, in the destination's
// journal. It lists the files that are on the device, so that a later run continues the
// copy. Several goroutines may call its methods, except for Close.
//
// If a record cannot be written, the log has failed: nothing more is recorded, and Failure
// returns why. The logs of other sources stay unchanged: their copies are unfinished, and
// files that they left at this destination may be incomplete.
type Log struct {
	// OpenLog sets these, and they do not change.
	Owner uint32 // the user that new files at the destination belong to
	// Interrupted means that there are logs of interrupted runs: of this source, of others,
	// or damaged ones. Then a file that has changed since begun may be incomplete, unless
	// known lists it.
	Interrupted bool
	SetAside    bool // there are logs of this source that cannot be continued

	journal  *Journal
	readOnly bool // of a dry run, to which the journal belongs
	opts     Options
	name     string          // in the journal
	ids      map[string]bool // of the logs of this source, which are in the names of their temporaries

	clock *fsys.Pending // of an attempt: a file at the destination that shows the time there; else nil

	clockDir *fsys.Dir // with the clock, which has a name there if the file system needs one

	known     *journal.Log // what interrupted runs have recorded; nil if nothing
	knownFile *fsys.File
	begun     fsys.Time // the first of the interrupted runs
	start     time.Time // this one

	checkpoints sync.Mutex // held during a checkpoint: there is one at a time

	// mu is never held during a sync, because the goroutine that calls Add serves all
	// destinations.
	mu struct {
		sync.Mutex
		file     *fsys.Pending // nil when nothing is recorded
		w        *journal.Writer
		err      error // why nothing more is recorded
		reported bool  // Failure has returned err

		files    int64             // added since the last checkpoint
		bytes    int64             // of these files
		dirs     map[string]string // with a name that was not synced yet → a path in each
		inFlight map[*InFlight]*progress
		kept     []journal.Partial // of a run that was stopped
		left     map[string]string // temporaries of large files that this run has not continued → path
		total    int64             // bytes added in this run
		worked   bool              // something got its name in this run

		last    time.Time     // end of the last checkpoint
		syncing time.Duration // spent on syncing the log
	}
}

// Options has the properties that a log depends on.
type Options struct {
	Source string // its absolute path, without symbolic links
	File   string // the name of a single file at the destination, or "" for a tree
	// Terms is one word for the options that the log's lines depend on, including those
	// that select files. A log with other terms is not continued.
	Terms     string
	Hashes    []hash.Algorithm
	KeepTimes bool // copied files get the modification time of the source
	// Durable means that the caller syncs files. Without it, no file is known to be on the
	// device, and nothing is recorded.
	Durable bool
	// TimeStamps describes those of a file system in the destination. ok: it is known.
	TimeStamps func(device uint64) (t TimeStamps, ok bool)
}

const (
	logPrefix      = "log."   // with the source's hash: a log
	setAsidePrefix = "aside." // a log of this source that cannot be continued
)

// LogName returns the name that the log of a copy from source has in the journal.
func LogName(source string) string { return logPrefix + hashOf(source)[:16] }

// IsLog reports whether a name in the journal is that of a log.
func IsLog(name string) bool {
	return strings.HasPrefix(name, logPrefix) || strings.HasPrefix(name, setAsidePrefix)
}

// IsLogOf reports whether a name in the journal is that of a log of copies from source.
func IsLogOf(name, source string) bool {
	return strings.HasPrefix(strings.TrimPrefix(name, setAsidePrefix), LogName(source))
}

// WorthKeeping reports whether a stopped run leaves records that the next run needs.
func (l *Log) WorthKeeping() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Interrupted || l.mu.worked
}

// Add adds a file that was copied or found equal. It counts when a checkpoint covers it.
// separately means that the file was synced separately, so its name needs a sync as well.
func (l *Log) Add(f *journal.File, separately bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.worked = true
	if separately {
		for p := f.Path; ; p = path.Dir(p) { // and the directories above, which may be new
			dir := path.Dir(p)
			if _, known := l.mu.dirs[dir]; known {
				break
			}
			l.mu.dirs[dir] = p
			if dir == "." {
				break
			}
		}
	}
	if !l.active() {
		return
	}
	if err := l.mu.w.File(f); err != nil {
		l.fail(err)
		return
	}
	l.mu.files++
	l.mu.bytes += f.Size
	l.mu.total += f.Size
}

// SyncedNames says that the caller has synced the directory with this path, "." for the root,
// and adds no more files in it. So checkpoints need not sync it.
func (l *Log) SyncedNames(dir string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.mu.dirs, dir)
}

// ReadBack reads the log that is being written; nil if the log has failed.
func (l *Log) ReadBack() (*journal.Log, error) {
	l.mu.Lock()
	if !l.active() {
		l.mu.Unlock()
		return nil, nil
	}
	err := l.mu.w.Flush()
	file, size := l.mu.file, l.mu.w.Size()
	l.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return journal.Read(fsys.ReaderAt{File: &file.File}, size)
}

// Active reports whether the log is being written.
func (l *Log) Active() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.active()
}

// active is Active for callers that hold mu.
func (l *Log) active() bool { return l.mu.file != nil && l.mu.err == nil }

// Fail ends the log because of err: nothing more is recorded.
func (l *Log) Fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fail(err)
}

// fail is Fail for callers that hold mu. The first error counts; nil is none.
func (l *Log) fail(err error) {
	if l.mu.err == nil {
		l.mu.err = err
	}
}

// Failed reports whether the log has failed.
func (l *Log) Failed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.err != nil
}

// Failure returns why nothing more is recorded. It returns that once, and nil from then on.
func (l *Log) Failure() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.reported {
		return nil
	}
	l.mu.reported = l.mu.err != nil
	return l.mu.err
}

// Close closes the log, which stays. It may be called again.
func (l *Log) Close() {
	if l.knownFile != nil {
		l.knownFile.Close()
		l.knownFile, l.known = nil, nil
	}
	l.mu.Lock()
	file := l.mu.file
	l.mu.file = nil
	l.mu.Unlock()
	if l.clock != nil {
		l.clock.Abort()
		l.clock = nil
	}
	if l.clockDir != nil {
		l.clockDir.Close()
		l.clockDir = nil
	}
	if l.readOnly {
		l.journal.Close()
	}
	if file != nil {
		_ = file.Keep() // its records that count were synced
	}
}
