package engine

import (
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/seed65876f4f/sealift/internal/dest"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/pipe"
	"github.com/seed65876f4f/sealift/internal/resume"
	"github.com/seed65876f4f/sealift/internal/timing"
)

// pair records which system calls cannot copy from one device to another. After one refusal, the
// run does not try that call for other files. Different device numbers do not rule out a clone:
// subvolumes of btrfs have different numbers.
type pair struct {
	noClone atomic.Bool
	noRange atomic.Bool
}

type pairKey struct{ from, to uint64 }

func (r *mover) pairOf(e *entry, p *transfer) *pair {
	key := pairKey{e.Meta.Info.ID.Dev, p.dd.info.ID.Dev}
	if known, ok := r.pairs.Load(key); ok {
		return known.(*pair)
	}
	known, _ := r.pairs.LoadOrStore(key, &pair{})
	return known.(*pair)
}

// setSink makes f the file that the transfer is written to. f is empty, or has the
// beginning of the content.
func (r *mover) setSink(p *transfer, f *fsys.Pending, pair *pair) {
	p.sink = pipe.Sink{File: f, Place: p.target.Place(), Sparse: r.opts.Sparse == SparseAlways}
	if r.opts.Sparse == SparseAuto && r.opts.Reflink == ReflinkAuto {
		p.sink.Refused = &pair.noRange
	}
}

// create makes the transfer's temporary. It is a clone of the source if the file system can make
// one.
func (r *mover) create(e *entry, p *transfer) error {
	p.sink = pipe.Sink{}
	named := e.Meta.Info.Size > resume.LeastPartial && p.target.Log.Active()
	named = named || !r.rules.completes && p.exists // a successor of this attempt removes it
	pair := r.pairOf(e, p)
	if always := r.opts.Reflink == ReflinkAlways; r.clones(e) && (always || !pair.noClone.Load()) {
		f, err := p.dir.CreateClone(e.File, named)
		if err == nil {
			r.setSink(p, f, pair)
			p.sink.Clone, err = r.sameSize(e, f)
			return err
		}
		switch refusal := fsys.RefusalOf(err); {
		case refusal == fsys.NotRefused:
			return err
		case always:
			return fmt.Errorf("it cannot share blocks with the source: %w", err)
		case refusal == fsys.RefusedPair:
			pair.noClone.Store(true)
		}
	}
	var f *fsys.Pending
	var err error
	if named {
		f, err = p.dir.Create(true)
	} else {
		f, err = p.dir.CreateUnnamed(p.firstMode(e))
	}
	if err != nil {
		return err
	}
	r.setSink(p, f, pair)
	return r.preallocate(e, p)
}

// preallocate reserves space for the whole file if every byte is to be written, or if that
// gives a long file long extents.
func (r *mover) preallocate(e *entry, p *transfer) error {
	src := e.Meta.Info
	full := r.opts.Sparse == SparseAuto && src.Blocks*512 >= src.Size
	if r.opts.Sparse != SparseNever && !(full && src.Size >= dest.MinWriteBehind && p.dir.PreallocatesWell()) {
		return nil
	}
	err := p.sink.File.Preallocate(src.Size)
	if fsys.Unsupported(err) || full && !fsys.DestinationLost(err) { // preallocation may fail, but a full destination is reported before data is written
		return nil
	}
	return err
}

// clones reports whether a clone of the file is wanted. A file of size 0 has nothing to
// share, or has an unknown size, as in /proc.
func (r *mover) clones(e *entry) bool {
	return r.opts.Reflink != ReflinkNever && r.opts.Sparse == SparseAuto && e.Meta.Info.Size > 0
}

// sameSize reports whether a clone has the size of the source's description. If not, sameSize
// empties the file, and the caller writes it.
func (r *mover) sameSize(e *entry, f *fsys.Pending) (bool, error) {
	info, err := f.Stat()
	if err != nil || info.Size == e.Meta.Info.Size {
		return err == nil, err
	}
	return false, f.Truncate(0)
}

// moveBytes reads the file, writes the sinks and computes the digests. It returns the offset that
// it reached.
func (r *mover) moveBytes(e *entry, sinks []*pipe.Sink, set *hash.Set, opts pipe.MoveOptions) (int64, error) {
	cloned := !slices.ContainsFunc(sinks, func(s *pipe.Sink) bool { return !s.Clone }) // nothing has to be written
	if cloned && len(r.opts.Hashes) == 0 {
		r.counters.Bytes.Add(e.Meta.Info.Size)
		return e.Meta.Info.Size, nil
	}
	src := e.File
	opts.Activity = e.activity
	e.activity.At(timing.Source)
	if cloned && !r.cache.Drops() {
		// Compute the digests from the clone if the beginning of the source is not in memory.
		if held, known := src.Cached(0, 0); known && !held {
			src = &sinks[0].File.File
			e.activity.At(sinks[0].Place)
		}
	}
	return r.pipe.Move(r.ctx, src, e.Meta.Info, set, sinks, opts)
}
