package pipe

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/timing"
)

// flow sends the pieces of one file to its digests and sinks. If at least as many files as
// cores are in progress, it works sequentially, in the reader's goroutine and one buffer,
// which costs the least. If a core would be idle, each digest and each sink has a lane, so
// that reading, hashing and writing overlap. A core is idle if fewer files are in progress, or
// if this file waits for a device.
type flow struct {
	pipe       *Pipe
	set        *hash.Set
	takers     []taker
	writing    atomic.Int64     // number of takers that have not failed
	sequential bool             // true if the flow never uses lanes
	activity   *timing.Activity // activity of the reader; may be nil
	from       timing.Place     // place of the file that is read

	lanes *lanes // nil while the flow is sequential
	round round
}

// taker receives the pieces: a Sink or an Output. One goroutine at a time calls it.
type taker interface {
	take(q piece)
	failed() bool // reports whether the taker takes no more pieces
	place() timing.Place
}

// round measures the last few blocks of a sequential flow.
type round struct {
	blocks  int
	bytes   int64
	begun   time.Time
	hashing time.Duration
}

// sequentialBlocks is the number of blocks that a sequential flow sends before it checks
// whether a core is idle. Files that begin at the same time would not count each other if it
// checked at once.
const sequentialBlocks = 8

// maxPerByte is the longest time for reading and writing one byte that shows no wait for a
// device (250 MB/s). Between files in memory, a byte needs 1 ns.
const maxPerByte = 4 * time.Nanosecond

// newFlow begins a flow. The activity, which may be nil, is at the place of the file until the
// flow is closed, except while the flow hashes, writes or waits.
func newFlow[T taker](p *Pipe, set *hash.Set, takers []T, activity *timing.Activity) *flow {
	f := &flow{pipe: p, set: set, activity: activity, from: activity.Place()}
	for _, t := range takers {
		f.takers = append(f.takers, t)
	}
	f.round.begun = time.Now()
	f.writing.Store(int64(len(takers)))
	return f
}

// wanted reports whether the rest of the file is needed: a taker has not failed, or there
// are only digests.
func (f *flow) wanted() bool { return len(f.takers) == 0 || f.writing.Load() > 0 }

// send sends a piece to all digests and takers. The last of them releases the block.
func (f *flow) send(q piece) {
	if f.lanes == nil && !f.sequential && f.round.blocks >= sequentialBlocks {
		if f.pipe.inProgress().Load() < int64(runtime.GOMAXPROCS(0)) || f.waited() {
			f.lanes = f.startLanes()
		}
		f.round = round{begun: time.Now()}
	}
	if f.lanes != nil {
		f.lanes.send(q, f.activity)
		return
	}
	f.activity.At(timing.CPU)
	hashed := time.Now()
	for i := range f.set.Len() {
		q.digest(f.set, i)
	}
	f.round.hashing += time.Since(hashed)
	for _, t := range f.takers {
		f.activity.At(t.place())
		f.give(q, t)
	}
	f.activity.At(f.from)
	if q.block != nil {
		q.block.Release()
		f.round.blocks++
		f.round.bytes += int64(len(q.data))
	}
}

// get waits for a block. With lanes, the wait counts for the slowest lane, which has the
// reader's blocks. Without lanes, other files have them.
func (f *flow) get(ctx context.Context) (*Block, error) {
	if f.lanes == nil {
		return f.pipe.get(ctx, f.activity)
	}
	if b := f.pipe.Pool.tryGet(ctx); b != nil {
		return b, nil
	}
	defer f.activity.At(f.activity.At(f.lanes.slowest()))
	return f.pipe.Pool.Get(ctx)
}

// waited reports whether the file has waited for a device in this round.
func (f *flow) waited() bool {
	r := &f.round
	return time.Since(r.begun)-r.hashing > time.Duration(r.bytes)*maxPerByte
}

// digest adds the piece to digest i of a set.
func (q piece) digest(set *hash.Set, i int) {
	h := set.Hash(i)
	if q.mark != nil {
		q.mark.setState(i, hash.State(h))
		return
	}
	for hole := q.hole; hole > 0; hole -= int64(len(zeros)) {
		_, _ = h.Write(zeros[:min(hole, int64(len(zeros)))]) // hash.Hash.Write never fails
	}
	_, _ = h.Write(q.data)
}

// give passes the piece to a taker.
func (f *flow) give(q piece, t taker) {
	if t.failed() {
		return
	}
	if t.take(q); t.failed() {
		f.writing.Add(-1)
	}
}

// close waits until all digests and takers have taken all pieces.
func (f *flow) close() {
	if f.lanes != nil {
		f.lanes.close(f.activity)
	}
}

// lanes are the lanes of one file.
type lanes struct {
	list  []*lane
	last  atomic.Int32 // index of the lane that was the last to release a block; at first, of the last lane
	group sync.WaitGroup
}

// lane is the queue of a consumer. A sender that finds it full continues when half of it is
// empty. If it continued at each free place, the consumer would wake it for each piece: for
// data in memory, that takes as long as a tenth of the hashing.
type lane struct {
	channel chan piece
	place   timing.Place
	queued  atomic.Int32  // pieces in channel; len(channel) is not ordered with waiting on all processors
	waiting atomic.Bool   // true if the sender waits for space, or is about to
	space   chan struct{} // wakes the sender that waits
}

// hasSpace reports whether half of the queue is empty.
func (l *lane) hasSpace() bool { return int(l.queued.Load()) <= cap(l.channel)/2 }

// waitForSpace waits until half of the queue is empty.
func (l *lane) waitForSpace() {
	l.waiting.Store(true)
	if l.hasSpace() && l.waiting.CompareAndSwap(true, false) {
		return // the consumer did not see that it waits
	}
	<-l.space
}

// received wakes the sender if it waits and half of the queue is empty.
func (l *lane) received() {
	l.queued.Add(-1)
	if l.waiting.Load() && l.hasSpace() && l.waiting.CompareAndSwap(true, false) {
		l.space <- struct{}{}
	}
}

// startLanes starts a lane for each digest and each sink. The caller must close
// them.
func (f *flow) startLanes() *lanes {
	l := &lanes{}
	for i := range f.set.Len() {
		l.add(f, timing.CPU, func(q piece) { q.digest(f.set, i) })
	}
	for _, t := range f.takers {
		l.add(f, t.place(), func(q piece) { f.give(q, t) })
	}
	l.last.Store(int32(len(l.list)) - 1)
	return l
}

func (l *lanes) add(f *flow, place timing.Place, consume func(piece)) {
	queue := &lane{channel: make(chan piece, f.pipe.QueueSize), place: place, space: make(chan struct{}, 1)}
	i := int32(len(l.list))
	l.list = append(l.list, queue)
	l.group.Go(func() {
		for q := range queue.channel {
			queue.received()
			consume(q)
			if q.block != nil {
				if q.block.refs.Load() == 1 { // all other lanes have released it
					l.last.Store(i)
				}
				q.block.Release()
			}
		}
	})
}

func (l *lanes) send(q piece, activity *timing.Activity) {
	if q.block != nil {
		q.block.refs.Store(int32(len(l.list)))
	}
	for _, queue := range l.list {
		if int(queue.queued.Load()) == cap(queue.channel) {
			from := activity.At(queue.place)
			queue.waitForSpace()
			activity.At(from)
		}
		queue.queued.Add(1)
		queue.channel <- q // there is space: only this goroutine sends
	}
}

// slowest returns the place of the lane that was the last to release a block.
func (l *lanes) slowest() timing.Place {
	if len(l.list) == 0 {
		return timing.None
	}
	return l.list[l.last.Load()].place
}

// close waits until the lanes have taken everything.
func (l *lanes) close(activity *timing.Activity) {
	for _, queue := range l.list {
		close(queue.channel)
	}
	defer activity.At(activity.At(l.slowest()))
	l.group.Wait()
}
