package resume

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"time"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/journal"
	"github.com/seed65876f4f/sealift/internal/quote"
)

// Reader answers what interrupted runs have left at one destination. It reads their logs once, at the
// beginning. Several goroutines may call its methods, except for Close.
//
// The logs of other sources stay unchanged: their copies are unfinished, and files that they left
// at this destination may be incomplete.
type Reader struct {
	// Interrupted means that there are logs of interrupted runs: of this source, of others,
	// or damaged ones. Then a file that has changed since begun may be incomplete, unless
	// known lists it.
	Interrupted bool
	SetAside    bool // true if there are logs of this source that cannot be continued

	journal  *Journal
	readOnly bool // true in a dry run, which owns journal then
	opts     Options
	name     string                 // name of the log of this source, in the journal
	fenced   func(name string) bool // see Fence; may be nil
	ids      map[string]bool        // ids in the names of temporaries, of all logs of this source

	known     *journal.Log // records of interrupted runs; nil if there are none
	knownFile *fsys.File
	begun     fsys.Time // start of the first interrupted run

	mu   sync.Mutex
	left map[string]string // temporaries of large files that this run has not continued → path
}

// Options has the properties that a log depends on.
type Options struct {
	Source string // absolute path of the source, without symbolic links
	File   string // the name of a single file at the destination, or "" for a tree
	// Terms is one word for the options that the log's lines depend on, including those
	// that select files. A log with other terms is not continued.
	Terms     string
	Hashes    []hash.Algorithm
	KeepTimes bool // true if copied files get the modification time of the source
	// Durable means that the caller syncs files. Without it, no file is known to be on the
	// device, and nothing is recorded.
	Durable bool
	// TimeStamps describes those of a file system in the destination. ok: it is known.
	TimeStamps func(device uint64) (t TimeStamps, ok bool)
}

const (
	logPrefix      = "log."   // prefix of logs; the source's hash follows
	setAsidePrefix = "aside." // prefix of logs of this source that cannot be continued
)

// LogName returns the name that the log of a copy from source has in the journal.
func LogName(source string) string { return logPrefix + hashOf(source)[:16] }

// IsLog reports whether a name in the journal is that of a log.
func IsLog(name string) bool {
	return strings.HasPrefix(name, logPrefix) || strings.HasPrefix(name, setAsidePrefix)
}

// CountLogs returns how many logs the journal in a directory has, and whether one of them is of a copy
// from source. The error is fs.ErrNotExist if there is no journal.
func CountLogs(dir *fsys.Dir, source string) (logs int, own bool, err error) {
	journal, err := dir.OpenDir(JournalName(""))
	if err != nil {
		return 0, false, err
	}
	defer journal.Close()
	err = journal.Each(func(name []byte, _ uint64, _ fsys.Kind) bool {
		if s := string(name); IsLog(s) {
			logs++
			own = own || strings.HasPrefix(strings.TrimPrefix(s, setAsidePrefix), LogName(source))
		}
		return true
	})
	return logs, own, err
}

// ReadLogs reads the logs of interrupted runs in the journal. A log of this source that cannot be
// continued is renamed.
//
// The warnings are for the user, also with an error. The caller must Close the Reader.
func (j *Journal) ReadLogs(o Options) (_ *Reader, warnings []error, err error) {
	r := newReader(j, o)
	if warnings, err = r.readAll(); err != nil {
		r.Close()
		return nil, warnings, err
	}
	return r, warnings, nil
}

// ReadLogs is Journal.ReadLogs for a dry run: it reads the journal of that name in root and changes
// nothing. The Reader is nil if there is no journal.
func ReadLogs(root *fsys.Dir, name string, o Options) (_ *Reader, warnings []error, err error) {
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
	r := newReader(j, o)
	r.readOnly = true
	if warnings, err = r.readAll(); err != nil {
		r.Close()
		return nil, warnings, err
	}
	return r, warnings, nil
}

func newReader(j *Journal, o Options) *Reader {
	return &Reader{journal: j, opts: o, name: LogName(o.Source), ids: map[string]bool{}, left: map[string]string{}}
}

// Close closes the logs. It may be called again.
func (r *Reader) Close() {
	if r.knownFile != nil {
		r.knownFile.Close()
		r.knownFile, r.known = nil, nil
	}
	if r.readOnly {
		r.journal.Close()
	}
}

// readAll reads the records of interrupted runs.
func (r *Reader) readAll() (warnings []error, err error) {
	if warnings, err = r.readOthers(); err != nil {
		return warnings, err
	}
	warning, err := r.readOwn()
	if warning != nil {
		warnings = append(warnings, warning)
	}
	return warnings, err
}

// readOthers reads since when files may be incomplete because of copies from other
// sources, or copies that were made with other options.
func (r *Reader) readOthers() (warnings []error, err error) {
	names, err := r.journal.logs()
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if name == r.name {
			continue
		}
		f, log, err := readLog(r.journal.dir, name)
		if err != nil {
			return warnings, err
		}
		if f == nil { // no run made this
			continue
		}
		f.Close()
		head := r.addInterrupted(log)
		own := strings.HasPrefix(name, setAsidePrefix+r.name)
		if own || r.opts.File != "" { // logs of the same file, which this run judges in any case
			r.ids[head.ID] = head.ID != ""
			r.SetAside = r.SetAside || own
			continue
		}
		r.journal.foreign[name] = true
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
func (r *Reader) addInterrupted(log *journal.Log) (head journal.Header) {
	begun := r.journal.since
	if log != nil {
		head, begun = log.Header, log.Header.Begun
	}
	if begun.Sec > time.Now().Unix() { // the clock was set back: any file may be incomplete
		begun = fsys.Time{}
	}
	if !r.Interrupted || begun.Compare(r.begun) < 0 {
		r.begun = begun
	}
	r.Interrupted = true
	return head
}

// readOwn reads the log of this source. If it cannot be continued, it is renamed, and the
// warning says why.
func (r *Reader) readOwn() (warning, err error) {
	f, log, err := readLog(r.journal.dir, r.name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("its journal cannot be read: %w", err)
	}
	head := r.addInterrupted(log)
	r.ids[head.ID] = head.ID != ""
	var why string
	switch {
	case log == nil:
		why = "is damaged"
	case head.Begun.Sec > time.Now().Unix():
		why = "is from the future"
	case head.Options != r.opts.Terms || head.Source != r.opts.Source:
		why = "is of a copy with other options"
	default:
		r.known, r.knownFile = log, f
		for p := range log.Partials() {
			r.left[p.Temp] = p.Path
		}
		return nil, nil
	}
	if f != nil {
		f.Close()
	}
	r.SetAside = true
	warning = fmt.Errorf("the journal of an interrupted copy %s; it is set aside, and what that copy has left is compared with the source", why)
	if r.readOnly {
		return warning, nil
	}
	return warning, r.journal.dir.Rename(r.name, setAsidePrefix+r.name+"."+journal.NewID())
}
