package resume

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/journal"
	"github.com/seed65876f4f/sealift/internal/quote"
)

// OpenLog reads the records of interrupted runs in the journal, and begins or continues the
// log of this copy. The log is on the device before any file is copied. Otherwise a later
// run could treat a file that a power cut left incomplete as one that existed before.
//
// The warnings are for the user, also with an error. The caller must Close the log.
func (j *Journal) OpenLog(o Options) (_ *Log, warnings []error, err error) {
	l := newLog(j, o)
	if warnings, err = l.readAll(); err == nil {
		err = l.begin()
	}
	if err != nil {
		l.Close()
		return nil, warnings, err
	}
	return l, warnings, nil
}

// ReadLog is OpenLog for a dry run: it reads the journal of that name in root and changes
// nothing. The log is nil if there is no journal. The run never writes it.
func ReadLog(root *fsys.Dir, name string, o Options) (_ *Log, warnings []error, err error) {
	dir, err := openJournalDir(root, name, func() (uint32, error) {
		uid, _ := fsys.Identity()
		return uid, nil
	})
	if errors.Is(err, fs.ErrNotExist) || fsys.IsSymlinkRefusal(err) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	j := &Journal{root: root, name: name, dir: dir, foreign: map[string]bool{}}
	if info, err := dir.Lstat(lockName); err == nil {
		j.since = info.Ctime
	}
	l := newLog(j, o)
	l.readOnly = true
	if warnings, err = l.readAll(); err != nil {
		l.Close()
		return nil, warnings, err
	}
	return l, warnings, nil
}

func newLog(j *Journal, o Options) *Log {
	l := &Log{journal: j, opts: o, name: LogName(o.Source), ids: map[string]bool{}, start: time.Now()}
	l.mu.dirs, l.mu.left = map[string]string{}, map[string]string{}
	l.mu.inFlight = map[*InFlight]*progress{}
	l.mu.last = l.start
	return l
}

// readAll reads the records of interrupted runs.
func (l *Log) readAll() (warnings []error, err error) {
	if warnings, err = l.readOthers(); err != nil {
		return warnings, err
	}
	warning, err := l.readOwn()
	if warning != nil {
		warnings = append(warnings, warning)
	}
	return warnings, err
}

// readOthers reads since when files may be incomplete because of copies from other
// sources, or copies that were made with other options.
func (l *Log) readOthers() (warnings []error, err error) {
	names, err := l.journal.logs()
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if name == l.name {
			continue
		}
		f, log, err := readLog(l.journal.dir, name)
		if err != nil {
			return warnings, err
		}
		if f == nil { // no run made this
			continue
		}
		f.Close()
		head := l.addInterrupted(log)
		own := strings.HasPrefix(name, setAsidePrefix+l.name)
		if own || l.opts.File != "" { // logs of the same file, which this run judges in any case
			l.ids[head.ID] = head.ID != ""
			l.SetAside = l.SetAside || own
			continue
		}
		l.journal.foreign[name] = true
		what := "the copy from " + quote.Name(head.Source) + " to it"
		if head.Source == "" {
			what = "another copy to it, of which the journal is damaged,"
		}
		warnings = append(warnings, fmt.Errorf("%s is not finished; its journal stays, until that copy is run again", what))
	}
	return warnings, nil
}

// readLog reads a log. log is nil if it is damaged, and f as well if the name is not that of a
// regular file.
func readLog(dir *fsys.Dir, name string) (f *fsys.File, log *journal.Log, err error) {
	f, info, err := dir.OpenRegular(name)
	var other *fsys.KindError
	if errors.As(err, &other) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	log, err = journal.Read(fsys.ReaderAt{File: f}, info.Size)
	if errors.Is(err, journal.ErrDamaged) {
		return f, nil, nil
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, log, nil
}

// addInterrupted records that a run was interrupted, and returns the header of its log. The header
// is empty if log is nil because the log is damaged.
func (l *Log) addInterrupted(log *journal.Log) (head journal.Header) {
	begun := l.journal.since
	if log != nil {
		head, begun = log.Header, log.Header.Begun
	}
	if begun.Sec > time.Now().Unix() { // the clock was set back: any file may be incomplete
		begun = fsys.Time{}
	}
	if !l.Interrupted || begun.Compare(l.begun) < 0 {
		l.begun = begun
	}
	l.Interrupted = true
	return head
}

// readOwn reads the log of this source. If it cannot be continued, it is renamed, and the
// warning says why.
func (l *Log) readOwn() (warning, err error) {
	f, log, err := readLog(l.journal.dir, l.name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("its journal cannot be read: %w", err)
	}
	head := l.addInterrupted(log)
	l.ids[head.ID] = head.ID != ""
	var why string
	switch {
	case log == nil:
		why = "is damaged"
	case head.Begun.Sec > time.Now().Unix():
		why = "is from the future"
	case head.Options != l.opts.Terms || head.Source != l.opts.Source:
		why = "is of a copy with other options"
	default:
		l.known, l.knownFile = log, f
		for p := range log.Partials() {
			l.mu.left[p.Temp] = p.Path
		}
		return nil, nil
	}
	if f != nil {
		f.Close()
	}
	l.SetAside = true
	warning = fmt.Errorf("the journal of an interrupted copy %s; it is set aside, and what that copy has left is compared with the source", why)
	if l.readOnly {
		return warning, nil
	}
	return warning, l.journal.dir.Rename(l.name, setAsidePrefix+l.name+"."+journal.NewID())
}

// begin continues the log that was read, or else makes a new one, and syncs it.
func (l *Log) begin() error {
	head := journal.Header{ID: journal.NewID(), Options: l.opts.Terms, Source: l.opts.Source}
	var err error
	if l.known != nil {
		head = l.known.Header
		err = l.continueLog()
	} else {
		err = l.createLog(head)
	}
	if err != nil {
		return err
	}
	info, err := l.mu.file.Stat()
	if err != nil {
		return err
	}
	l.Owner = info.UID
	l.journal.root.SetTempID(head.ID)
	l.ids[head.ID] = true
	if !l.opts.Durable {
		err := l.mu.file.Keep()
		l.mu.file = nil
		return err
	}
	if err := l.mu.file.Sync(); err != nil {
		return err
	}
	if err := l.journal.dir.Sync(); err != nil {
		return err
	}
	return l.journal.root.Sync()
}

// createLog begins a new log.
func (l *Log) createLog(head journal.Header) error {
	return l.place(func(to *appender) error {
		info, err := to.file.Stat()
		head.Begun = info.Ctime
		if err == nil && l.clock != nil {
			head.Begun, err = l.now()
		}
		if err != nil {
			return err
		}
		if l.Interrupted && l.begun.Compare(head.Begun) < 0 {
			head.Begun = l.begun
		}
		l.mu.w, err = journal.Create(to, head)
		return err
	})
}

// continueLog appends to the log where its good part ends. If the log belongs to another
// user, or has several names, it appends to a copy.
func (l *Log) continueLog() error {
	uid, _ := fsys.Identity()
	p, _, err := l.journal.dir.Reopen(l.name, uid)
	if err != nil {
		return l.copyLog()
	}
	l.mu.file = p
	l.mu.w = journal.Continue(&appender{file: p, off: l.known.Size}, l.known.Header, l.known.Size)
	return p.Truncate(l.known.Size)
}

// place makes a new log, which gets its name when write has written it.
func (l *Log) place(write func(*appender) error) error {
	p, err := l.journal.dir.Create(true)
	if err != nil {
		return err
	}
	if err = write(&appender{file: p}); err == nil && l.opts.Durable {
		err = p.Sync() // it may replace one that is good
	}
	if err == nil {
		err = p.Place(l.name)
	}
	if err != nil {
		p.Abort()
		return err
	}
	l.mu.file = p
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
