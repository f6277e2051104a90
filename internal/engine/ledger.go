package engine

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/journal"
	"github.com/seed65876f4f/sealift/internal/pipe"
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
	asides    bool            // there are logs of this source that do not fit
	foreign   map[string]bool // logs of other sources
	forces    bool            // what is noted is forced to the device
	owner     uint32          // that new files at the destination get

	mu       sync.Mutex
	file     *fsys.Pending // the log; nil when nothing is noted
	w        *journal.Writer
	noted    int64 // files, bytes and directories since the last checkpoint
	bytes    int64
	dirs     map[string]string // directory → a path in it
	followed map[*passage]*followed
	kept     []*journal.Partial // of a run that was stopped
	left     map[string]string  // temporaries of large files that nobody has continued yet → path
	total    int64              // bytes noted in this run
	worked   bool               // something was given a name in this run
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

// logOptions is what a log's lines depend on, as one word, and which files they
// can be about. The policy and the
// metadata to keep are not among it: what is listed is equal to the source, and
// its metadata are brought up to date like those of any file that is.
func (o *Options) logOptions() string {
	names := make([]string, len(o.Hashes))
	for i, h := range o.Hashes {
		names[i] = string(h)
	}
	return url.Values{
		"hash":   {strings.Join(names, ",")},
		"part":   {fmt.Sprintf("%x,%x,%t", o.Filter.Fingerprint(), o.Only.Fingerprint(), o.OneFileSystem)},
		"sparse": {o.Sparse.String()},
	}.Encode()
}

// part reports whether the run may leave out files of the source.
func (o *Options) part() bool { return o.Filter != nil || o.Only != nil || o.OneFileSystem }

// logSource is how a log names the source.
func (rt *route) logSource() (string, error) {
	dir, err := filepath.Abs(rt.dir)
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	return filepath.Join(dir, rt.name), err
}

// openLedger reads what interrupted runs have noted in the journal and begins or
// continues the log. It is durable before anything is copied: a file that is
// torn by a power cut is not taken for one that was there before.
func (t *target) openLedger(r *run) error {
	source, err := r.route.logSource()
	if err != nil {
		return err
	}
	l := &ledger{
		target: t, name: logName(source), forces: r.opts.Sync != SyncNone, ids: map[string]bool{}, foreign: map[string]bool{}, dirs: map[string]string{},
		followed: map[*passage]*followed{}, left: map[string]string{}, begin: time.Now(), last: time.Now(),
	}
	t.ledger = l
	if err := l.readOthers(r); err != nil {
		return err
	}
	head := journal.Header{ID: journal.NewID(), Options: r.opts.logOptions(), Source: source}
	if err := l.read(r, head); err != nil {
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
	if r.opts.Sync == SyncNone { // then nothing is ever known to be on the device
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
		if l.target.name != "" { // of the same file, which this run looks at in any case
			l.ids[head.ID] = head.ID != ""
			continue
		}
		l.foreign[name] = true
		what := "the copy from " + quoteName(head.Source) + " to it"
		if head.Source == "" {
			what = "another copy to it, of which the journal is damaged,"
		}
		r.tell(Event{Kind: EventWarning, Target: l.target.given, Err: fmt.Errorf("%s is not finished; its journal stays, until that copy is run again", what)})
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
	f, info, err := l.target.journal.dir.Open(name)
	if err != nil && fsys.IsSymlinkRefusal(err) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	if info.Kind != fsys.Regular {
		f.Close()
		return nil, nil, nil
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
	r.tell(Event{Kind: EventWarning, Target: l.target.given, Err: fmt.Errorf(
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

// listed returns the digests of a file that an interrupted run has copied, or
// found equal, and forced to the device, if neither it nor the source's has
// changed since.
func (l *ledger) listed(path string, src, have fsys.Info, r *run) (hash.Digests, bool) {
	if l.known == nil {
		return nil, false
	}
	f, at, ok, err := l.known.File(path)
	if err != nil || !ok || !r.fits(&f, src, have) { // what cannot be read is not known
		return nil, false
	}
	t := l.target
	if at.Sec > time.Now().Unix() { // the clock has been put back: it proves nothing
		return nil, false
	}
	if r.opts.Preserve&PreserveTimes == 0 || !t.sameTime(have.Mtime, src.Mtime) {
		return nil, false // another file may have come to be here, with its directory
	}
	return f.Digests, !t.ctimeHolds || have.Ctime.Compare(at) < 0
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
	return f.Digests, err == nil && ok && r.fits(&f, src, have)
}

// fits reports whether a line of the log is about the file that the source has
// now, and has the digests that are wanted.
func (r *run) fits(f *journal.File, src, have fsys.Info) bool {
	if f.Size != src.Size || f.Mtime != src.Mtime || f.Ctime != src.Ctime || have.Size != src.Size ||
		len(f.Digests) != len(r.opts.Hashes) {
		return false
	}
	for i, a := range r.opts.Hashes {
		if len(f.Digests[i]) != a.Size() {
			return false
		}
	}
	return true
}

// torn reports whether what stands at the destination may be of an interrupted
// run: after a power cut, a file can have the right size and time and hold zeros.
// Without a change time, the modification time tells: it is the source's already
// when a file gets its name, or else that of the writing.
func (l *ledger) torn(src, have fsys.Info) bool {
	if l.target.ctimeHolds {
		return l.unsettled && have.Ctime.Compare(l.begun) >= 0
	}
	return l.unsettled && (l.target.sameTime(have.Mtime, src.Mtime) || have.Mtime.Compare(l.begun) >= 0)
}

// warnTorn tells of files that policy "never" leaves as an interrupted run has.
func (t *target) warnTorn(r *run, path string) {
	t.mu.Lock()
	told := t.toldTorn
	t.toldTorn = true
	t.mu.Unlock()
	if !told {
		err := errors.New("it differs from the source and was changed since a copy was interrupted, as may others; policy never leaves it")
		r.tell(Event{Kind: EventWarning, Path: path, Target: t.given, Err: err})
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

// cut says, for certain, that no more of a large file is to be relied on than p
// says, before it is cut off there.
func (l *ledger) cut(f *fsys.Pending, p *journal.Partial) error {
	if !l.notes() {
		return nil
	}
	if err := f.Sync(); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.w.Done(p.Path); err != nil {
		return err
	}
	if err := l.w.Partial(p); err != nil {
		return err
	}
	if err := l.w.Flush(); err != nil {
		return err
	}
	return l.file.Sync()
}

// clean removes the temporaries that interrupted runs have left in a directory,
// except those that can be continued.
func (l *ledger) clean(dir *fsys.Dir, listing *fsys.Listing) error {
	if !l.unsettled {
		return nil
	}
	for i := range listing.Len() {
		name := listing.Name(i)
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

// dropLeft removes the temporaries in the directory rel that nobody has
// continued; all of them if dir is nil, which finds them from the root.
func (l *ledger) dropLeft(dir *fsys.Dir, rel string) error {
	l.mu.Lock()
	var gone []string
	paths := map[string]string{}
	for temp, p := range l.left {
		if in := path.Dir(p); dir == nil || in == rel || in == "." && rel == "" {
			gone = append(gone, temp)
			paths[temp] = p
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
	for _, temp := range gone {
		in := dir
		if look != nil {
			var err error
			if in, _, err = look.Parent(paths[temp]); err != nil {
				continue // its directory is not there, or not the one that it was
			}
		}
		if err := in.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// note adds a file that was copied, or found equal. It counts when the next
// checkpoint is made. The collector alone calls it.
func (l *ledger) note(f *journal.File) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.worked = true
	if l.target.syncEach.Load() {
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
	for _, f := range l.followed {
		m, ok := f.sink.Reached()
		if !ok || m.Off < f.written+writtenEvery {
			continue
		}
		if err := l.w.Written(f.partial(m)); err != nil {
			return err
		}
		f.written = m.Off
	}
	return l.w.Flush()
}

// done says that the temporary of a large file is not there any more.
func (l *ledger) done(path string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil || l.target.logErr != nil {
		return nil
	}
	return l.w.Done(path)
}

// followed is a large file on its way to one destination.
type followed struct {
	info    fsys.Info // the source's
	path    string
	temp    string
	sink    *pipe.Sink
	file    *fsys.File // a descriptor of its own: the worker may close the other one
	noted   int64      // how far it has come on the device, by the last line that says so
	written int64      // how far it has come, by the last line that says so
	users   int        // checkpoints at work on it, and the worker
}

// notes reports whether the log is being written.
func (l *ledger) notes() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.file != nil && l.target.logErr == nil
}

// follow lets checkpoints note how far a large file has come. unfollow ends it.
func (l *ledger) follow(e *entry, p *passage, start int64) error {
	if e.meta.info.Size <= leastPartial || p.sink.File.Name() == "" || !l.notes() {
		return nil
	}
	file, err := p.sink.File.Dup()
	if err != nil {
		return err
	}
	p.noted = true
	l.mu.Lock()
	defer l.mu.Unlock()
	if start == 0 { // nothing that could be proved, but the next run finds it
		name := &followed{info: e.meta.info, path: e.manifestPath(p), temp: p.sink.File.Name()}
		if err := l.w.Written(name.partial(pipe.Mark{Off: 1})); err != nil {
			file.Close()
			p.noted = false
			return err
		}
	}
	l.followed[p] = &followed{
		info: e.meta.info, path: e.manifestPath(p), temp: p.sink.File.Name(), sink: &p.sink, file: file, noted: start, written: start, users: 1,
	}
	return nil
}

func (l *ledger) unfollow(p *passage) {
	if !p.noted { // no lock for small files
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if f := l.followed[p]; f != nil {
		delete(l.followed, p)
		f.release()
	}
}

// partial is the line that says how far the file has come.
func (f *followed) partial(m pipe.Mark) *journal.Partial {
	return &journal.Partial{
		Path: f.path, Temp: f.temp, Offset: m.Off, Size: f.info.Size, Mtime: f.info.Mtime, Ctime: f.info.Ctime, States: m.States,
	}
}

// release is called with the ledger's lock held.
func (f *followed) release() {
	if f.users--; f.users == 0 {
		f.file.Close()
	}
}

// leavePartial keeps the temporary of a large file of a run that is stopped, for
// the next one.
func (l *ledger) leavePartial(e *entry, p *passage, off int64, states [][]byte) error {
	if !l.notes() || off < leastPartial || p.sink.Err != nil || p.sink.File.Name() == "" {
		return nil
	}
	if err := p.sink.Stop(off); err != nil {
		return err
	}
	if err := p.sink.File.Sync(); err != nil {
		return err
	}
	info := e.meta.info
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kept = append(l.kept, &journal.Partial{
		Path: e.manifestPath(p), Temp: p.sink.File.Name(), Offset: off, Size: info.Size, Mtime: info.Mtime, Ctime: info.Ctime, States: states,
	})
	p.noted = false
	l.worked = true
	return p.sink.File.Keep()
}

// noteKept notes what leavePartial has kept, when it is known that no error of
// writing it has been told to others.
func (l *ledger) noteKept() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.kept {
		if l.file == nil || l.target.logErr != nil {
			break
		}
		if err := l.w.Partial(p); err != nil {
			return err
		}
	}
	l.kept = nil
	return nil
}

// leastPartial is the least that is worth continuing with. A file that is not
// longer is copied again; a longer one has a temporary name from the start.
const leastPartial = 16 << 20 // bytes

// fail says that nothing more is noted, and why. tellLog tells it.
func (l *ledger) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.target.logErr == nil {
		l.target.logErr = err
	}
}

// tellLog tells, once, that nothing more is noted at a destination.
func (r *run) tellLog(t *target) {
	t.ledger.mu.Lock()
	err := t.logErr
	told := t.logTold
	t.logTold = err != nil
	t.ledger.mu.Unlock()
	switch {
	case err == nil || told:
	case fsys.DestinationLost(err):
		t.lose(r, "", err)
	case !t.isLost():
		r.failEnd(t, failure.StageJournal, err)
	}
}
