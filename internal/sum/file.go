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

// worker hashes one file after the other.
type worker struct {
	*run
	set *hash.Set
}

// do hashes one file.
func (w *worker) do(ctx context.Context, j *job) {
	if !j.isFile() {
		return
	}
	if j.dir == nil && j.path == "-" {
		in, err := w.opts.FS.InheritInputUntil(ctx, w.opts.Stdin)
		w.stream(ctx, j, in, err)
		return
	}
	if j.dir == nil {
		// A fifo is opened once. A writer may see a first opening, write and exit. A second
		// opening to read would then wait for it forever.
		if i, err := os.Stat(j.path); err == nil && i.Mode()&os.ModeNamedPipe != 0 {
			in, err := w.opts.FS.OpenInputUntil(ctx, j.path)
			w.stream(ctx, j, in, err)
			return
		}
	}
	f, info, err := j.open(w.opts.FS)
	if err != nil {
		j.fail(failure.StageOpen, err)
		return
	}
	defer func() { f.Close() }()
	for attempt := 1; info.Kind == fsys.Regular && !w.out.holds(j, info); attempt++ {
		if w.regular(ctx, j, f, info) {
			return
		}
		if attempt == maxAttempts {
			j.fail(failure.StageRead, errChanged)
			return
		}
		again, now, err := j.open(w.opts.FS) // another file may have the name now
		if err != nil {
			j.fail(failure.StageRead, err)
			return
		}
		f.Close()
		f, info = again, now
	}
	switch {
	case w.out.holds(j, info):
		return
	case j.dir != nil:
		j.fail(failure.StageOpen, &fsys.KindError{Kind: info.Kind})
	default:
		in, err := w.opts.FS.OpenInputUntil(ctx, j.path)
		w.stream(ctx, j, in, err)
	}
}

func (j *job) open(sys *fsys.FS) (*fsys.File, fsys.Info, error) {
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
func (w *worker) regular(ctx context.Context, j *job, f *fsys.File, info fsys.Info) (settled bool) {
	w.set.Reset()
	n, fromDevice, err := w.pipe.ReadBack(ctx, f, info, w.set, w.opts.Cache, nil)
	var now fsys.Info
	if err == nil {
		now, err = f.Stat()
	}
	switch {
	case ctx.Err() != nil:
	case err != nil:
		j.fail(failure.StageRead, err)
	case now.SameState(info):
		j.digests, j.bytes, j.mtime = w.set.Digests(), n, info.Mtime
		j.cached = w.opts.Cache != pipe.CacheAuto && !fromDevice
	default:
		w.counters.Bytes.Add(-n)
		return false
	}
	return true
}

// stream hashes the data from a pipe or a device, and closes it. err is the error of opening it.
func (w *worker) stream(ctx context.Context, j *job, in io.ReadCloser, err error) {
	if err != nil {
		j.fail(failure.StageOpen, fsys.BareError(err))
		return
	}
	defer in.Close() //nolint:errcheck // it was only read
	b, err := w.pipe.Pool.Get(ctx)
	if err != nil {
		return // the run was stopped
	}
	defer b.Release()
	w.set.Reset()
	total := int64(0)
	for ctx.Err() == nil {
		n, err := in.Read(b.Buf)
		w.set.Write(b.Buf[:n])
		total += int64(n)
		w.counters.Bytes.Add(int64(n))
		if w.pipe.Pace(ctx, n, nil) != nil {
			return // the run was stopped
		}
		if errors.Is(err, io.EOF) {
			j.digests, j.bytes = w.set.Digests(), total
			return
		}
		if err != nil {
			j.fail(failure.StageRead, fsys.BareError(err))
			return
		}
	}
}
