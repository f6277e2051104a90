package stream

import (
	"errors"
	"fmt"

	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/pipe"
	"github.com/seed65876f4f/sealift/internal/quote"
)

// input reads the stream.
type input struct {
	*fsys.Stream
	run    *run
	off    int64 // offset of the next byte; it has an effect if the input seeks
	total  int64 // number of bytes that were read and sent
	direct directMode
	evict  *pipe.Eviction
}

// directMode says whether reads use O_DIRECT. The user wants it for the complete input; it is
// off for single reads that are not aligned.
type directMode struct{ wanted, on bool }

// The sizes of the reads that find the exact place of an unreadable sector.
const (
	pageStep   = 4096 // bytes; the page cache reads at least one page
	sectorStep = 512  // bytes
)

// fill reads the next buffer. It is full unless the input ends or reaches its limit. Data of
// a pipe is passed on as soon as it has complete blocks, because its writer may be slow. An
// error comes with the bytes before it; no bytes without an error are the end.
func (in *input) fill(b []byte, limit int64) (n int, err error) {
	if limit >= 0 {
		b = b[:min(int64(len(b)), limit)]
	}
	switch {
	case len(b) == 0:
		return 0, nil
	case in.Records:
		return in.ReadSome(b, 0)
	case in.Seeks && !in.run.byRecord:
		// Buffers end at the end of a page, so that direct reads begin at one.
		unit := in.run.unit
		if in.direct.wanted && in.off%fsys.DirectAlignment != 0 {
			unit = fsys.DirectAlignment
		}
		b = b[:min(len(b), unit-int(in.off%int64(unit)))]
	}
	block := in.run.opts.BlockSize
	for n < len(b) {
		want := b[n:]
		over := (in.total + int64(n)) % block
		if over != 0 && !in.Seeks {
			want = want[:min(int64(len(want)), block-over)] // nothing of the next block
		}
		some, err := in.readOnce(want, in.off+int64(n))
		n += some
		if err != nil {
			if n += in.salvage(b[n:], in.off+int64(n), err); n == len(b) && !errors.Is(err, fsys.ErrStopped) {
				in.run.warnRepeated(in.off, err)
				break
			}
			return n, err
		}
		if some == 0 || !in.Seeks && !in.Memory && (in.total+int64(n))%block == 0 {
			break
		}
	}
	return n, nil
}

// readOnce reads once. It bypasses the page cache if that is wanted and the read is aligned.
func (in *input) readOnce(p []byte, off int64) (int, error) {
	if !in.direct.wanted {
		return in.ReadSome(p, off)
	}
	aligned := off%fsys.DirectAlignment == 0 && len(p) >= fsys.DirectAlignment
	if aligned != in.direct.on {
		if _, err := in.SetDirect(aligned); err != nil {
			return 0, err
		}
		in.direct.on = aligned
	}
	switch {
	case aligned:
		p = p[:len(p)&^(fsys.DirectAlignment-1)]
	case len(p) > fsys.DirectAlignment: // up to the next aligned offset
		p = p[:fsys.DirectAlignment-off%fsys.DirectAlignment]
	}
	n, err := in.ReadSome(p, off)
	if fsys.InvalidArgument(err) && in.direct.on {
		in.direct.wanted, in.direct.on = false, false
		if _, off := in.SetDirect(false); off != nil {
			return 0, off
		}
		in.run.warnDirect(in.run.opts.Input, err)
		return in.ReadSome(p, off)
	}
	return n, err
}

// restore restores the state of an inherited descriptor: other processes that share it may
// write unaligned data.
func (in *input) restore() {
	if in.direct.on {
		_, _ = in.SetDirect(false) // it was set before, so this does not fail
	}
}

// salvage reads the bytes before a bad sector, after a large read has failed because of that
// sector. The page cache reads complete pages, so salvage uses direct reads where the cache
// returns nothing.
func (in *input) salvage(b []byte, off int64, err error) (n int) {
	if !in.Seeks || errors.Is(err, fsys.ErrStopped) {
		return 0
	}
	n = in.readInSteps(b, off)
	if n == len(b) || in.direct.on || (off+int64(n))%sectorStep != 0 {
		return n
	}
	if _, err := in.SetDirect(true); err != nil {
		return n
	}
	n += in.readInSteps(b[n:], off+int64(n))
	_, _ = in.SetDirect(false) // an error has no effect at the end of the copy
	return n
}

// readInSteps reads by pages and then by sectors, up to the first sector that cannot be read.
func (in *input) readInSteps(b []byte, off int64) (n int) {
	for _, step := range []int{pageStep, sectorStep} {
		for n < len(b) {
			some, err := in.ReadSome(b[n:min(n+step, len(b))], off+int64(n))
			n += some
			if err != nil || some == 0 {
				break
			}
		}
	}
	return n
}

// advance accounts for n bytes that were read and sent.
func (in *input) advance(n int) {
	in.off += int64(n)
	in.total += int64(n)
	if in.evict != nil {
		in.evict.Read(in.off)
	}
}

// skipByReading reads the beginning of an input that cannot seek, and drops it.
func (r *run) skipByReading() error {
	b, err := r.pipe.Pool.Get(r.ctx)
	if err != nil {
		return err
	}
	defer b.Release()
	blocks := r.opts.Skip.N // on a device with records, each read is one block
	for skipped := int64(0); skipped < r.skip && blocks > 0 && r.ctx.Err() == nil; {
		n, err := r.in.ReadSome(b.Buf[:min(int64(len(b.Buf)), r.skip-skipped)], r.in.off)
		if err != nil {
			return &failure.FileError{Path: r.opts.Input, Stage: failure.StageRead, Err: r.readError(err)}
		}
		if n == 0 {
			return r.skippedTooFar(skipped)
		}
		skipped += int64(n)
		r.in.off += int64(n)
		if r.in.Records && !r.opts.Skip.Bytes {
			blocks--
		}
	}
	return r.ctx.Err()
}

func (r *run) readError(err error) error {
	if r.in.Seeks {
		return failure.At(err, r.in.off)
	}
	return fmt.Errorf("%w after %d bytes", err, r.in.off)
}

// warnRepeated warns that a read failed once and succeeded later.
func (r *run) warnRepeated(off int64, err error) {
	r.report(Event{Warning: true, Err: fmt.Errorf("%s: reading at offset %d was repeated: %w", quote.Name(r.opts.Input), off, err)})
}
