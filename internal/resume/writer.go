package resume

import (
	"io"
	"path"
	"sync"
	"time"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/journal"
)

// Writer writes the log of the copy from one source to one destination, in the destination's
// journal. The log lists the files that are on the device, so that a later run continues the
// copy. Several goroutines may call its methods, except for Close.
//
// If a record cannot be written, the log has failed: nothing more is recorded, and Failure
// returns why.
type Writer struct {
	Owner uint32 // the user that new files at the destination belong to

	journal *Journal
	name    string // name of the log
	durable bool   // value of Options.Durable

	clock    *fsys.Pending // file of an attempt that shows the time at the destination; else nil
	clockDir *fsys.Dir     // directory with the clock, which has a name there if the file system needs one
	mark     fsys.ID       // identity of the mark of the plan in clockDir, for an attempt

	start       time.Time
	checkpoints sync.Mutex // held during a checkpoint: there is one at a time

	// mu is never held during a sync, because the goroutine that calls Add serves all
	// destinations.
	mu struct {
		sync.Mutex
		file     *fsys.Pending // file of the log; nil when nothing is recorded
		lines    *journal.Writer
		err      error // the reason why nothing more is recorded
		reported bool  // true if Failure has returned err

		files    int64             // number of files since the last checkpoint
		bytes    int64             // bytes of these files
		dirs     map[string]string // directories with a name that was not synced yet → a path in each
		inFlight map[*InFlight]*progress
		kept     []journal.Partial // partial records of a run that was stopped
		partials map[string]int64  // paths with a partial record → length of the part in bytes
		total    int64             // bytes added in this run
		worked   bool              // true if something got its name in this run

		last    time.Time     // end of the last checkpoint
		syncing time.Duration // time spent on syncing the log
	}
}

// Begin continues the log that r has read, or else makes a new one. The log is on the device before
// any file is copied. Otherwise a later run could treat a file that a power cut left incomplete as one
// that existed before. The caller must Close the Writer.
func (j *Journal) Begin(r *Reader) (*Writer, error) {
	w := newWriter(j, r)
	if err := w.begin(r); err != nil {
		w.Close()
		return nil, err
	}
	return w, nil
}

func newWriter(j *Journal, r *Reader) *Writer {
	w := &Writer{journal: j, name: r.name, durable: r.opts.Durable, start: time.Now()}
	w.mu.dirs, w.mu.inFlight, w.mu.partials = map[string]string{}, map[*InFlight]*progress{}, map[string]int64{}
	if r.known != nil {
		for p := range r.known.Partials() {
			w.mu.partials[p.Path] = p.Offset
		}
	}
	w.mu.last = w.start
	return w
}

// begin is Begin without closing w after an error.
func (w *Writer) begin(r *Reader) error {
	head := journal.Header{ID: journal.NewID(), Options: r.opts.Terms, Source: r.opts.Source}
	var err error
	if r.known != nil {
		head = r.known.Header
		err = w.continueLog(r)
	} else {
		err = w.createLog(r, head)
	}
	if err != nil {
		return err
	}
	info, err := w.mu.file.Stat()
	if err != nil {
		return err
	}
	w.Owner = info.UID
	w.journal.root.SetTempID(head.ID)
	if !w.durable {
		err := w.mu.file.Keep()
		w.mu.file = nil
		return err
	}
	if err := w.mu.file.Sync(); err != nil {
		return err
	}
	if err := w.journal.dir.Sync(); err != nil {
		return err
	}
	return w.journal.root.Sync()
}

// createLog begins a new log.
func (w *Writer) createLog(r *Reader, head journal.Header) error {
	return w.place(func(to *appender) error {
		info, err := to.file.Stat()
		head.Begun = info.Ctime
		if err == nil && w.clock != nil {
			head.Begun, err = w.now()
		}
		if err != nil {
			return err
		}
		if r.Interrupted && r.begun.Compare(head.Begun) < 0 {
			head.Begun = r.begun
		}
		w.mu.lines, err = journal.Create(to, head)
		return err
	})
}

// continueLog appends to the log where its good part ends. If the log belongs to another
// user, or has several names, it appends to a copy.
func (w *Writer) continueLog(r *Reader) error {
	uid, _ := fsys.Identity()
	p, _, err := w.journal.dir.Reopen(w.name, uid)
	if err != nil {
		return w.copyLog(r)
	}
	w.mu.file = p
	w.mu.lines = journal.Continue(&appender{file: p, off: r.known.Size}, r.known.Header, r.known.Size)
	return p.Truncate(r.known.Size)
}

// copyLog begins a log with the valid part of the one that was read.
func (w *Writer) copyLog(r *Reader) error {
	return w.place(func(to *appender) error {
		_, err := io.Copy(to, r.knownFile.Reader(r.known.Size))
		w.mu.lines = journal.Continue(to, r.known.Header, r.known.Size)
		return err
	})
}

// place makes a new log, which gets its name when write has written it.
func (w *Writer) place(write func(*appender) error) error {
	p, err := w.journal.dir.Create(true)
	if err != nil {
		return err
	}
	if err = write(&appender{file: p}); err == nil && w.durable {
		err = p.Sync() // the new log may replace one that is good
	}
	if err == nil {
		err = p.Place(w.name)
	}
	if err != nil {
		p.Abort()
		return err
	}
	w.mu.file = p
	return nil
}

// appender is an io.Writer that appends to a file.
type appender struct {
	file *fsys.Pending
	off  int64
}

func (a *appender) Write(p []byte) (int, error) {
	if err := a.file.WriteAt(p, a.off); err != nil {
		return 0, err
	}
	a.off += int64(len(p))
	return len(p), nil
}

// Worked reports whether something got its name in this run.
func (w *Writer) Worked() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mu.worked
}

// Add adds a file that was copied or found equal. It counts when a checkpoint covers it.
// separately means that the file was synced separately, so its name needs a sync as well.
func (w *Writer) Add(f *journal.File, separately bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.worked = true
	if separately {
		for p := f.Path; ; p = path.Dir(p) { // the directories above may be new, too
			dir := path.Dir(p)
			if _, known := w.mu.dirs[dir]; known {
				break
			}
			w.mu.dirs[dir] = p
			if dir == "." {
				break
			}
		}
	}
	if !w.active() {
		return
	}
	if err := w.mu.lines.File(f); err != nil {
		w.fail(err)
		return
	}
	w.mu.files++
	w.mu.bytes += f.Size
	w.mu.total += f.Size
}

// SyncedNames says that the caller has synced the directory with this path, "." for the root,
// and adds no more files in it. So checkpoints need not sync it.
func (w *Writer) SyncedNames(dir string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.mu.dirs, dir)
}

// Active reports whether the log is being written.
func (w *Writer) Active() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.active()
}

// active is Active for callers that hold mu.
func (w *Writer) active() bool { return w.mu.file != nil && w.mu.err == nil }

// Fail ends the log because of err: nothing more is recorded.
func (w *Writer) Fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fail(err)
}

// fail is Fail for callers that hold mu. The first error counts; nil is none.
func (w *Writer) fail(err error) {
	if w.mu.err == nil {
		w.mu.err = err
	}
}

// Failed reports whether the log has failed.
func (w *Writer) Failed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mu.err != nil
}

// Failure returns why nothing more is recorded. It returns that once, and nil from then on.
func (w *Writer) Failure() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mu.reported {
		return nil
	}
	w.mu.reported = w.mu.err != nil
	return w.mu.err
}

// Close closes the log, which stays. It may be called again.
func (w *Writer) Close() {
	w.mu.Lock()
	file := w.mu.file
	w.mu.file = nil
	w.mu.Unlock()
	if w.clock != nil {
		w.clock.Abort()
		w.clock = nil
	}
	if w.clockDir != nil {
		w.clockDir.Close()
		w.clockDir = nil
	}
	if file != nil {
		_ = file.Keep() // its records that count were synced
	}
}
