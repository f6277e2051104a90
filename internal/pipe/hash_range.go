package pipe

import (
	"context"
	"hash"

	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/timing"
)

// HashRange reads src from one offset up to another, for the digests only: a file that is
// continued has this part already, or has to prove it. HashRange does not count the bytes in
// p.Bytes; it calls count for each block. It is no error if the file ends earlier.
//
// The activity may be nil. The caller has set it to the place of src.
func (p *Pipe) HashRange(ctx context.Context, src *fsys.File, from, to int64, digests []hash.Hash, count func(int64), activity *timing.Activity) error {
	b, err := p.Pool.Get(ctx)
	if err != nil {
		return err
	}
	defer b.Release()
	for off := from; off < to; {
		got, err := src.ReadAt(b.Buf[:min(int64(len(b.Buf)), alignUp(to)-off)], off)
		got = int(min(int64(got), to-off))
		if err != nil {
			err = failure.At(err, off+int64(got))
		} else {
			err = p.Pace(ctx, got, activity)
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil || got == 0 {
			return err
		}
		from := activity.At(timing.CPU)
		for _, h := range digests {
			h.Write(b.Buf[:got])
		}
		activity.At(from)
		off += int64(got)
		count(int64(got))
	}
	return nil
}
