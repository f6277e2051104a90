package engine

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/journal"
)

// ledger is the log of one destination, in its journal: what of the copy is on
// the device, so that a later run continues instead of beginning anew. Checkpoints
// add to it, see checkpoint.go; the format is that of package journal.
//
// A log belongs to a source. Those of other sources stay where they are: their
// copies are not finished, and what they have left at this destination may be
// torn.
type ledger struct {
	target *target
	name   string // of the log in the journal
	ids    map[string]bool
	// known is what interrupted runs have noted, nil if nothing. unsettled says
	// that there were any: a file that has changed since begun may be torn, unless
	// the log lists it.
	known     *journal.Log
	knownFile *fsys.File
	unsettled bool
	begun     fsys.Time
	asides    bool             // there are logs of this source that do not fit
	foreign   map[string]bool  // logs of other sources
	forces    bool             // what is noted is forced to the device
	hashes    []hash.Algorithm // of this run
	settled   bool             // the logs that stay are older than the manifests in place, see noteSettled
	owner     uint32           // that new files at the destination get

	mu       sync.Mutex
	file     *fsys.Pending // the log; nil when nothing is noted
	w        *journal.Writer
	noted    int64             // files noted since the last checkpoint
	bytes    int64             // of them
	dirs     map[string]string // with a name that is not forced yet → a path in each
	inFlight map[*transfer]*inFlight
	kept     []journal.Partial // of a run that was stopped
	left     map[string]string // temporaries of large files that nobody has continued yet → path
	total    int64             // bytes noted in this run
	worked   bool              // something was given a name in this run
	begin    time.Time
	last     time.Time     // end of the last checkpoint
	forcing  time.Duration // spent in forcing the log

	flushing sync.Mutex // held during a checkpoint
}

const (
	logPrefix   = "log."   // with the source's hash: a log
	asidePrefix = "aside." // a log of this source that does not fit
)

// isLog reports whether a name in the journal is that of a log.
func isLog(name string) bool {
	return strings.HasPrefix(name, logPrefix) || strings.HasPrefix(name, asidePrefix)
}

// logName is the name of the log of a copy from source.
func logName(source string) string {
	set := hash.NewSet([]hash.Algorithm{hash.XXH128})
	set.Write([]byte(source))
	return logPrefix + hexString(set.Digests()[0])[:16]
}

// logOptions is what a log's lines depend on, and which files they can be about, as
// one word. The policy and the metadata to keep are not among it: what is listed is
// equal to the source, and its metadata are brought up to date like those of any
// file that is.
func (o *Options) logOptions() string {
	names := make([]string, len(o.Hashes))
	for i, h := range o.Hashes {
		names[i] = string(h)
	}
	values := url.Values{
		"hash":   {strings.Join(names, ",")},
		"part":   {fmt.Sprintf("%x,%x,%t", o.Filter.Fingerprint(), o.Only.Fingerprint(), o.OneFileSystem)},
		"sparse": {o.Sparse.String()},
	}
	if o.Reflink == ReflinkNever { // the beginning of a large file may be a clone's
		values.Set("reflink", o.Reflink.String())
	}
	return values.Encode()
}

// part reports whether the run may leave out files of the source.
func (o *Options) part() bool { return o.Filter != nil || o.Only != nil || o.OneFileSystem }

// openLedger reads what interrupted runs have noted in the journal and begins or
// continues the log. It is durable before anything is copied: a file that is
// torn by a power cut is not taken for one that was there before.
func (t *target) openLedger(r *run) error {
	source, err := r.route.SourcePath()
	if err != nil {
		return err
	}
	l := &ledger{
		target: t, name: logName(source), forces: r.opts.Sync != SyncNone, hashes: r.opts.Hashes,
		ids: map[string]bool{}, foreign: map[string]bool{}, dirs: map[string]string{},
		inFlight: map[*transfer]*inFlight{}, left: map[string]string{},
		begin: time.Now(), last: time.Now(),
	}
	t.ledger = l
	if err := l.readOthers(r); err != nil {
		return err
	}
	head := journal.Header{ID: journal.NewID(), Options: r.opts.logOptions(), Source: source}
	if err := l.read(r, head); err != nil {
		return err
	}
	if err := l.readSettled(); err != nil {
		return err
	}
	if l.known != nil {
		head.ID = l.known.Header.ID
		err = l.resume()
	} else {
		err = l.create(head)
	}
	if err != nil {
		return err
	}
	info, err := l.file.Stat()
	if err != nil {
		return err
	}
	l.owner = info.UID
	t.root.SetTempID(head.ID)
	l.ids[head.ID] = true
	if !l.forces { // then nothing is ever known to be on the device
		err := l.file.Keep()
		l.file = nil
		return err
	}
	if err := l.file.Sync(); err != nil {
		return err
	}
	if err := t.journal.dir.Sync(); err != nil {
		return err
	}
	return t.root.Sync()
}

// readOthers learns since when files may be torn by copies that are not this
// one, or were made with other options.
func (l *ledger) readOthers(r *run) error {
	listing, err := l.target.journal.dir.List()
	if err != nil {
		return err
	}
	for i := range listing.Len() {
		name := listing.Name(i)
		own := strings.HasPrefix(name, asidePrefix+l.name)
		if name == l.name || !isLog(name) {
			continue
		}
		head, isLog, err := l.header(name)
		if err != nil {
			return err
		}
		if !isLog { // nothing that a run has made
			continue
		}
		l.suspect(head)
		if own {
			l.ids[head.ID] = head.ID != ""
			l.asides = true
			continue
		}
		if l.target.Name != "" { // of the same file, which this run looks at in any case
			l.ids[head.ID] = head.ID != ""
			continue
		}
		l.foreign[name] = true
		what := "the copy from " + quoteName(head.Source) + " to it"
		if head.Source == "" {
			what = "another copy to it, of which the journal is damaged,"
		}
		r.report(Event{Kind: EventWarning, Target: l.target.Given, Err: fmt.Errorf("%s is not finished; its journal stays, until that copy is run again", what)})
	}
	return nil
}

// header reads what a log begins with; nothing if it is damaged.
func (l *ledger) header(name string) (head journal.Header, isLog bool, err error) {
	f, log, err := l.open(name)
	if f != nil {
		f.Close()
	}
	if log != nil {
		head = log.Header
	}
	return head, f != nil, err
}

// open reads the log name. Without a log it is damaged, without a file it is none.
func (l *ledger) open(name string) (*fsys.File, *journal.Log, error) {
	f, info, err := l.target.journal.dir.OpenRegular(name)
	var other *fsys.KindError
	if errors.As(err, &other) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	log, err := journal.Read(fsys.ReaderAt{File: f}, info.Size)
	if err != nil && !errors.Is(err, journal.ErrDamaged) {
		f.Close()
		return nil, nil, err
	}
	if err != nil {
		log = nil
	}
	return f, log, nil
}

// suspect notes that a run that began with head was interrupted.
func (l *ledger) suspect(head journal.Header) {
	if head.ID == "" { // damaged
		head.Begun = l.target.journal.since
	}
	if head.Begun.Sec > time.Now().Unix() { // the clock has been put back: anything may be torn
		head.Begun = fsys.Time{}
	}
	if !l.unsettled || head.Begun.Compare(l.begun) < 0 {
		l.begun = head.Begun
	}
	l.unsettled = true
}

// read reads the log of this source. One that does not fit is set aside.
func (l *ledger) read(r *run, want journal.Header) error {
	f, log, err := l.open(l.name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("its journal cannot be read: %w", err)
	}
	why := "is damaged"
	if log != nil {
		l.suspect(log.Header)
		l.ids[log.Header.ID] = true
		switch now := time.Now().Unix(); {
		case log.Header.Begun.Sec > now:
			why = "is from the future"
		case log.Header.Options != want.Options || log.Header.Source != want.Source:
			why = "is of a copy with other options"
		default:
			l.known, l.knownFile = log, f
			for p := range log.Partials() {
				l.left[p.Temp] = p.Path
			}
			return nil
		}
	} else {
		l.suspect(journal.Header{})
	}
	if f != nil {
		f.Close()
	}
	l.asides = true
	r.report(Event{Kind: EventWarning, Target: l.target.Given, Err: fmt.Errorf(
		"the journal of an interrupted copy %s; it is set aside, and what that copy has left is compared with the source", why)})
	return l.target.journal.dir.Rename(l.name, asidePrefix+l.name+"."+journal.NewID())
}

// create begins a new log.
func (l *ledger) create(head journal.Header) error {
	return l.place(func(w *logFile) error {
		info, err := w.file.Stat()
		if err != nil {
			return err
		}
		head.Begun = info.Ctime
		if l.unsettled && l.begun.Compare(head.Begun) < 0 {
			head.Begun = l.begun
		}
		l.w, err = journal.Create(w, head)
		return err
	})
}

// resume goes on with the log where its good part ends, or with a copy of that if
// the log is another user's, or has another name, too.
func (l *ledger) resume() error {
	uid, _ := fsys.Identity()
	w := &logFile{off: l.known.Size}
	p, _, err := l.target.journal.dir.Reopen(l.name, uid)
	if err == nil {
		w.file, l.file = p, p
		err = p.Truncate(l.known.Size)
	} else {
		err = l.place(func(to *logFile) error {
			_, err := io.Copy(to, io.NewSectionReader(fsys.ReaderAt{File: l.knownFile}, 0, l.known.Size))
			w.file = to.file
			return err
		})
	}
	l.w = journal.Continue(w, l.known.Header, l.known.Size)
	return err
}

// place makes a new log and gives it its name when write has written it.
func (l *ledger) place(write func(*logFile) error) error {
	p, err := l.target.journal.dir.Create(true)
	if err != nil {
		return err
	}
	if err = write(&logFile{file: p}); err == nil && l.forces {
		err = p.Sync() // it may replace one that is good
	}
	if err == nil {
		err = p.Place(l.name)
	}
	if err != nil {
		p.Abort()
		return err
	}
	l.file = p
	return nil
}

// logFile appends.
type logFile struct {
	file *fsys.Pending
	off  int64
}

func (f *logFile) Write(p []byte) (int, error) {
	if err := f.file.WriteAt(p, f.off); err != nil {
		return 0, err
	}
	f.off += int64(len(p))
	return len(p), nil
}

// close closes the log, which stays.
func (l *ledger) close() {
	if l.knownFile != nil {
		l.knownFile.Close()
		l.knownFile, l.known = nil, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file != nil {
		_ = l.file.Keep() // what counts of it was forced
		l.file = nil
	}
}

// worthKeeping reports whether a run that was stopped leaves something that the
// next one has to know.
func (l *ledger) worthKeeping() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.unsettled || l.worked
}

// note adds a file that was copied, or found equal. It counts when the next
// checkpoint is made. each says that it was synced separately, as its name has to be. The
// collector alone calls it.
func (l *ledger) note(f *journal.File, each bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.worked = true
	if each {
		for p := f.Path; ; p = path.Dir(p) { // and the directories above, which may be new
			dir := path.Dir(p)
			if _, known := l.dirs[dir]; known {
				break
			}
			l.dirs[dir] = p
			if dir == "." {
				break
			}
		}
	}
	if l.file == nil || l.target.logErr != nil {
		return nil
	}
	if err := l.w.File(f); err != nil {
		return err
	}
	l.noted++
	l.bytes += f.Size
	l.total += f.Size
	return nil
}

// writeDown hands to the system what is noted, and how far large files have come:
// if this process is killed, that much is known, and can be proved by reading it.
func (l *ledger) writeDown() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil || l.target.logErr != nil {
		return nil
	}
	for _, f := range l.inFlight {
		m, ok := f.sink.Reached()
		if !ok || m.Off < f.written+writtenEvery {
			continue
		}
		if err := l.w.Written(f.at(m)); err != nil {
			return err
		}
		f.written = m.Off
	}
	return l.w.Flush()
}

// notes reports whether the log is being written.
func (l *ledger) notes() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.file != nil && l.target.logErr == nil
}

// fail says that nothing more is noted, and why. reportLog tells it.
func (l *ledger) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.target.logErr == nil {
		l.target.logErr = err
	}
}

// reportLog tells, once, that nothing more is noted at a destination.
func (r *run) reportLog(t *target) {
	t.ledger.mu.Lock()
	err := t.logErr
	told := t.logReported
	t.logReported = err != nil
	t.ledger.mu.Unlock()
	switch {
	case err == nil || told:
	case fsys.DestinationLost(err):
		t.drop(r, "", err)
	case !t.isDropped():
		r.failEnd(t, failure.StageJournal, err)
	}
}
