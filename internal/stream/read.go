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
	off    int64 // of the next byte, where it seeks
	total  int64 // bytes that were read and sent
	direct wish  // the page cache is bypassed
	evict  *pipe.Eviction
	ended  bool // at its own end, and not where the count has put one
}

// wish is a mode that is left for what it cannot do, and taken up again.
type wish struct{ wanted, on bool }

// Steps in which a part is read again that has an unreadable sector in it.
const (
	pageStep   = 4096 // bytes; what the page cache reads at once
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
		n, err = in.ReadSome(b, 0)
		in.ended = n == 0 && err == nil
		return n, err
	case in.Seeks && !in.run.byRecord:
		// Buffers end where pages do, and past the page cache begin there.
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
			want = want[:min(int64(len(want)), block-over)] // of the next block nothing
		}
		some, err := in.some(want, in.off+int64(n))
		n += some
		if err != nil {
			if n += in.salvage(b[n:], in.off+int64(n), err); n == len(b) && !errors.Is(err, fsys.ErrStopped) {
				in.run.warnRepeated(in.off, err)
				break
			}
			return n, err
		}
		if some == 0 {
			in.ended = true
			break
		}
		if !in.Seeks && !in.Memory && (in.total+int64(n))%block == 0 {
			break
		}
	}
	return n, nil
}

// some is one read, past the page cache where that is wanted and possible.
func (in *input) some(p []byte, off int64) (int, error) {
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
	case len(p) > fsys.DirectAlignment: // up to where it is aligned again
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
		_, _ = in.SetDirect(false) // it was possible to set it
	}
}

// salvage reads what can be read before a bad sector, after a large read that had it
// in it. The page cache reads more than a sector at once, so that what it cannot give
// is read past it.
func (in *input) salvage(b []byte, off int64, err error) (n int) {
	if !in.Seeks || errors.Is(err, fsys.ErrStopped) {
		return 0
	}
	n = in.creep(b, off)
	if n == len(b) || in.direct.on || (off+int64(n))%sectorStep != 0 {
		return n
	}
	if _, err := in.SetDirect(true); err != nil {
		return n
	}
	n += in.creep(b[n:], off+int64(n))
	_, _ = in.SetDirect(false) // at the end of the copy it does not matter
	return n
}

// creep reads in ever smaller steps up to what cannot be read.
func (in *input) creep(b []byte, off int64) (n int) {
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

// readAway reads what is to be skipped and cannot be passed over.
func (r *run) readAway() error {
	b, err := r.pipe.Pool.Get(r.ctx)
	if err != nil {
		return err
	}
	defer b.Release()
	blocks := r.opts.Skip.N // those of a device that keeps records count as they come
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
