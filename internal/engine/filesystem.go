package engine

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/metadata"
	"github.com/seed65876f4f/sealift/internal/resume"
)

// fileSystem describes one mounted file system of a destination: that of its root, or one
// mounted below the root. Except for lacks and the answers, nothing in it changes after
// target.findFileSystem has returned it.
type fileSystem struct {
	target *target
	dir    *fsys.Dir // in this file system; open until the end, to flush it and to receive its writeback errors; nil in a dry run
	probed bool      // false if no file could be created: the properties are guessed

	metadata.Store
	changeTimes bool          // as in resume.TimeStamps
	slack       time.Duration // as in resume.TimeStamps

	ahead time.Duration // how far the file system's clock is ahead of this machine's; negative if behind

	syncEach         bool // sync each file and directory separately
	sharesSyncErrors bool // a sync of one file returns errors about others
}

// fileSystems contains the file systems of one destination that the run has met, by device
// number.
type fileSystems struct {
	mu struct {
		sync.Mutex
		met map[uint64]*fileSystem
	}
}

// all returns the file systems that the run has met so far.
func (f *fileSystems) all() []*fileSystem {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Collect(maps.Values(f.mu.met))
}

// timeStampsIn describes the time stamps in a directory. If the run has not met the file system,
// for example because the mount has changed, they are the coarsest.
func (f *fileSystems) timeStampsIn(dir *fsys.Dir) resume.TimeStamps {
	if info, err := dir.Stat(); err == nil {
		if t, ok := f.timeStamps(info.ID.Dev); ok {
			return t
		}
	}
	return resume.TimeStamps{Granularity: coarsest}
}

// findFileSystem returns the file system of dir, a directory of the destination that info
// describes. It probes the file system with a new file in dir, unless it was probed before. If no
// file can be created, findFileSystem guesses the properties; a later write there reports the cause.
func (t *target) findFileSystem(r *run, dir *fsys.Dir, info fsys.Info) (*fileSystem, error) {
	f := &t.fileSystems
	f.mu.Lock()
	defer f.mu.Unlock()
	known := f.mu.met[info.ID.Dev]
	if known != nil && (known.probed || r.opts.DryRun) {
		return known, nil
	}
	s := &fileSystem{target: t, slack: tick, Store: metadata.Store{
		Rules: &r.metadata.Rules, Granularity: guessGranularity(info), Report: func(kind string, err error) { t.warn(r, kind, err) },
	}}
	if r.opts.DryRun {
		s.changeTimes = dir.KeepsChangeTime() // only a probe can also check the clock
	} else {
		if known != nil {
			s.dir = known.dir
		} else if err := s.open(dir); err != nil {
			return nil, err
		}
		s.syncEach = r.opts.Sync != SyncNone && !(t.wholeFS && dir.SyncFSReliable())
		s.sharesSyncErrors = s.syncEach && r.opts.sharesSyncErrors(dir)
		if err := s.probe(dir); err != nil && dir == t.root {
			return nil, err
		}
	}
	if dir == t.root {
		s.slack = 0
	} else {
		s.slack += time.Duration(s.Granularity) + max(t.system.ahead-s.ahead, 0)
	}
	if f.mu.met == nil {
		f.mu.met = map[uint64]*fileSystem{}
	}
	f.mu.met[info.ID.Dev] = s
	return s, nil
}

// open opens the directory through which the file system is flushed. For the root's file
// system that is the root, which is open until the end.
func (s *fileSystem) open(dir *fsys.Dir) (err error) {
	s.dir = dir
	if dir != s.target.root {
		s.dir, err = dir.OpenDir(".")
	}
	return err
}

// close closes the directories that findFileSystem has opened.
func (f *fileSystems) close() {
	for _, s := range f.all() {
		if s.dir != nil && s.dir != s.target.root {
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

// probe determines the properties of the file system with a new file in dir. It removes the
// file afterwards. Where the system supports it, the file never has a name.
//
// In the root of a destination, a task uses the file that its log has already created. Other tasks
// have to wait while a task creates or removes an entry of the root.
func (s *fileSystem) probe(dir *fsys.Dir) error {
	if t := s.target; dir == t.root && t.log != nil && t.log.Clock() != nil && fsys.WritesMoveTimes {
		return s.examine(dir, t.log.Clock())
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
	return s.examine(dir, p)
}

// examine finds out the properties of the file system with a file in it, whose metadata it
// changes.
func (s *fileSystem) examine(dir *fsys.Dir, p *fsys.Pending) error {
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
	s.changeTimes = dir.KeepsChangeTime() && s.ahead > -day
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
func (s *fileSystem) removeProbe(dir *fsys.Dir, p *fsys.Pending, before fsys.Info) {
	named := p.Name() != ""
	if p.Abort() && s.target.log != nil {
		s.target.keepJournal.Store(true) // the file remains; a later run finds it by the journal's id and removes it
	}
	if named {
		_ = dir.SetTimes(before.Atime, before.Mtime, before.Btime) // an error costs only the times of a directory
	}
}

// timeStamps describes the time stamps of the file system.
func (s *fileSystem) timeStamps() resume.TimeStamps {
	return resume.TimeStamps{ChangeTimes: s.changeTimes, Granularity: s.Granularity, Slack: s.slack}
}

// syncChanged syncs a file whose metadata was changed, if files there are synced separately.
func (s *fileSystem) syncChanged(f *fsys.File) error {
	if !s.syncEach {
		return nil
	}
	return s.sync(f)
}
