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
	partLost      = 32                     // divisor: a stop loses at most 1/partLost of the work
	syncShare     = 50                     // divisor: at most 1/syncShare of the time may be spent on syncing the log
	syncFree      = 300 * time.Millisecond // time for syncing in addition, at the beginning
)

// Due reports whether a checkpoint now would cover enough work.
func (w *Writer) Due(now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.active() {
		return false
	}
	parts := int64(0) // bytes of large files
	for f, at := range w.mu.inFlight {
		if off, _, ok := f.Reached(); ok {
			parts += off - at.synced
		}
	}
	if w.mu.files == 0 && parts == 0 {
		return false
	}
	since := now.Sub(w.mu.last)
	if since >= mostInterval {
		return true
	}
	if w.mu.syncing > syncFree+now.Sub(w.start)/syncShare {
		return false
	}
	if since >= max(now.Sub(w.start)/partLost, leastInterval) {
		return true
	}
	return w.mu.bytes+parts >= min(max((w.mu.total+parts)/partLost, leastVolume), mostVolume)
}

// Group has the files that one checkpoint covers.
type Group struct {
	Files int64             // number of files since the last checkpoint
	Dirs  map[string]string // directories with a name that was not synced yet → a path in each
	parts []part            // the parts of large files

	upto int64     // the group covers records that begin before this offset of the log
	at   fsys.Time // time when the group was closed, on the destination's clock
}

// part is a part of a large file that is being written.
type part struct {
	*InFlight
	now    *progress // the progress, guarded by the log's mu
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
func (w *Writer) Checkpoint(flush func(*Group) error) error {
	return w.checkpoint(flush, (*fsys.Pending).Sync)
}

// LastCheckpoint is a Checkpoint that does not sync the log, for a run that is about to
// remove it, or that needs it only to be done again.
func (w *Writer) LastCheckpoint(flush func(*Group) error) error {
	return w.checkpoint(flush, func(*fsys.Pending) error { return nil })
}

func (w *Writer) checkpoint(flush func(*Group) error, syncLog func(*fsys.Pending) error) error {
	w.checkpoints.Lock()
	defer w.checkpoints.Unlock()
	g := w.closeGroup()
	defer w.release(g)
	if err := flush(g); err != nil {
		return err
	}
	file, err := w.record(g)
	if file == nil {
		return nil
	}
	begin := time.Now()
	if err == nil {
		err = syncLog(file)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.last = time.Now()
	w.mu.syncing += w.mu.last.Sub(begin)
	w.fail(err)
	return nil
}

// closeGroup returns the group of a checkpoint: the files added since the last one, and the
// parts of large files that were written since then.
func (w *Writer) closeGroup() *Group {
	w.mu.Lock()
	defer w.mu.Unlock()
	g := &Group{Dirs: w.mu.dirs}
	w.mu.dirs = map[string]string{}
	if !w.active() {
		return g
	}
	// The time of the log's last change is on the destination's clock. It is not before the
	// changes of the files that the log's records list.
	err := w.mu.lines.Flush()
	var now fsys.Time
	if err == nil {
		now, err = w.now()
	}
	if err != nil {
		w.fail(err)
		return g
	}
	g.upto, g.at, g.Files = w.mu.lines.Size(), now, w.mu.files
	w.mu.files, w.mu.bytes = 0, 0
	for f, at := range w.mu.inFlight {
		if off, states, ok := f.Reached(); ok && off > at.synced {
			at.users++
			g.parts = append(g.parts, part{InFlight: f, now: at, from: at.synced, off: off, states: states})
		}
	}
	return g
}

// record writes that the group is on the device. It returns the log, which is not synced
// yet, or nil if recording has ended.
func (w *Writer) record(g *Group) (*fsys.Pending, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.active() {
		return nil, nil
	}
	for _, p := range g.parts {
		if p.now.users == 1 { // the worker has ended
			continue
		}
		if err := w.recordPartial(p.lineAt(p.off, p.states)); err != nil {
			return w.mu.file, err
		}
		w.mu.total += p.off - p.now.synced
		p.now.synced = p.off
	}
	if g.Files > 0 {
		if err := w.mu.lines.Checkpoint(g.upto, g.at); err != nil {
			return w.mu.file, err
		}
	}
	return w.mu.file, w.mu.lines.Flush()
}

// release ends the use of the large files by a checkpoint.
func (w *Writer) release(g *Group) {
	for _, p := range g.parts {
		w.mu.Lock()
		last := p.now.release()
		w.mu.Unlock()
		if last {
			p.dup.Close()
		}
	}
}
