package sum

import (
	"context"
	"errors"
	"io"
	"os"

	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/pipe"
)

// maxAttempts limits how often a file is read that changes while it is read.
const maxAttempts = 3

var errChanged = errors.New("it changed while being read, several times in a row")

// do hashes one file.
func (r *run) do(ctx context.Context, j job) {
	defer func() {
		if ctx.Err() == nil { // a stopped run has not hashed the file
			r.counters.Files.Add(1)
		}
	}()
	set := r.sets.Get().(*hash.Set)
	defer r.sets.Put(set)
	if j.dir == nil && j.path == "-" {
		in, err := r.opts.FS.InheritInputUntil(ctx, r.opts.Stdin)
		r.stream(ctx, j, in, err, set)
		return
	}
	if j.dir == nil {
		// A fifo is opened once. A writer may see a first opening, write and exit. A second
		// opening to read would then wait for it forever.
		if i, err := os.Stat(j.path); err == nil && i.Mode()&os.ModeNamedPipe != 0 {
			in, err := r.opts.FS.OpenInputUntil(ctx, j.path)
			r.stream(ctx, j, in, err, set)
			return
		}
	}
	f, info, err := j.open(r.opts.FS)
	if err != nil {
		r.fail(j.name, failure.StageOpen, err)
		return
	}
	defer func() { f.Close() }()
	for attempt := 1; info.Kind == fsys.Regular && !r.out.holds(j, info); attempt++ {
		if r.regular(ctx, j, f, info, set) {
			return
		}
		if attempt == maxAttempts {
			r.fail(j.name, failure.StageRead, errChanged)
			return
		}
		again, now, err := j.open(r.opts.FS) // another file may have the name now
		if err != nil {
			r.fail(j.name, failure.StageRead, err)
			return
		}
		f.Close()
		f, info = again, now
	}
	switch {
	case r.out.holds(j, info):
		return
	case j.dir != nil:
		r.fail(j.name, failure.StageOpen, &fsys.KindError{Kind: info.Kind})
	default:
		in, err := r.opts.FS.OpenInputUntil(ctx, j.path)
		r.stream(ctx, j, in, err, set)
	}
}

func (j job) open(sys *fsys.FS) (*fsys.File, fsys.Info, error) {
	if j.dir == nil {
		return sys.OpenFile(j.path)
	}
	dir, err := j.dir.Acquire()
	if err != nil {
		return nil, fsys.Info{}, err
	}
	defer j.dir.Release()
	return dir.Open(j.base)
}

// regular hashes one state of the file that has the name. If another process writes to the
// file or replaces it meanwhile, regular returns an error and the file is hashed again.
func (r *run) regular(ctx context.Context, j job, f *fsys.File, info fsys.Info, set *hash.Set) (settled bool) {
	set.Reset()
	n, fromDevice, err := r.pipe.ReadBack(ctx, f, info, set, r.opts.Cache, nil)
	var now fsys.Info
	if err == nil {
		now, err = f.Stat()
	}
	switch {
	case ctx.Err() != nil:
	case err != nil:
		r.fail(j.name, failure.StageRead, err)
	case now.Size == info.Size && now.Mtime == info.Mtime && now.Ctime == info.Ctime:
		r.results <- result{name: j.name, digests: set.Digests(), bytes: n, cached: r.opts.Cache != pipe.CacheAuto && !fromDevice, mtime: info.Mtime}
	default:
		r.counters.Bytes.Add(-n)
		return false
	}
	return true
}

// stream hashes the data from a pipe or a device, and closes it. err is the error of opening it.
func (r *run) stream(ctx context.Context, j job, in io.ReadCloser, err error, set *hash.Set) {
	if err != nil {
		r.failStream(ctx, j, failure.StageOpen, err)
		return
	}
	defer in.Close() //nolint:errcheck // it was only read
	b, err := r.pipe.Pool.Get(ctx)
	if err != nil {
		return // the run was stopped
	}
	defer b.Release()
	set.Reset()
	total := int64(0)
	for ctx.Err() == nil {
		n, err := in.Read(b.Buf)
		set.Write(b.Buf[:n])
		total += int64(n)
		r.counters.Bytes.Add(int64(n))
		if r.pipe.Pace(ctx, n, nil) != nil {
			return // the run was stopped
		}
		if errors.Is(err, io.EOF) {
			r.results <- result{name: j.name, digests: set.Digests(), bytes: total}
			return
		}
		if err != nil {
			r.failStream(ctx, j, failure.StageRead, err)
			return
		}
	}
}

// failStream reports an error, unless the run was stopped.
func (r *run) failStream(ctx context.Context, j job, stage failure.Stage, err error) {
	if ctx.Err() == nil {
		r.fail(j.name, stage, fsys.BareError(err))
	}
}
