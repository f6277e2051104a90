package dest

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/metadata"
)

// FileSystem describes one mounted file system of a destination: that of its root, or one
// mounted below the root. Except for what metadata.Store learns, nothing in it changes after
// Find has returned it.
type FileSystem struct {
	metadata.Store
	ChangeTimes bool          // true if programs cannot set a file's change time, so it shows later changes
	Slack       time.Duration // the most by which a time stamp may be earlier here than on the file system of the root
	SyncEach    bool          // true if each file and directory is synced separately

	of               *FileSystems
	dir              *fsys.Dir     // directory in this file system, for flushes and writeback errors; nil in a dry run
	probed           bool          // false if no file could be created: the properties are guessed
	ahead            time.Duration // lead of the file system's clock over this machine's; negative if behind
	sharesSyncErrors bool          // true if a sync of one file returns errors about others
}

// Settings are the options of a run that concern the file systems of a destination.
type Settings struct {
	Rules  *metadata.Rules
	Sync   SyncMode
	DryRun bool
	// File: the destination is a single file, so a flush of the whole file system is not worth it.
	File bool
	// SharesSyncErrors is fsys.Dir.SharesSyncErrors, except in tests.
	SharesSyncErrors func(*fsys.Dir) bool
	// Report reports a kind of metadata that a file system cannot keep.
	Report func(kind string, err error)
}

// FileSystems contains the file systems of one destination that the run has met. Several goroutines
// may use it.
type FileSystems struct {
	Settings
	// Failed: some data did not reach the device, so no file counts as durable.
	Failed atomic.Bool
	// TemporaryLeft: a temporary could not be removed. A later run finds it by the journal.
	TemporaryLeft atomic.Bool

	root        *fsys.Dir   // root of the destination; nil in a dry run if it does not exist
	rootSystem  *FileSystem // file system of root
	whole       bool        // true to flush file systems completely, where syncfs is reliable
	drivesLater bool        // true if separate syncs leave the write caches of the drives to syncDrives

	mu struct {
		sync.Mutex
		met map[uint64]*FileSystem // file systems by device number
	}
}

// Open sets the root of the destination, which info describes, and probes its file system. probe is a
// file in the root that the run has created already; it may be nil.
func (f *FileSystems) Open(s Settings, root *fsys.Dir, info fsys.Info, probe *fsys.Pending) (err error) {
	f.Settings, f.root = s, root
	f.drivesLater = s.Sync == SyncEnd
	f.whole = s.Sync != SyncFile && !s.File && root.SyncFSReliable()
	f.rootSystem, err = f.find(root, info, probe)
	return err
}

// Root returns the file system of the root; nil in a dry run if the root does not exist.
func (f *FileSystems) Root() *FileSystem { return f.rootSystem }

// Whole reports whether the file system of the root is flushed completely.
func (f *FileSystems) Whole() bool { return f.whole }

// all returns the file systems that the run has met so far.
func (f *FileSystems) all() []*FileSystem {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Collect(maps.Values(f.mu.met))
}

// On returns the file system of a device. It is nil if the run has not met that file system.
func (f *FileSystems) On(device uint64) *FileSystem {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mu.met[device]
}

// SameTime reports whether two modification times in dir are equal at the granularity of its file
// system. If the run has not met that, for example because the mount has changed, it is the coarsest.
func (f *FileSystems) SameTime(dir *fsys.Dir, a, b fsys.Time) bool {
	if info, err := dir.Stat(); err == nil {
		if s := f.On(info.ID.Dev); s != nil {
			return s.SameTime(a, b)
		}
	}
	return a.Within(b, coarsest)
}

// Find returns the file system of dir, a directory of the destination that info
// describes. It probes the file system with a new file in dir, unless it was probed before. If no
// file can be created, Find guesses the properties; a later write there reports the cause.
func (f *FileSystems) Find(dir *fsys.Dir, info fsys.Info) (*FileSystem, error) {
	return f.find(dir, info, nil)
}

func (f *FileSystems) find(dir *fsys.Dir, info fsys.Info, probe *fsys.Pending) (*FileSystem, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	known := f.mu.met[info.ID.Dev]
	if known != nil && (known.probed || f.DryRun) {
		return known, nil
	}
	s := &FileSystem{of: f, Slack: tick, Store: metadata.Store{Rules: f.Rules, Granularity: guessGranularity(info), Report: f.Report}}
	if f.DryRun {
		s.ChangeTimes = dir.KeepsChangeTime() // only a probe can also check the clock
	} else {
		if known != nil {
			s.dir = known.dir
		} else if err := s.open(dir); err != nil {
			return nil, err
		}
		s.SyncEach = f.Sync != SyncNone && !(f.whole && dir.SyncFSReliable())
		s.sharesSyncErrors = s.SyncEach && f.SharesSyncErrors(dir)
		if err := s.probe(dir, probe); err != nil && dir == f.root {
			return nil, err
		}
	}
	if dir == f.root {
		s.Slack = 0
	} else {
		s.Slack += time.Duration(s.Granularity) + max(f.rootSystem.ahead-s.ahead, 0)
	}
	if f.mu.met == nil {
		f.mu.met = map[uint64]*FileSystem{}
	}
	f.mu.met[info.ID.Dev] = s
	return s, nil
}

// open opens the directory through which the file system is flushed. For the root's file
// system that is the root, which is open until the end.
func (s *FileSystem) open(dir *fsys.Dir) (err error) {
	s.dir = dir
	if dir != s.of.root {
		s.dir, err = dir.OpenDir(".")
	}
	return err
}

// Close closes the directories that Find has opened.
func (f *FileSystems) Close() {
	for _, s := range f.all() {
		if s.dir != nil && s.dir != f.root {
			s.dir.Close()
		}
	}
}

const (
	// coarsest is the granularity of FAT's time stamps, the default if it cannot be probed.
	coarsest = 2e9 // nanoseconds

	// tick is the longest time by which the kernel's clock for time stamps is behind the clock
	// that programs read: one tick at CONFIG_HZ=100. A FUSE server takes its time stamps from
	// the latter.
	tick = 10 * time.Millisecond
)

// guessGranularity guesses the granularity of time stamps from a directory's change time.
// Nanoseconds that are no multiple of 10 ms show that the file system stores nanoseconds.
func guessGranularity(dir fsys.Info) int64 {
	if dir.Ctime.Nsec%1e7 != 0 {
		return 1
	}
	return coarsest
}

// probe determines the properties of the file system with a new file in dir, or with p. It removes the
// new file afterwards. Where the system supports it, the file never has a name.
func (s *FileSystem) probe(dir *fsys.Dir, p *fsys.Pending) error {
	if p != nil {
		return s.examine(dir, p)
	}
	before, err := dir.Stat()
	if err != nil {
		return err
	}
	if p, err = dir.Create(false); err != nil {
		return err
	}
	defer s.removeProbe(dir, p, before)
	return s.examine(dir, p)
}

// examine finds out the properties of the file system with a file in it, whose metadata it
// changes.
func (s *FileSystem) examine(dir *fsys.Dir, p *fsys.Pending) error {
	if err := s.Probe(dir, p); err != nil {
		return err
	}
	odd := fsys.Time{Sec: 1234567891, Nsec: 987654321} // not a multiple of any granularity
	if err := p.SetTimes(odd, odd, odd); err != nil {
		s.Granularity = coarsest
		err = fsys.IgnoreRefusal(err)
		s.probed = err == nil
		return err
	}
	now := time.Now()
	info, err := p.Stat()
	if err != nil {
		return err
	}
	s.Granularity = granularityOf(info.Mtime, odd)
	s.ahead = min(max(time.Unix(info.Ctime.Sec, info.Ctime.Nsec).Sub(now), -day), day)
	s.ChangeTimes = dir.KeepsChangeTime() && s.ahead > -day
	s.probed = true
	return nil
}

const day = 24 * time.Hour

// granularityOf returns the granularity, in nanoseconds, of a file system that returns the
// time got after set was set.
func granularityOf(got, set fsys.Time) int64 {
	granularity := int64(1)
	for _, g := range []int64{100, 1e3, 1e6, 10e6, 1e9, 2e9} {
		if !got.Within(set, granularity) {
			granularity = g
		}
	}
	return granularity
}

// removeProbe removes the probe's file. If the file had a name, removeProbe restores the times
// of the directory, because the policy may be to change nothing in it.
func (s *FileSystem) removeProbe(dir *fsys.Dir, p *fsys.Pending, before fsys.Info) {
	named := p.Name() != ""
	if p.Abort() {
		s.of.TemporaryLeft.Store(true)
	}
	if named {
		_ = dir.SetTimes(before.Atime, before.Mtime, before.Btime) // an error costs only the times of a directory
	}
}
