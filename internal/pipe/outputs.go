package pipe

import (
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/timing"
)

// Output receives the bytes of a Flow, in order and from one goroutine at a time. After its
// first error it receives nothing more.
type Output interface {
	Put(data []byte, off int64) error
}

// Flow sends blocks that its owner has read to the digests and the outputs. It is the flow of the
// command stream, which reads without Move.
type Flow struct{ flow *flow }

// Flow begins a flow. The caller must Close it. The flow uses lanes from the first block on,
// because an output may be a pipe that no process reads yet. With sequential, it never uses
// lanes, because no output is slow.
func (p *Pipe) Flow(set *hash.Set, outputs []Output, sequential bool) *Flow {
	takers := make([]*output, len(outputs))
	for i, o := range outputs {
		takers[i] = &output{to: o}
	}
	f := newFlow(p, set, takers, nil)
	if f.sequential = sequential; !sequential {
		f.lanes = f.startLanes()
	}
	return &Flow{f}
}

// Send sends the first n bytes of b, which are at the offset off. The caller must not use b
// afterwards.
func (f *Flow) Send(b *Block, n int, off int64) {
	f.flow.send(piece{block: b, data: b.Buf[:n], off: off})
}

// Wanted reports whether an output has not failed, or there are only digests.
func (f *Flow) Wanted() bool { return f.flow.wanted() }

// Close waits until all digests and outputs have taken all blocks.
func (f *Flow) Close() { f.flow.close() }

type output struct {
	to  Output
	err error
}

func (o *output) take(q piece) { o.err = o.to.Put(q.data, q.off) }

func (o *output) place() timing.Place { return timing.None } // no timing samples a stream

func (o *output) failed() bool { return o.err != nil }
