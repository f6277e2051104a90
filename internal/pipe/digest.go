package pipe

import (
	"context"
	"runtime"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
)

// blocksInTurn is how many blocks of a file are read and hashed in turn before
// Digest looks whether a core is idle. Files that begin at the same time would
// not see each other otherwise.
const blocksInTurn = 8

// Digest reads the whole of src and feeds the digests. It returns the number of
// bytes read; what is beyond info.Size is not looked for unless that is 0. The
// error is that of reading or of the context.
//
// With as many files under way as there are cores, each is read and hashed in
// turn in one buffer, which costs the least. Where a core would be idle, reading
// and hashing overlap.
func (p *Pipe) Digest(ctx context.Context, src *fsys.File, info fsys.Info, set *hash.Set) (int64, error) {
	return p.digest(ctx, src, info, set, nil)
}

func (p *Pipe) digest(ctx context.Context, src *fsys.File, info fsys.Info, set *hash.Set, behind func(off int64)) (int64, error) {
	p.inFlight.Add(1)
	defer p.inFlight.Add(-1)
	if info.Size <= int64(p.Pool.size) {
		total, more, err := p.inline(ctx, src, info, set, nil)
		if err != nil || !more {
			return total, err
		}
		set.Reset()
	}
	var (
		l      *lanes
		cores  = int64(runtime.GOMAXPROCS(0))
		inTurn = 0
	)
	send := func(q piece) {
		if l == nil && inTurn >= blocksInTurn && p.inFlight.Load() < cores {
			l = p.startLanes(set, nil)
		}
		if l != nil {
			l.send(q)
			return
		}
		inTurn++
		q.feed(set)
		if q.block != nil {
			q.block.Release()
		}
	}
	wanted := func() bool { return ctx.Err() == nil }
	total, err := p.read(ctx, src, info, 0, false, wanted, send, behind)
	if l != nil {
		l.close()
	}
	if err == nil {
		err = ctx.Err()
	}
	return total, err
}
