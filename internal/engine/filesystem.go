package engine

import (
	"errors"
	"sync"
	"time"

	"github.com/seed65876f4f/sealift/internal/fsys"
)

// fileSystem is what is known of one mounted file system of a destination: the one of
// its root, or one that is mounted below. Except for mu, nothing of it changes once
// target.meet has returned it.
type fileSystem struct {
	target *target
	dir    *fsys.Dir // stays open to flush it, and to get the errors of writes since; nil in a dry run
	probed bool      // false where no file could be made: the properties are guessed

	granularity int64 // of time stamps, nanoseconds
	// ctimeHolds says that programs cannot set a file's change time, so that it shows
	// whether a file was changed since a run was interrupted.
	ctimeHolds bool
	// It accepts them without an error and does not keep them, or hides them from this
	// user, as sshfs -o umask: they are set on new files and not compared on others.
	forgetsModes, forgetsOwners bool

	ahead time.Duration // of the file system's clock, compared with this machine's
	slack time.Duration // how much earlier a time stamp may be here than on the root's file system

	syncEach bool // sync each file and directory separately

	followsLinks answer // what a symbolic link points to gets the link's metadata
	showsLinks   answer // hard links have one inode number
	mu           struct {
		sync.Mutex
		lacks map[string]bool // kinds of metadata that it cannot store
	}
}

// answer is a property that is found out when it is first needed.
type answer struct {
	mu struct {
		sync.Mutex
		known, yes bool
	}
}

// get returns what ask has returned before, or calls it. An error is not remembered.
func (a *answer) get(ask func() (bool, error)) (bool, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.mu.known {
		return a.mu.yes, nil
	}
	yes, err := ask()
	a.mu.known, a.mu.yes = err == nil, yes
	return yes && err == nil, err
}

// fileSystems holds the file systems of one destination by device number.
type fileSystems struct {
	mu struct {
		sync.Mutex
		met map[uint64]*fileSystem
	}
}

// all returns the file systems that were met so far.
func (f *fileSystems) all() []*fileSystem {
	f.mu.Lock()
	defer f.mu.Unlock()
	list := make([]*fileSystem, 0, len(f.mu.met))
	for _, s := range f.mu.met {
		list = append(list, s)
	}
	return list
}

// known returns the file system of a device, nil if none was met.
func (f *fileSystems) known(device uint64) *fileSystem {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mu.met[device]
}

// of returns the file system of a directory. One that was not met, because its mount
// changed meanwhile, has the coarsest time stamps.
func (f *fileSystems) of(dir *fsys.Dir) *fileSystem {
	if info, err := dir.Stat(); err == nil {
		f.mu.Lock()
		defer f.mu.Unlock()
		if s := f.mu.met[info.ID.Dev]; s != nil {
			return s
		}
	}
	return &fileSystem{granularity: coarsest}
}

// meet returns the file system of dir, a directory of the destination that info
// describes, and probes it if no earlier directory could be used for that. Where no
// file can be made, the properties are guessed: writing there reports why.
func (t *target) meet(r *run, dir *fsys.Dir, info fsys.Info) (*fileSystem, error) {
	f := &t.fileSystems
	f.mu.Lock()
	defer f.mu.Unlock()
	known := f.mu.met[info.ID.Dev]
	if known != nil && (known.probed || r.opts.DryRun) {
		return known, nil
	}
	s := &fileSystem{target: t, granularity: guessGranularity(info), slack: tick}
	if !r.opts.DryRun {
		if known != nil {
			s.dir = known.dir
		} else if err := s.open(dir); err != nil {
			return nil, err
		}
		s.syncEach = r.opts.Sync != SyncNone && !(t.wholeFS && dir.SyncFSReliable())
		if err := s.probe(r.privileged, dir); err != nil && dir == t.root {
			return nil, err
		}
	}
	if r.opts.DryRun {
		s.ctimeHolds = dir.KeepsChangeTime() // as far as that is known without making a file
	}
	if dir == t.root {
		s.slack = 0
	} else {
		s.slack += time.Duration(s.granularity) + max(t.system.ahead-s.ahead, 0)
	}
	if f.mu.met == nil {
		f.mu.met = map[uint64]*fileSystem{}
	}
	f.mu.met[info.ID.Dev] = s
	return s, nil
}

// open opens the directory that the file system is flushed through. The root stays
// open anyway.
func (s *fileSystem) open(dir *fsys.Dir) (err error) {
	s.dir = dir
	if dir != s.target.root {
		s.dir, err = dir.OpenDir(".")
	}
	return err
}

// close closes what meet has opened.
func (f *fileSystems) close() {
	for _, s := range f.all() {
		if s.dir != nil && s.dir != s.target.root {
			s.dir.Close()
		}
	}
}

const (
	// coarsest is FAT's granularity of time stamps, for when it cannot be probed.
	coarsest = 2e9 // nanoseconds

	// tick is longer than the kernel's clock for time stamps can be behind the clock
	// that programs read, from which a FUSE server takes them: one tick at CONFIG_HZ=100.
	tick = 10 * time.Millisecond
)

// guessGranularity is for a directory in which nothing may be written, or cannot be: a
// change time with odd nanoseconds shows that the file system stores them.
func guessGranularity(dir fsys.Info) int64 {
	if dir.Ctime.Nsec%1e7 != 0 {
		return 1
	}
	return coarsest
}

// probe finds out the properties of the file system with a new file in dir, which never
// gets a name where the system supports that, and is removed in any case.
//
// In the root of a task the file is the log's clock, because other tasks wait while one creates or
// removes an entry of the root.
func (s *fileSystem) probe(privileged bool, dir *fsys.Dir) error {
	if t := s.target; dir == t.root && t.log != nil && t.log.Clock() != nil && fsys.WritesMoveTimes {
		return s.examine(privileged, dir, t.log.Clock())
	}
	before, err := dir.Stat()
	if err != nil {
		return err
	}
	p, err := dir.Create(false)
	if err != nil {
		return err
	}
	defer s.removeProbe(dir, p, before)
	return s.examine(privileged, dir, p)
}

// examine finds out the properties of the file system with a file in it, whose metadata it
// changes.
func (s *fileSystem) examine(privileged bool, dir *fsys.Dir, p *fsys.Pending) error {
	if err := s.probeForgotten(privileged, dir, p); err != nil {
		return err
	}
	odd := fsys.Time{Sec: 1234567891, Nsec: 987654321} // not a multiple of any granularity
	if err := p.SetTimes(odd, odd, odd); err != nil {
		s.granularity = coarsest
		err = fsys.IgnoreRefusal(err)
		s.probed = err == nil
		return err
	}
	now := time.Now()
	info, err := p.Stat()
	if err != nil {
		return err
	}
	s.granularity = granularityOf(info.Mtime, odd)
	s.ahead = min(max(time.Unix(info.Ctime.Sec, info.Ctime.Nsec).Sub(now), -day), day)
	s.ctimeHolds = dir.KeepsChangeTime() && s.ahead > -day
	s.probed = true
	return nil
}

const day = 24 * time.Hour

// granularityOf returns the granularity of a file system that stores the time set as got.
func granularityOf(got, set fsys.Time) int64 {
	granularity := int64(1)
	for _, g := range []int64{100, 1e3, 1e6, 10e6, 1e9, 2e9} {
		if !got.Within(set, granularity) {
			granularity = g
		}
	}
	return granularity
}

// removeProbe removes the file of the probe. If it had a name, the directory gets its
// times back: the policy may be to change nothing in it.
func (s *fileSystem) removeProbe(dir *fsys.Dir, p *fsys.Pending, before fsys.Info) {
	named := p.Name() != ""
	if p.Abort() && s.target.log != nil {
		s.target.keepLog.Store(true) // a later run finds it by the journal's id and removes it
	}
	if named {
		_ = dir.SetTimes(before.Atime, before.Mtime, before.Btime) // the times of what the user made, at most
	}
}

// probeForgotten finds out whether the file system accepts permissions and owners
// without an error and forgets them, as NTFS through FUSE does by default.
func (s *fileSystem) probeForgotten(privileged bool, dir *fsys.Dir, p *fsys.Pending) error {
	if dir.SyncFSReliable() { // none of these does
		return nil
	}
	const owner = 1 // neither this nor the mode is what a new file has
	chmod := p.Chmod(fsys.OddMode)
	chown := errNotTried
	if privileged {
		chown = p.Chown(owner, owner)
	}
	info, err := p.Stat()
	s.forgetsModes = chmod == nil && (info.Mode^fsys.OddMode)&^uint32(fsys.ModeAttributes) != 0
	s.forgetsOwners = chown == nil && (info.UID != owner || info.GID != owner)
	return err
}

var errNotTried = errors.New("not tried")

// sameTime compares modification times at the granularity of the file system.
func (s *fileSystem) sameTime(a, b fsys.Time) bool { return a.Within(b, s.granularity) }

// warn reports, once for each kind and destination, metadata that the file system does
// not store. If it can store none of the kind, nothing tries again on this file system;
// a refusal may concern a single file.
func (s *fileSystem) warn(r *run, kind string, err error) {
	if fsys.Unsupported(err) {
		s.mu.Lock()
		if s.mu.lacks == nil {
			s.mu.lacks = map[string]bool{}
		}
		s.mu.lacks[kind] = true
		s.mu.Unlock()
	}
	s.target.warn(r, kind, err)
}

// cannot reports whether the file system can store nothing of the kind.
func (s *fileSystem) cannot(kind string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.lacks[kind]
}
