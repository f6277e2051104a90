package engine

import (
	"cmp"
	"fmt"
	stdhash "hash"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/pipe"
	"github.com/seed65876f4f/sealift/internal/resume"
	"github.com/seed65876f4f/sealift/internal/timing"
)

// continuePartial opens the temporaries of a large file that an interrupted run has left, and
// restores the state of the digests at their end. It returns the offset to continue from.
// The source is read once for all destinations, so this is the smallest of their offsets. It is 0 if
// a destination has no temporary. The error is about the source.
func (r *mover) continuePartial(e *entry, movers []*transfer, set *hash.Set) (start int64, err error) {
	var found []*leftover
	wanted := 0
	for _, p := range movers {
		if !p.open() {
			continue
		}
		wanted++
		if f := r.takeLeftover(e, p); f != nil {
			found = append(found, f)
		}
	}
	var states [][]byte
	for _, f := range found {
		if start == 0 || f.Offset < start {
			start, states = f.Offset, f.States
		}
	}
	if start == 0 || len(found) < wanted {
		for _, f := range found {
			f.transfer.target.Log.Discard(f.Leftover)
		}
		return 0, nil
	}
	for _, f := range found {
		r.setSink(f.transfer, f.File, r.pairOf(e, f.transfer))
		if err := f.transfer.target.Log.Shorten(f.Leftover, start, states); err != nil {
			f.transfer.sink.Err = err
			continue
		}
		if f.transfer.sink.Continue(start); f.transfer.sink.Err == nil {
			f.transfer.sink.Err = r.preallocate(e, f.transfer)
		}
	}
	// A digest whose state cannot be saved has to read the file from its beginning.
	if missing := set.Restore(states); len(missing) > 0 {
		e.activity.At(timing.Source)
		err = r.checkKept(e, start, missing)
	}
	if err != nil && r.ctx.Err() != nil {
		return 0, cmp.Or(leaveForNextRun(found), err)
	}
	if err != nil {
		return 0, fmt.Errorf("reading the part that an earlier run has copied: %w", err)
	}
	return start, nil
}

// checkKept reads the first start bytes of the source again, and counts them as bytes that are kept.
func (r *mover) checkKept(e *entry, start int64, digests []stdhash.Hash) error {
	r.uncount(e) // the comparison has counted the same bytes
	left := start
	counters.Grow(&r.counters.CheckTotal, start)
	err := r.pipe.HashRange(r.ctx, e.File, 0, start, digests, func(n int64) {
		left -= n
		e.shown.Reached(start-left, e.Meta.Info.Size)
		counters.Grow(&r.counters.Checked, n)
		r.countKept(e, n)
	}, e.activity)
	if r.ctx.Err() == nil { // after a failure or the end of a shorter file, the rest is not checked
		r.counters.CheckTotal.Add(-left)
	}
	return err
}

// countKept counts bytes that an interrupted run has copied. They are not part of rates.
func (r *mover) countKept(e *entry, n int64) {
	e.counted += n
	e.unread += n
	counters.Grow(&r.counters.Unread, n)
	counters.Grow(&r.counters.Bytes, n)
}

// wouldContinue returns, in a dry run, the offset from which the real run would continue the
// file.
func (r *mover) wouldContinue(e *entry, movers []*transfer) (start int64) {
	if e.Meta.Info.Size <= resume.LeastPartial || r.opts.Reflink == ReflinkAlways {
		return 0
	}
	for i, p := range movers {
		if p.dir == nil || p.target.Earlier == nil {
			return 0
		}
		reached := p.target.Earlier.Continues(p.dir, e.manifestPath(p), e.Meta.Info)
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
}

// leaveForNextRun closes the temporaries and leaves them for the next run.
func leaveForNextRun(found []*leftover) (err error) {
	for _, f := range found {
		f.transfer.sink = pipe.Sink{}
		err = cmp.Or(err, f.File.Keep())
	}
	return err
}

// takeLeftover opens the temporary that is left of a file at one destination. The result is nil if
// there is none.
func (r *mover) takeLeftover(e *entry, p *transfer) *leftover {
	e.activity.At(p.target.Place())
	left := p.target.Earlier.TakeLeftover(p.dir, e.manifestPath(p), e.Meta.Info, p.target.Log.Owner)
	if left == nil {
		return nil
	}
	return &leftover{transfer: p, Leftover: left}
}

// leavePartial keeps the written parts of a large file when the run is stopped. The caller has
// made sure that all blocks that were read have reached the digests and the sinks.
func (r *mover) leavePartial(e *entry, movers []*transfer, total int64, set *hash.Set) {
	if e.Unchanged() != nil {
		return
	}
	states := set.States()
	for _, p := range movers {
		if p.sink.File == nil || !p.open() {
			continue
		}
		p.stopBeside()
		if err := p.keepPartial(total, states); err != nil {
			p.target.Log.Fail(err)
		}
	}
}

// keepPartial keeps the first total bytes of the transfer's temporary, if there are at least
// resume.LeastPartial.
func (p *transfer) keepPartial(total int64, states [][]byte) error {
	if p.inFlight == nil || total < resume.LeastPartial || p.sink.Err != nil || !p.target.Log.Active() {
		return nil
	}
	if err := p.sink.Stop(total); err != nil {
		return err
	}
	f := p.inFlight
	p.inFlight = nil // otherwise abort would remove its record from the log
	return f.Keep(total, states)
}

// track lets checkpoints record how much of the transfer's temporary is written, if the file
// is large. start is the number of bytes that the temporary has already.
func (p *transfer) track(e *entry, start int64) (err error) {
	if e.Meta.Info.Size <= resume.LeastPartial {
		return nil
	}
	e.tracked = true
	p.inFlight, err = p.target.Log.Track(resume.LargeFile{
		Path:       e.manifestPath(p),
		Source:     e.Meta.Info,
		File:       p.sink.File,
		Start:      start,
		Separately: p.dd.system.SyncEach,
		Reached: func() (off int64, states [][]byte, ok bool) {
			m, ok := p.sink.Reached()
			return m.Off, m.States, ok
		},
	})
	return err
}
