package resume

import (
	"fmt"
	"time"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/quote"
)

// Limits for the time of a checkpoint. An interruption may cost only a small part of the
// work: of the time, between the first two limits, and of the bytes, between the other two.
// And syncing the log must remain a small part of the work.
const (
	leastInterval = 250 * time.Millisecond
	mostInterval  = 3 * time.Second
	leastVolume   = 16 << 20               // bytes
	mostVolume    = 256 << 20              // bytes
	partLost      = 32                     // at most 1/partLost may be lost
	syncShare     = 50                     // at most 1/syncShare of the time may be spent on syncing the log
	syncFree      = 300 * time.Millisecond // in addition, at the beginning
)

// Due reports whether a checkpoint now would cover enough work.
func (l *Log) Due(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.active() {
		return false
	}
	parts := int64(0) // bytes of large files
	for f, at := range l.mu.inFlight {
		if off, _, ok := f.Reached(); ok {
			parts += off - at.synced
		}
	}
	if l.mu.files == 0 && parts == 0 {
		return false
	}
	since := now.Sub(l.mu.last)
	if since >= mostInterval {
		return true
	}
	if l.mu.syncing > syncFree+now.Sub(l.start)/syncShare {
		return false
	}
	if since >= max(now.Sub(l.start)/partLost, leastInterval) {
		return true
	}
	return l.mu.bytes+parts >= min(max((l.mu.total+parts)/partLost, leastVolume), mostVolume)
}

// Group has the files that one checkpoint covers.
type Group struct {
	Files int64             // added since the last checkpoint
	Dirs  map[string]string // directories with a name that was not synced yet → a path in each
	parts []part            // the parts of large files

	upto int64     // the group covers records that begin before this offset of the log
	at   fsys.Time // when the group was closed, on the destination's clock
}

// part is a part of a large file that is being written.
type part struct {
	*InFlight
	now    *progress // guarded by the log's mu
	from   int64     // bytes that are already on the device
	off    int64     // the end of the part
	states [][]byte
}

// Empty reports whether the group has neither files nor parts of them.
func (g *Group) Empty() bool { return g.Files == 0 && len(g.parts) == 0 }

// SyncParts syncs the large files. flushed is true if the caller has flushed the file
// systems that support it. Files on these need no sync.
func (g *Group) SyncParts(flushed bool) error {
	for _, p := range g.parts {
		if flushed && !p.Separately {
			continue
		}
		if err := p.dup.SyncPart(p.from, p.off-p.from); err != nil {
			return fmt.Errorf("%s: %w", quote.Name(p.Path), err)
		}
	}
	return nil
}

// Checkpoint closes the group of the files added so far, lets flush make it durable, and
// then records that it is on the device. If flush fails, nothing is recorded, and the error
// is that of flush. If writing the log fails, the log has failed.
func (l *Log) Checkpoint(flush func(*Group) error) error {
	return l.checkpoint(flush, (*fsys.Pending).Sync)
}

// LastCheckpoint is a Checkpoint that does not sync the log, for a run that is about to
// remove it, or that needs it only to be done again.
func (l *Log) LastCheckpoint(flush func(*Group) error) error {
	return l.checkpoint(flush, func(*fsys.Pending) error { return nil })
}

func (l *Log) checkpoint(flush func(*Group) error, syncLog func(*fsys.Pending) error) error {
	l.checkpoints.Lock()
	defer l.checkpoints.Unlock()
	g := l.closeGroup()
	defer l.release(g)
	if err := flush(g); err != nil {
		return err
	}
	file, err := l.record(g)
	if file == nil {
		return nil
	}
	begin := time.Now()
	if err == nil {
		err = syncLog(file)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.last = time.Now()
	l.mu.syncing += l.mu.last.Sub(begin)
	l.fail(err)
	return nil
}

// closeGroup returns the group of a checkpoint: the files added since the last one, and the
// parts of large files that were written since then.
func (l *Log) closeGroup() *Group {
	l.mu.Lock()
	defer l.mu.Unlock()
	g := &Group{Dirs: l.mu.dirs}
	l.mu.dirs = map[string]string{}
	if !l.active() {
		return g
	}
	// The time of the log's last change is on the destination's clock. It is not before the
	// changes of the files that the log's records list.
	err := l.mu.w.Flush()
	var now fsys.Time
	if err == nil {
		now, err = l.now()
	}
	if err != nil {
		l.fail(err)
		return g
	}
	g.upto, g.at, g.Files = l.mu.w.Size(), now, l.mu.files
	l.mu.files, l.mu.bytes = 0, 0
	for f, at := range l.mu.inFlight {
		if off, states, ok := f.Reached(); ok && off > at.synced {
			at.users++
			g.parts = append(g.parts, part{InFlight: f, now: at, from: at.synced, off: off, states: states})
		}
	}
	return g
}

// record writes that the group is on the device. It returns the log, which is not synced
// yet, or nil if recording has ended.
func (l *Log) record(g *Group) (*fsys.Pending, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.active() {
		return nil, nil
	}
	for _, p := range g.parts {
		if p.now.users == 1 { // the worker has ended
			continue
		}
		if err := l.mu.w.Partial(p.lineAt(p.off, p.states)); err != nil {
			return l.mu.file, err
		}
		l.mu.total += p.off - p.now.synced
		p.now.synced = p.off
	}
	if g.Files > 0 {
		if err := l.mu.w.Checkpoint(g.upto, g.at); err != nil {
			return l.mu.file, err
		}
	}
	return l.mu.file, l.mu.w.Flush()
}

// release ends the use of the large files by a checkpoint.
func (l *Log) release(g *Group) {
	for _, p := range g.parts {
		l.mu.Lock()
		last := p.now.release()
		l.mu.Unlock()
		if last {
			p.dup.Close()
		}
	}
}
