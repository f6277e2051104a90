package pipe

import (
	"context"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/semaphore"

	"github.com/seed65876f4f/sealift/internal/fsys"
)

// Block is a pooled buffer. It has one writer until it is sent to lanes; from
// then on it is read-only, and the last Release returns it to the pool.
type Block struct {
	Buf  []byte
	refs atomic.Int32
	pool *Pool
}

// Release ends one reference.
func (b *Block) Release() {
	if b.refs.Add(-1) == 0 {
		b.pool.put(b)
	}
}

// Pool hands out blocks of one size. Together they use at most its memory. sync.Pool alone has
// no limit, and a channel alone would never free memory.
type Pool struct {
	size    int // bytes of a block
	ceiling *semaphore.Weighted
	blocks  sync.Pool
	out     atomic.Int64 // blocks handed out; 0 after a run
}

// NewPool returns a pool of blocks of size bytes, which use at most memory bytes together.
// There is at least one block. Blocks are aligned for direct reads.
func NewPool(size int, memory int64) *Pool {
	p := &Pool{size: size, ceiling: semaphore.NewWeighted(max(memory/int64(size), 1))}
	p.blocks.New = func() any { return &Block{Buf: fsys.AlignedBuffer(size), pool: p} }
	return p
}

// Get waits for a block, with one reference. A caller that holds a block must not call it:
// the smallest pool has only one.
func (p *Pool) Get(ctx context.Context) (*Block, error) {
	if err := p.ceiling.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	return p.take(), nil
}

// tryGet is Get, but returns nil instead of waiting.
func (p *Pool) tryGet(ctx context.Context) *Block {
	if ctx.Err() != nil || !p.ceiling.TryAcquire(1) {
		return nil
	}
	return p.take()
}

func (p *Pool) take() *Block {
	p.out.Add(1)
	b := p.blocks.Get().(*Block)
	b.refs.Store(1)
	return b
}

func (p *Pool) put(b *Block) {
	p.blocks.Put(b)
	p.out.Add(-1)
	p.ceiling.Release(1)
}

// Out returns the number of blocks that are handed out: 0 when no file is in progress.
func (p *Pool) Out() int64 { return p.out.Load() }

// alignUp rounds up to the alignment of direct reads.
func alignUp(n int64) int64 {
	return (n + fsys.DirectAlignment - 1) &^ (fsys.DirectAlignment - 1)
}
