package engine

import (
	"bytes"
	"cmp"
	"fmt"
	stdhash "hash"
	"slices"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/journal"
	"github.com/seed65876f4f/sealift/internal/pipe"
	"github.com/seed65876f4f/sealift/internal/timing"
)

// continuePartial takes up the temporaries that an interrupted run has left of a
// large file, and brings the digests to where it was. It returns the offset to go
// on from, which is 0 unless every destination has that much: the file is read
// once for all of them. The error is the source's.
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
		if start == 0 || f.offset < start {
			start, states = f.offset, f.states
		}
	}
	if err := r.ctx.Err(); err != nil {
		return 0, cmp.Or(keepAll(found), err)
	}
	if start == 0 || len(found) < wanted {
		for _, f := range found {
			f.giveUp(r, e)
		}
		return 0, nil
	}
	for _, f := range found {
		r.setSink(f.transfer, f.file, r.pairOf(e, f.transfer))
		if f.noted > start { // which will not be there any more
			rest := f.transfer.partial(e, f.file, pipe.Mark{Off: start, States: states})
			if err := f.transfer.target.ledger.cut(f.file, rest); err != nil {
				f.transfer.sink.Err = err
				continue
			}
		}
		if f.transfer.sink.Continue(start); f.transfer.sink.Err == nil {
			f.transfer.sink.Err = r.preallocate(e, f.transfer)
		}
	}
	// What cannot tell its state has to see the beginning again.
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

// leftover is the temporary of a large file that an interrupted run has left.
type leftover struct {
	transfer *transfer
	file     *fsys.Pending
	offset   int64    // what is there for certain
	noted    int64    // what the journal says is there, perhaps or for certain
	states   [][]byte // of the digests at the offset
}

// keepAll leaves the temporaries for the next run.
func keepAll(found []*leftover) (err error) {
	for _, f := range found {
		f.transfer.sink = pipe.Sink{}
		err = cmp.Or(err, f.file.Keep())
	}
	return err
}

// giveUp removes the temporary, of which the journal is not to tell any more.
func (f *leftover) giveUp(r *run, e *entry) {
	f.file.Abort()
	f.transfer.noted = true
	r.forget(e, f.transfer)
}

// takeLeftover takes up what is left of a file at one destination, nil if nothing
// of it is known to be right.
func (r *run) takeLeftover(e *entry, p *transfer, set *hash.Set) *leftover {
	durable, written, ok := p.target.ledger.partial(e.manifestPath(p), e.meta.info)
	if !ok {
		return nil
	}
	e.clock.At(timing.Read, p.target.place())
	temp := cmp.Or(durable.Temp, written.Temp)
	p.target.ledger.takeLeft(temp)
	file, info, err := p.dir.Reopen(temp, p.target.ledger.owner)
	if err != nil { // gone, or not what was left: it is copied from the beginning
		p.target.ledger.giveBack(temp, e.manifestPath(p))
		return nil
	}
	f := &leftover{p, file, durable.Offset, max(durable.Offset, written.Offset), durable.States}
	if written.Offset > 0 && info.Size >= written.Offset && r.proveWritten(e, f, written, set) {
		f.offset, f.states = written.Offset, written.States
	}
	if r.ctx.Err() != nil {
		return f // nobody knows, and it is for the next run
	}
	if f.offset == 0 || info.Size < f.offset {
		f.giveUp(r, e)
		return nil
	}
	return f
}

// proveWritten reads what was written after the last checkpoint back from the
// device. It is what was read from the source if the digests come out at the state
// that they had there.
func (r *run) proveWritten(e *entry, f *leftover, written journal.Partial, set *hash.Set) bool {
	set.Restore(f.states)
	from := f.offset
	var provable []stdhash.Hash
	for i := range set.Len() {
		known := i < len(written.States) && len(written.States[i]) > 0
		if known && (from == 0 || i < len(f.states) && len(f.states[i]) > 0) {
			provable = append(provable, set.Hash(i))
		}
	}
	if len(provable) == 0 {
		return false
	}
	if _, err := f.file.DropCache(); err != nil {
		return false
	}
	if err := r.pipe.Feed(r.ctx, &f.file.File, from, written.Offset, provable, e.clock, f.transfer.target.place()); err != nil {
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
func (r *run) leavePartial(e *entry, movers []*transfer, off int64, set *hash.Set) {
	if e.unchanged() != nil {
		return
	}
	states := set.States()
	for _, p := range movers {
		if p.sink.File == nil || !p.open() {
			continue
		}
		p.target.ledger.untrack(p)
		if p.sink.Behind != nil {
			p.sink.Behind.Finish()
			p.sink.Behind = nil
		}
		if err := p.target.ledger.leavePartial(e, p, off, states); err != nil {
			p.target.ledger.fail(err)
		}
	}
}
