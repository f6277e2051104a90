package engine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/lap"
	"github.com/seed65876f4f/sealift/internal/pipe"
	"github.com/seed65876f4f/sealift/internal/quote"
)

// target is one destination of a run.
type target struct {
	destination
	index   int
	root    *fsys.Dir // nil in a dry run if it does not exist
	handle  *fsys.Handle
	created bool // this run made root
	// rootOurs: this run made root, or one that was interrupted: its metadata is
	// to be the source's.
	rootOurs bool
	rootMeta *metadata // the source's, when the root is ours and complete
	rootMode uint32    // to be given back
	tookOver bool      // root was read-only, for us too
	journal  *journalDir
	ledger   *ledger // nil in a dry run

	behind     *pipe.Device  // nil where nothing bounds what is unwritten
	group      *pipe.Group   // of it: files that are closed already
	flushAsked chan struct{} // by the group
	untended   chan struct{} // closed when no more checkpoints are made
	tending    sync.WaitGroup
	unwritten  atomic.Bool // the device did not take something: nothing is known to be there
	toldTorn   bool        // of files that an interrupted run has left; guarded by mu
	logErr     error       // why nothing more is noted; guarded by the ledger's lock, as is
	logTold    bool
	keepLog    atomic.Bool // something was not forced, or removed: the journal stays

	granularity int64 // of time stamps, nanoseconds
	// ctimeHolds says that programs cannot set a file's change time, so that one
	// older than a manifest proves that the file is what the manifest lists.
	ctimeHolds bool
	// It takes them without an error, and does not keep them, or not for us to see, as
	// sshfs -o umask: new files are given them, and others are not compared.
	forgetsModes, forgetsOwners bool

	syncEach    atomic.Bool          // force each file and directory by itself
	wholeFS     bool                 // force the file system as a whole
	drivesLater bool                 // what is forced each by itself waits for syncDrives
	dev         uint64               // the device number of root
	mounts      map[uint64]*fsys.Dir // other file systems met below root, to be flushed as well; guarded by mu

	manifests []*manifestFile
	retire    sync.Once // moving the previous manifests into the journal
	retireErr error

	verified, cached int64 // files read back and found equal; those of them that perhaps came from memory

	linksMu   sync.Mutex
	followed  map[uint64]bool // device → what symbolic links point to gets their metadata; guarded by linksMu, as is
	linksTold map[uint64]bool // device → hard links have one inode number

	fallen []string // directories of the source that are another one at the destination; guarded by mu until the end

	lost   atomic.Pointer[lostError]
	mu     sync.Mutex
	warned map[string]bool // kinds of metadata that were warned about → cannot be held at all
}

// place is the destination's for who measures.
func (t *target) place() lap.Place { return lap.Destination(t.index) }

type lostError struct{ err error }

// makeDirs is os.MkdirAll, except that of what cannot be looked at it says why, where
// that one says that it exists.
func makeDirs(path string) error {
	err := os.MkdirAll(path, 0o777) //nolint:gosec // the umask decides
	if errors.Is(err, fs.ErrExist) {
		if _, why := os.Stat(path); why != nil && !errors.Is(why, fs.ErrNotExist) {
			return why
		}
	}
	return err
}

// open makes the destination's directory if need be, locks it and finds out
// what its file system can do.
func (t *target) open(r *run) error {
	if r.opts.DryRun {
		if !t.exists {
			return nil
		}
	} else if !t.exists {
		if err := makeDirs(parentOf(t.dir)); err != nil {
			return fmt.Errorf("its parent cannot be made: %s", reason(err))
		}
		if err := t.makeRoot(); err != nil {
			return fmt.Errorf("it cannot be made: %s", reason(err))
		}
	}
	var err error
	if t.root == nil {
		if err = t.closed; err == nil {
			t.root, _, err = openRoot(t.fs, t.dir, t.id)
		}
		if err != nil {
			return err
		}
	}
	t.handle = r.newHandles().Root(t.root)
	if r.opts.DryRun {
		return t.guessGranularity()
	}
	if t.name == "" {
		if err := t.takeOver(); err != nil {
			return err
		}
	}
	if t.journal, err = openJournal(t.root, journalName(t.name)); err != nil {
		if errors.Is(err, fsys.ErrLocked) {
			return failure.Refuse("another sealift is at work in %s", quote.Name(t.given))
		}
		return fmt.Errorf("the journal cannot be made in it: %w", err)
	}
	if t.rootOurs, err = t.journal.ownsRoot(t.created, r.opts.Sync != SyncNone); err != nil {
		return err
	}
	info, err := t.root.Stat()
	if err != nil {
		return err
	}
	t.dev = info.ID.Dev
	t.drivesLater = r.opts.Sync == SyncEnd
	t.wholeFS = r.opts.Sync != SyncFile && t.name == "" && t.root.SyncFSReliable()
	t.syncEach.Store(r.opts.Sync != SyncNone && !t.wholeFS)
	return t.probe(r)
}

// takeOver makes a read-only root of ours writable for the run, as other directories
// are made: the copy of a read-only directory, for instance.
func (t *target) takeOver() error {
	info, err := t.root.Stat()
	if err == nil && info.Mode&0o300 != 0o300 && !t.root.Writable() && t.root.Chmod(info.Mode|0o700) == nil {
		t.tookOver, t.rootMode = true, info.Mode
	}
	return err
}

// giveBack undoes takeOver.
func (t *target) giveBack(r *run) {
	if !t.tookOver {
		return
	}
	t.tookOver = false
	if err := t.root.Chmod(t.rootMode); err != nil {
		r.failEnd(t, failure.StageMetadata, err)
	}
}

// makeRoot makes the destination's directory and opens just that one: what
// somebody else has put there since the paths were resolved is refused.
func (t *target) makeRoot() error {
	parent, err := t.fs.OpenRoot(parentOf(t.dir))
	if err != nil {
		return err
	}
	defer parent.Close()
	name := filepath.Base(t.dir)
	if err := parent.Mkdir(name); err != nil {
		return err
	}
	root, err := parent.OpenDir(name)
	if err != nil {
		return err
	}
	if err := madeByUs(root); err != nil {
		root.Close()
		return err
	}
	t.root = root
	if t.name != "" { // only a place for the file; the umask decides
		return ignoreRefusal(t.root.Chmod(0o777 &^ fsys.Umask()))
	}
	t.created = true // widened when its contents are complete
	return nil
}

// madeByUs returns an error if a directory that this run has just made is another
// user's, who has put it in its place. New files are asked for the owner that ours get:
// a server can have its own idea of who we are.
func madeByUs(dir *fsys.Dir) error {
	p, err := dir.Create(false)
	if err != nil {
		return err
	}
	defer p.Abort()
	ours, err := p.Stat()
	if err != nil {
		return err
	}
	if have, err := dir.Stat(); err != nil || have.UID == ours.UID {
		return err
	}
	return errExchanged
}

// coarsest is FAT's granularity of time stamps, for when it cannot be probed.
const coarsest = 2e9 // nanoseconds

// guessGranularity is for a dry run, which must not write: a change time with
// odd nanoseconds shows that the file system keeps them.
func (t *target) guessGranularity() error {
	info, err := t.root.Stat()
	if t.granularity = coarsest; info.Ctime.Nsec%1e7 != 0 {
		t.granularity = 1
	}
	return err
}

// leaveAsFound gives up a destination that was lost before anything was copied to it:
// a directory of our making that stayed without the note of that would never get the
// source's metadata.
func (t *target) leaveAsFound() {
	if t.ledger != nil {
		t.ledger.close()
		t.ledger = nil
	}
	t.undo()
	if t.journal != nil {
		t.journal.close()
		t.journal = nil
	}
	t.manifests = nil
}

// undo takes back what open has made, because nothing will be copied.
func (t *target) undo() {
	t.closeManifests()
	if t.journal != nil && t.journal.dir != nil && (t.created || !t.rootOurs && !t.journal.holdsWork()) {
		_ = t.journal.remove(func(string) bool { return false })
		t.journal.close()
	}
	for dir := t.dir; (t.journal == nil || t.journal.dir == nil) && dir != t.anchor; dir = parentOf(dir) {
		parent, err := t.fs.OpenRoot(parentOf(dir))
		if err != nil {
			return
		}
		_ = parent.RemoveDir(filepath.Base(dir)) // not if somebody has put something into it, or in its place
		parent.Close()
	}
}

// probe finds out, on a file that never gets a name where the system can, how
// finely the destination keeps times, whether its ctime can be set, and what it
// takes only to forget it.
func (t *target) probe(r *run) error {
	p, err := t.root.Create(false)
	if err != nil {
		return err
	}
	defer p.Abort()
	if err := t.probeForgotten(r, p); err != nil {
		return err
	}
	odd := fsys.Time{Sec: 1234567891, Nsec: 987654321} // not a multiple of any granularity
	if err := p.SetTimes(odd, odd, odd); err != nil {
		t.granularity = coarsest
		return ignoreRefusal(err)
	}
	info, err := p.Stat()
	if err != nil {
		return err
	}
	t.granularity = 1
	for _, g := range []int64{100, 1e3, 1e6, 10e6, 1e9, 2e9} {
		if !info.Mtime.Within(odd, t.granularity) {
			t.granularity = g
		}
	}
	t.ctimeHolds = t.root.KeepsChangeTime() && info.Ctime.Sec > time.Now().Add(-24*time.Hour).Unix()
	return nil
}

// probeForgotten finds out whether the destination forgets permissions and owners
// without an error, as NTFS through FUSE does by default.
func (t *target) probeForgotten(r *run, p *fsys.Pending) error {
	if t.root.SyncFSReliable() { // none of these does
		return nil
	}
	const owner = 1 // neither this nor the mode is what a new file has
	chmod := p.Chmod(fsys.OddMode)
	chown := errNotTried
	if r.privileged {
		chown = p.Chown(owner, owner)
	}
	info, err := p.Stat()
	t.forgetsModes = chmod == nil && (info.Mode^fsys.OddMode)&^uint32(fsys.ModeAttributes) != 0
	t.forgetsOwners = chown == nil && (info.UID != owner || info.GID != owner)
	return err
}

var errNotTried = errors.New("not tried")

// meet notes that a directory of the destination is on another file system than
// its root.
func (t *target) meet(r *run, dir *fsys.Dir, device uint64) error {
	if device == t.dev || r.opts.Sync != SyncEnd {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mounts[device] != nil {
		return nil
	}
	mount, err := dir.OpenDir(".")
	if err != nil {
		return err
	}
	if t.mounts == nil {
		t.mounts = map[uint64]*fsys.Dir{}
	}
	t.mounts[device] = mount
	if !mount.SyncFSReliable() {
		t.syncEach.Store(true)
	}
	return nil
}

// isOwnWork reports whether what was found under a name can be what this run has just
// made there, and not a name of a file outside, or another user's directory, that
// somebody has put in its place. What is mounted below can have owners of its own.
func (t *target) isOwnWork(have fsys.Info) bool {
	return (have.Kind == fsys.Directory || have.Nlink <= 1) && (have.UID == t.ledger.owner || have.ID.Dev != t.dev)
}

// sameTime compares modification times as finely as the destination keeps them.
func (t *target) sameTime(a, b fsys.Time) bool { return a.Within(b, t.granularity) }

// give up: no more is written there. It is reported once.
func (t *target) lose(r *run, path string, err error) {
	if t.lost.CompareAndSwap(nil, &lostError{err}) {
		r.tell(Event{Kind: EventTargetLost, Path: path, Target: t.given, Err: err})
		r.targetsLeft.Add(-1)
		if r.targetsLeft.Load() == 0 {
			r.cancel(errNoTarget)
		}
	}
}

// isGone reports whether err, of something in the destination, concerns all of it.
// XFS that has shut down, and a directory that was removed, answer as a bad sector
// does, or a file that somebody has removed or closed.
func (t *target) isGone(err error) (gone bool, told error) {
	failed := fsys.DeviceFailed(err)
	switch {
	case fsys.DestinationLost(err):
		return true, err
	case t.journal == nil || !failed && !errors.Is(err, fs.ErrNotExist) && !fsys.NotPermitted(err):
		return false, err // without a journal it is a dry run
	case t.stands() != nil || failed && !t.takes():
		return true, fmt.Errorf("%w, and nothing can be made there any more", err)
	}
	return false, err
}

// takes reports whether anything can be made in the destination, be it a temporary.
func (t *target) takes() bool {
	p, err := t.root.Create(false)
	if err == nil {
		p.Abort()
	}
	return err == nil
}

func (t *target) isLost() bool { return t.lost.Load() != nil }

// warn tells of something that the destination does not hold, once for each
// kind. If it cannot hold such things at all, nobody tries again; a refusal may
// be about one file.
func (t *target) warn(r *run, kind string, err error) {
	t.mu.Lock()
	_, told := t.warned[kind]
	if t.warned == nil {
		t.warned = map[string]bool{}
	}
	t.warned[kind] = t.warned[kind] || fsys.Unsupported(err)
	t.mu.Unlock()
	if !told {
		r.tell(Event{Kind: EventWarning, Target: t.given, Err: err})
	}
}

// cannot reports whether the destination can hold nothing of the kind.
func (t *target) cannot(kind string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.warned[kind]
}

// flush forces what was written to the device.
func (t *target) flush(r *run) error {
	if r.opts.Sync == SyncNone {
		return nil
	}
	// Also where every file was forced by itself: symbolic links cannot be.
	if t.name == "" && t.root.SyncFSReliable() {
		return t.syncFS()
	}
	if err := t.syncMounts(); err != nil {
		return err
	}
	if err := t.root.Sync(); err != nil {
		return err
	}
	for dir := t.dir; dir != t.anchor; { // the names of the directories that were made
		dir = parentOf(dir)
		parent, err := t.fs.OpenRoot(dir)
		if err != nil {
			return err
		}
		err = parent.Sync()
		parent.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// stands returns an error if the destination's name has come to lead elsewhere: it
// was renamed, removed, unmounted, or something was mounted over it.
func (t *target) stands() error {
	have, err := t.root.Stat()
	if err != nil {
		return err
	}
	d, err := t.fs.OpenRoot(t.dir)
	if err != nil {
		return err
	}
	defer d.Close()
	now, err := d.Stat()
	if err == nil && now.ID != have.ID {
		err = fsys.ErrMoved
	}
	return err
}

func ignoreRefusal(err error) error {
	if fsys.Unsupported(err) || fsys.NotPermitted(err) {
		return nil
	}
	return err
}
