package engine

import (
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/pipe"
	"github.com/seed65876f4f/sealift/internal/quote"
	"github.com/seed65876f4f/sealift/internal/timing"
)

// When a checkpoint is due. What an interruption costs is to stay a small part of
// what was done: of the time, between the first two, and of the bytes, between the
// others. And forcing the log must not become a part of the work itself.
const (
	leastInterval = 250 * time.Millisecond
	mostInterval  = 3 * time.Second
	leastVolume   = 16 << 20               // bytes
	mostVolume    = 256 << 20              // bytes
	partLost      = 32                     // one part in so many may be lost
	forceShare    = 50                     // one part of the time in so many may go into forcing the log
	forceFree     = 300 * time.Millisecond // and so much at the beginning

	markEvery    = 4 << 20  // bytes of a large file between two points where it can be continued
	writtenEvery = 16 << 20 // bytes of it between two lines that say how far it has come
)

// tendEvery is the time between two checks whether a checkpoint is due.
const tendEvery = 50 * time.Millisecond

// tend makes the checkpoints of one destination, when they are due and when too
// much that only a flush of the file system writes is unwritten.
func (t *target) tend(r *run) {
	clock := r.sheet.Aside()
	defer clock.Stop()
	ticker := time.NewTicker(r.opts.tendEvery)
	defer ticker.Stop()
	for {
		asked, now := false, time.Time{}
		select {
		case <-t.untended:
			return
		case <-t.flushAsked:
			asked = true
		case now = <-ticker.C:
		}
		if t.isDropped() {
			if t.group != nil {
				t.group.Leave() // nobody is to wait for it
			}
			continue
		}
		if !asked && !t.ledger.due(now) {
			continue
		}
		clock.At(timing.Flush, t.place())
		if err := t.checkpoint(r, asked); err != nil {
			t.dropUnwritten(r, "", err)
			r.reportUnwritten(t, err)
		}
		clock.Count(timing.Flush, t.place(), 0)
		clock.At(timing.Idle, timing.None)
	}
}

// writeDown keeps the log written, also while a checkpoint waits for the device.
func (t *target) writeDown(r *run) {
	ticker := time.NewTicker(r.opts.tendEvery)
	defer ticker.Stop()
	for {
		select {
		case <-t.untended:
			return
		case <-ticker.C:
		}
		if !t.isDropped() {
			if err := t.ledger.writeDown(); err != nil {
				t.ledger.fail(err)
			}
			r.reportLog(t)
		}
	}
}

// dropUnwritten gives up a destination that did not take what was written. What
// was not in a checkpoint before is not known to be there; it is not forced again,
// because the system tells such an error once, and then says that all is well.
func (t *target) dropUnwritten(r *run, path string, err error) {
	t.unwritten.Store(true)
	t.drop(r, path, fmt.Errorf("what was written cannot be forced to the device: %w", err))
}

// due reports whether a checkpoint would list enough.
func (l *ledger) due(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil || l.target.logErr != nil {
		return false
	}
	parts := int64(0)
	for _, f := range l.inFlight {
		if m, ok := f.sink.Reached(); ok {
			parts += m.Off - f.noted
		}
	}
	if l.noted == 0 && parts == 0 {
		return false
	}
	since := now.Sub(l.last)
	if since >= mostInterval {
		return true
	}
	if l.forcing > forceFree+now.Sub(l.begin)/forceShare {
		return false
	}
	if since >= max(now.Sub(l.begin)/partLost, leastInterval) {
		return true
	}
	return l.bytes+parts >= min(max((l.total+parts)/partLost, leastVolume), mostVolume)
}

// checkpoint forces to the device what was copied so far, and notes that it is
// there. flush asks for everything, whether there is something to note or not.
func (t *target) checkpoint(r *run, flush bool) error {
	l := t.ledger
	l.flushing.Lock()
	defer l.flushing.Unlock()
	c, err := l.begins()
	defer c.release()
	if err != nil {
		l.fail(err)
	}
	if err := t.force(c, flush); err != nil {
		return err
	}
	if t.behind != nil && (c.noted > 0 || len(c.parts) > 0) {
		// An error of writing back is told to one, who may have been the device's
		// goroutine, and not to those who asked after it.
		t.behind.Drain()
	}
	if t.unwritten.Load() {
		return nil // which was told
	}
	if err := l.ends(c, r.opts.Sync != SyncNone); err != nil {
		l.fail(err)
	}
	r.reportLog(t)
	return nil
}

// force makes the group durable.
func (t *target) force(c *checkpointing, flush bool) (err error) {
	whole := t.wholeFS && (c.noted > 0 || flush)
	if whole {
		// As a whole, because many files are meant; few are forced each by itself,
		// because the file system has other programs' data, too.
		var mark int64
		if t.group != nil {
			mark = t.group.Mark()
		}
		if t.behind != nil {
			t.behind.Hold()
		}
		err = t.syncFS()
		if t.behind != nil {
			t.behind.Release()
		}
		if t.group != nil {
			t.group.Flushed(mark)
		}
	}
	if err == nil {
		err = c.syncParts(whole)
	}
	if err == nil {
		err = t.syncDirs(c.dirs)
	}
	if err == nil {
		err = t.syncDrives()
	}
	return err
}

// settle notes, when everything else is on the device, that it is; last says that
// the note has to last. The first error is one of forcing the names of files.
func (l *ledger) settle(last bool) (unforced, err error) {
	l.flushing.Lock()
	defer l.flushing.Unlock()
	c, err := l.begins()
	defer c.release()
	unforced = l.target.syncDirs(c.dirs)
	if unforced == nil {
		unforced = l.target.syncDrives()
	}
	if unforced != nil || err != nil {
		return unforced, err
	}
	return nil, l.ends(c, last)
}

// checkpointing is one checkpoint under way.
type checkpointing struct {
	ledger *ledger
	upto   int64 // lines of the log that begin before are meant
	at     fsys.Time
	noted  int64
	dirs   map[string]string
	parts  []part
}

type part struct {
	*inFlight
	from int64 // what is there already
	mark pipe.Mark
	each bool // no flush of its file system covers it
}

// begins closes the group of what the checkpoint is about.
func (l *ledger) begins() (*checkpointing, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := &checkpointing{ledger: l, dirs: l.dirs}
	l.dirs = map[string]string{}
	if l.file == nil || l.target.logErr != nil {
		return c, nil
	}
	// The time of the log's last change is that of the destination's clock, and not
	// before the changes of the files that its lines list.
	if err := l.w.Flush(); err != nil {
		return c, err
	}
	info, err := l.file.Stat()
	if err != nil {
		return c, err
	}
	c.upto, c.at, c.noted = l.w.Size(), info.Mtime, l.noted
	l.noted, l.bytes = 0, 0
	for p, f := range l.inFlight {
		if m, ok := f.sink.Reached(); ok && m.Off > f.noted {
			f.users++
			c.parts = append(c.parts, part{f, f.noted, m, p.dd.system.syncEach})
		}
	}
	return c, nil
}

func (c *checkpointing) release() {
	c.ledger.mu.Lock()
	defer c.ledger.mu.Unlock()
	for _, p := range c.parts {
		p.release()
	}
	c.parts = nil
}

// syncParts syncs the large files that are on their way. flushed says that the file
// systems were flushed that can be.
func (c *checkpointing) syncParts(flushed bool) error {
	for _, p := range c.parts {
		if flushed && !p.each {
			continue
		}
		if err := p.file.SyncPart(p.from, p.mark.Off-p.from); err != nil {
			return fmt.Errorf("%s: %w", quote.Name(p.line.Path), err)
		}
	}
	return nil
}

// syncDirs forces the names of files that were forced each by itself. in has a
// path in each of the directories.
func (t *target) syncDirs(in map[string]string) error {
	if len(in) == 0 {
		return nil
	}
	look := newFinder(t.root)
	defer look.Close()
	for _, path := range in {
		dir, _, err := look.Parent(path)
		if err == nil {
			err = t.sync(dir)
		}
		// One that its final mode has closed to us was forced before that.
		if err != nil && !fsys.NotPermitted(err) && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// sync forces a file or a directory by itself: with --sync=end as far as the drive,
// because syncDrives follows.
func (t *target) sync(o interface {
	Sync() error
	SyncToDrive() error
}) error {
	if t.drivesLater {
		return o.SyncToDrive()
	}
	return o.Sync()
}

// syncDrives flushes the drives' own caches of what was forced each by itself: once for
// many files, see docs/adr/0002.
func (t *target) syncDrives() error {
	if !t.drivesLater {
		return nil
	}
	for _, s := range t.fileSystems.all() {
		if !s.syncEach {
			continue
		}
		if err := s.dir.SyncDrive(); err != nil {
			return err
		}
	}
	return nil
}

// syncFS flushes the destination's file system, and those mounted in it.
func (t *target) syncFS() error {
	if err := t.syncMounts(); err != nil {
		return err
	}
	return syncFS(t.root)
}

// syncFS flushes one file system. FAT's own way does not flush the device's cache.
func syncFS(d *fsys.Dir) error {
	err := d.SyncFS()
	if err == nil && !d.KeepsChangeTime() {
		err = d.Sync()
	}
	return err
}

// syncMounts flushes the file systems below the root, where that reaches their devices.
func (t *target) syncMounts() error {
	for _, s := range t.fileSystems.all() {
		if s.dir != t.root && s.dir.SyncFSReliable() {
			if err := syncFS(s.dir); err != nil {
				return err
			}
		}
	}
	return nil
}

// ends writes down that the group is on the device.
func (l *ledger) ends(c *checkpointing, force bool) error {
	l.mu.Lock()
	if l.file == nil || l.target.logErr != nil {
		l.mu.Unlock()
		return nil
	}
	var err error
	for _, p := range c.parts {
		if p.users > 1 && err == nil { // the worker is still at it
			err = l.w.Partial(p.at(p.mark))
			l.total += p.mark.Off - p.noted
			p.noted = p.mark.Off
			p.written = max(p.written, p.noted)
		}
	}
	if err == nil && c.noted > 0 {
		err = l.w.Checkpoint(c.upto, c.at)
	}
	if err == nil {
		err = l.w.Flush()
	}
	file := l.file
	l.mu.Unlock()
	begin := time.Now()
	if err == nil && force {
		err = file.Sync()
	}
	l.mu.Lock()
	l.last = time.Now()
	l.forcing += l.last.Sub(begin)
	l.mu.Unlock()
	return err
}
