package engine

import (
	"context"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/semaphore"
)

// block is a pooled buffer. It has one writer until it is sent to lanes; from
// then on it is read-only, and the last release sends it home.
type block struct {
	buf  []byte
	refs atomic.Int32
	pool *pool
}

// release gives up one reference.
func (b *block) release() {
	if b.refs.Add(-1) == 0 {
		b.pool.put(b)
	}
}

// pool hands out blocks of one size, never more at a time than a ceiling.
// sync.Pool alone would be unbounded, a channel alone would never shrink.
type pool struct {
	size    int // bytes of a block
	ceiling *semaphore.Weighted
	blocks  sync.Pool
	out     atomic.Int64 // blocks handed out; 0 after a run
}

// newPool makes a pool whose blocks of size bytes together take at most memory
// bytes, but at least one block.
func newPool(size int, memory int64) *pool {
	p := &pool{size: size, ceiling: semaphore.NewWeighted(max(memory/int64(size), 1))}
	p.blocks.New = func() any { return &block{buf: make([]byte, size), pool: p} }
	return p
}

// get waits for a block, with one reference. Whoever holds a block must not
// call it: the smallest pool has only one.
func (p *pool) get(ctx context.Context) (*block, error) {
	if err := p.ceiling.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	p.out.Add(1)
	b := p.blocks.Get().(*block)
	b.refs.Store(1)
	return b, nil
}

func (p *pool) put(b *block) {
	p.blocks.Put(b)
	p.out.Add(-1)
	p.ceiling.Release(1)
}
