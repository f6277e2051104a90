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

// continuePartial opens the temporaries of a large file that an interrupted run has left, and
// restores the state of the digests at their end. It returns the offset to continue from.
// The source is read once for all destinations, so this is the smallest of their offsets. It is 0 if
// a destination has no temporary. The error is about the source.
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
		return 0, cmp.Or(leaveForNextRun(found), err)
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
	// A digest whose state cannot be saved has to read the file from its beginning.
	if missing := set.Restore(states); len(missing) > 0 {
		err = r.pipe.HashRange(r.ctx, e.file, 0, start, missing, e.clock, timing.Source)
	}
	if err != nil && r.ctx.Err() != nil {
		return 0, cmp.Or(leaveForNextRun(found), err)
	}
	if err != nil {
		return 0, fmt.Errorf("reading the part that an earlier run has copied: %w", err)
	}
	return start, nil
}

// wouldContinue returns, in a dry run, the offset from which the real run would continue the
// file.
func (r *run) wouldContinue(e *entry, movers []*transfer) (start int64) {
	if e.meta.Info.Size <= resume.LeastPartial || r.opts.Reflink == ReflinkAlways {
		return 0
	}
	for i, p := range movers {
		if p.dir == nil || p.target.log == nil {
			return 0
		}
		reached := p.target.log.Continues(p.dir, e.manifestPath(p), e.meta.Info)
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
	proved journal.Partial // the part whose content is certain
}

// leaveForNextRun closes the temporaries and leaves them for the next run.
func leaveForNextRun(found []*leftover) (err error) {
	for _, f := range found {
		f.transfer.sink = pipe.Sink{}
		err = cmp.Or(err, f.File.Keep())
	}
	return err
}

// takeLeftover opens the temporary that is left of a file at one destination. It returns nil,
// and discards the temporary, if the content of no part is certain.
func (r *run) takeLeftover(e *entry, p *transfer, set *hash.Set) *leftover {
	e.clock.At(timing.Read, p.target.place())
	left := p.target.log.TakeLeftover(p.dir, e.manifestPath(p), e.meta.Info)
	if left == nil {
		return nil
	}
	f := &leftover{transfer: p, Leftover: left, proved: left.Durable}
	if left.Written.Offset > 0 && left.Size >= left.Written.Offset && r.proveWritten(e, f, set) {
		f.proved = left.Written
	}
	if r.ctx.Err() != nil {
		return f // the run was stopped; the caller keeps the temporary for the next run
	}
	if f.proved.Offset == 0 || left.Size < f.proved.Offset {
		left.Discard()
		return nil
	}
	return f
}

// proveWritten checks the part of a temporary that was written after the last checkpoint. It
// reads that part from the device and compares the states of the digests with those that the
// interrupted run recorded while it read the source.
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
	if err := r.pipe.HashRange(r.ctx, &f.File.File, durable.Offset, written.Offset, provable, e.clock, f.transfer.target.place()); err != nil {
		return false
	}
	for i := range set.Len() {
		if h := set.Hash(i); slices.Contains(provable, h) && !bytes.Equal(hash.State(h), written.States[i]) {
			return false
		}
	}
	return true
}

// leavePartial keeps the written parts of a large file when the run is stopped. The caller has
// made sure that all blocks that were read have reached the digests and the sinks.
func (r *run) leavePartial(e *entry, movers []*transfer, total int64, set *hash.Set) {
	if e.unchanged() != nil {
		return
	}
	states := set.States()
	for _, p := range movers {
		if p.sink.File == nil || !p.open() {
			continue
		}
		p.stopBeside()
		if err := p.keepPartial(total, states); err != nil {
			p.target.log.Fail(err)
		}
	}
}

// keepPartial keeps the first total bytes of the transfer's temporary, if there are at least
// resume.LeastPartial.
func (p *transfer) keepPartial(total int64, states [][]byte) error {
	if p.inFlight == nil || total < resume.LeastPartial || p.sink.Err != nil || !p.target.log.Active() {
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
	if e.meta.Info.Size <= resume.LeastPartial {
		return nil
	}
	e.tracked = true
	p.inFlight, err = p.target.log.Track(resume.LargeFile{
		Path:       e.manifestPath(p),
		Source:     e.meta.Info,
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
