package pipe

import (
	"io"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed65876f4f/sealift/internal/hash"
)

// flow takes the pieces of one file to its digests and sinks. With as many files
// under way as there are cores it does that in turn, in the reader's goroutine and
// one buffer, which costs the least. Where a core would be idle, because there are
// fewer files or a device makes this one wait, each digest and each sink has a
// lane of its own, so that reading, hashing and writing overlap.
type flow struct {
	pipe    *Pipe
	set     *hash.Set
	takers  []taker
	writing atomic.Int64 // takers that have not failed
	inTurn  bool         // no lanes, whatever happens

	lanes *lanes // nil while pieces are taken in turn
	round round
}

// taker is where pieces go besides the digests: a sink, or somebody's output. It is
// used by one goroutine at a time.
type taker interface {
	take(q piece)
	failed() bool // nothing is taken any more
}

// round is the last few blocks that were taken in turn.
type round struct {
	blocks  int
	bytes   int64
	begun   time.Time
	hashing time.Duration
}

// blocksInTurn is how many blocks of a file are taken in turn before its flow looks
// whether a core is idle. Files that begin at the same time would not see each
// other otherwise.
const blocksInTurn = 8

// slowest is how long a byte may take to be read and written before the file is
// taken to wait for a device (250 MB/s); from memory and into it that is 1 ns.
const slowest = 4 * time.Nanosecond

func newFlow[T taker](p *Pipe, set *hash.Set, takers []T) *flow {
	f := &flow{pipe: p, set: set}
	for _, t := range takers {
		f.takers = append(f.takers, t)
	}
	f.round.begun = time.Now()
	f.writing.Store(int64(len(takers)))
	return f
}

// wanted reports whether anybody wants the rest of the file.
func (f *flow) wanted() bool { return len(f.takers) == 0 || f.writing.Load() > 0 }

// send passes a piece on. A block is released when everybody has taken it.
func (f *flow) send(q piece) {
	if f.lanes == nil && !f.inTurn && f.round.blocks >= blocksInTurn {
		if f.pipe.inFlight.Load() < int64(runtime.GOMAXPROCS(0)) || f.round.waited() {
			f.lanes = f.startLanes()
		}
		f.round = round{begun: time.Now()}
	}
	if f.lanes != nil {
		f.lanes.send(q)
		return
	}
	if f.set.Len() > 0 {
		begun := time.Now()
		for i := range f.set.Len() {
			f.digest(q, i)
		}
		f.round.hashing += time.Since(begun)
	}
	for _, t := range f.takers {
		f.give(q, t)
	}
	if q.block != nil {
		q.block.Release()
		f.round.blocks++
		f.round.bytes += int64(len(q.data))
	}
}

// waited reports whether a device made the file wait.
func (r *round) waited() bool {
	return time.Since(r.begun)-r.hashing > time.Duration(r.bytes)*slowest
}

// digest gives the piece to digest i.
func (f *flow) digest(q piece, i int) {
	if h := f.set.Hash(i); q.mark == nil {
		q.feed(h)
	} else {
		q.mark.setState(i, hash.State(h))
	}
}

// give gives the piece to a taker.
func (f *flow) give(q piece, t taker) {
	if t.failed() {
		return
	}
	if t.take(q); t.failed() {
		f.writing.Add(-1)
	}
}

// close waits until everybody has taken everything.
func (f *flow) close() {
	if f.lanes != nil {
		f.lanes.close()
	}
}

// lanes take the pieces of one file.
type lanes struct {
	channels []chan piece
	group    sync.WaitGroup
}

// startLanes starts a lane for each digest and each sink. The caller must close
// them.
func (f *flow) startLanes() *lanes {
	l := &lanes{}
	for i := range f.set.Len() {
		l.add(f.pipe.QueueSize, func(q piece) { f.digest(q, i) })
	}
	for _, t := range f.takers {
		l.add(f.pipe.QueueSize, func(q piece) { f.give(q, t) })
	}
	return l
}

func (l *lanes) add(queue int, consume func(piece)) {
	c := make(chan piece, queue)
	l.channels = append(l.channels, c)
	l.group.Go(func() {
		for q := range c {
			consume(q)
			if q.block != nil {
				q.block.Release()
			}
		}
	})
}

func (l *lanes) send(q piece) {
	if q.block != nil {
		q.block.refs.Store(int32(len(l.channels)))
	}
	for _, c := range l.channels {
		c <- q
	}
}

// close waits until the lanes have taken everything.
func (l *lanes) close() {
	for _, c := range l.channels {
		close(c)
	}
	l.group.Wait()
}

// feed gives the piece to a digest.
func (q piece) feed(w io.Writer) {
	for hole := q.hole; hole > 0; hole -= int64(len(zeros)) {
		_, _ = w.Write(zeros[:min(hole, int64(len(zeros)))]) // digests take everything
	}
	_, _ = w.Write(q.data)
}
