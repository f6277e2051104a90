package engine

import (
	"bytes"
	"cmp"
	"fmt"
	stdhash "hash"
	"slices"

	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/journal"
	"github.com/seed65876f4f/sealift/internal/pipe"
	"github.com/seed65876f4f/sealift/internal/resume"
	"github.com/seed65876f4f/sealift/internal/timing"
)

// continuePartial opens the temporaries that an interrupted run has left of a large file,
// and restores the digests at the end of them. It returns the offset to continue from,
// which is 0 unless every destination has that much, because the file is read once for all
// of them. The error is the source's.
func (r *run) continuePartial(e *entry, movers []*transfer, set *hash.Set) (start int64, err error) {
	var found []*leftover
	wanted := 0
	for _, p := range movers {
		if !p.open() {
			continue
		}
		wanted++
		if f := r.takeLeftover(e, p, set); f != nil {
			found = append(found, f)
		}
	}
	var states [][]byte
	for _, f := range found {
		if start == 0 || f.proved.Offset < start {
			start, states = f.proved.Offset, f.proved.States
		}
	}
	if err := r.ctx.Err(); err != nil {
		return 0, cmp.Or(keepAll(found), err)
	}
	if start == 0 || len(found) < wanted {
		for _, f := range found {
			f.Discard()
		}
		return 0, nil
	}
	for _, f := range found {
		r.setSink(f.transfer, f.File, r.pairOf(e, f.transfer))
		if err := f.Shorten(start, states); err != nil {
			f.transfer.sink.Err = err
			continue
		}
		if f.transfer.sink.Continue(start); f.transfer.sink.Err == nil {
			f.transfer.sink.Err = r.preallocate(e, f.transfer)
		}
	}
	// A digest that cannot save its state has to read the beginning again.
	if missing := set.Restore(states); len(missing) > 0 {
		err = r.pipe.Feed(r.ctx, e.file, 0, start, missing, e.clock, timing.Source)
	}
	if err != nil && r.ctx.Err() != nil {
		return 0, cmp.Or(keepAll(found), err)
	}
	if err != nil {
		return 0, fmt.Errorf("reading what is there already: %w", err)
	}
	return start, nil
}

// wouldContinue returns the offset from which the run would continue what an interrupted
// one has left, if this were no dry run.
func (r *run) wouldContinue(e *entry, movers []*transfer) (start int64) {
	if e.meta.info.Size <= resume.LeastPartial || r.opts.Reflink == ReflinkAlways {
		return 0
	}
	for i, p := range movers {
		if p.dir == nil || p.target.log == nil {
			return 0
		}
		reached := p.target.log.Continues(p.dir, e.manifestPath(p), e.meta.info)
		if i == 0 || reached < start {
			start = reached
		}
	}
	return start
}

// leftover is the temporary of a large file that an interrupted run has left.
type leftover struct {
	transfer *transfer
	*resume.Leftover
	proved journal.Partial // how far the file is there for certain
}

// keepAll leaves the temporaries for the next run.
func keepAll(found []*leftover) (err error) {
	for _, f := range found {
		f.transfer.sink = pipe.Sink{}
		err = cmp.Or(err, f.File.Keep())
	}
	return err
}

// takeLeftover takes up what is left of a file at one destination, nil if nothing
// of it is known to be right.
func (r *run) takeLeftover(e *entry, p *transfer, set *hash.Set) *leftover {
	e.clock.At(timing.Read, p.target.place())
	left := p.target.log.TakeLeftover(p.dir, e.manifestPath(p), e.meta.info)
	if left == nil {
		return nil
	}
	f := &leftover{transfer: p, Leftover: left, proved: left.Durable}
	if left.Written.Offset > 0 && left.Size >= left.Written.Offset && r.proveWritten(e, f, set) {
		f.proved = left.Written
	}
	if r.ctx.Err() != nil {
		return f // not proved yet: it is left to the next run
	}
	if f.proved.Offset == 0 || left.Size < f.proved.Offset {
		left.Discard()
		return nil
	}
	return f
}

// proveWritten reads what was written after the last checkpoint back from the
// device. It is what was read from the source if the digests come out at the state
// that they had there.
func (r *run) proveWritten(e *entry, f *leftover, set *hash.Set) bool {
	durable, written := f.Durable, f.Written
	set.Restore(durable.States)
	var provable []stdhash.Hash
	for i := range set.Len() {
		known := i < len(written.States) && len(written.States[i]) > 0
		if known && (durable.Offset == 0 || i < len(durable.States) && len(durable.States[i]) > 0) {
			provable = append(provable, set.Hash(i))
		}
	}
	if len(provable) == 0 {
		return false
	}
	if _, err := f.File.DropCache(); err != nil {
		return false
	}
	if err := r.pipe.Feed(r.ctx, &f.File.File, durable.Offset, written.Offset, provable, e.clock, f.transfer.target.place()); err != nil {
		return false
	}
	for i := range set.Len() {
		if h := set.Hash(i); slices.Contains(provable, h) && !bytes.Equal(hash.State(h), written.States[i]) {
			return false
		}
	}
	return true
}

// leavePartial keeps, of a run that is stopped, what was written of a large file.
// All that was read has reached the digests and the sinks.
func (r *run) leavePartial(e *entry, movers []*transfer, total int64, set *hash.Set) {
	if e.unchanged() != nil {
		return
	}
	states := set.States()
	for _, p := range movers {
		if p.sink.File == nil || !p.open() {
			continue
		}
		p.inFlight.Stop()
		if p.sink.Behind != nil {
			p.sink.Behind.Finish()
			p.sink.Behind = nil
		}
		if err := p.keepPartial(total, states); err != nil {
			p.target.log.Fail(err)
		}
	}
}

// keepPartial keeps the first total bytes of the transfer's temporary, if that is worth
// it.
func (p *transfer) keepPartial(total int64, states [][]byte) error {
	if p.inFlight == nil || total < resume.LeastPartial || p.sink.Err != nil || !p.target.log.Active() {
		return nil
	}
	if err := p.sink.Stop(total); err != nil {
		return err
	}
	f := p.inFlight
	p.inFlight = nil // the log keeps its record
	return f.Keep(total, states)
}

// track lets checkpoints follow the transfer's temporary, which has start bytes already, if
// the file is large.
func (p *transfer) track(e *entry, start int64) (err error) {
	if e.meta.info.Size <= resume.LeastPartial {
		return nil
	}
	e.tracked = true
	p.inFlight, err = p.target.log.Track(resume.LargeFile{
		Path:       e.manifestPath(p),
		Source:     e.meta.info,
		File:       p.sink.File,
		Start:      start,
		Separately: p.dd.system.syncEach,
		Reached: func() (off int64, states [][]byte, ok bool) {
			m, ok := p.sink.Reached()
			return m.Off, m.States, ok
		},
	})
	return err
}
