package fsys

import (
	"context"
	"io"
	"os"
	"runtime"
)

// input reads a Stream until its end, or until the end of a context.
type input struct {
	stream  *Stream
	off     int64
	stop    *Stop
	release func() bool // ends the watch of the context
}

// OpenInputUntil opens a pipe or device that the user named for reading. The end of ctx ends the wait
// for a writer and all reads with ErrStopped. It follows symbolic links.
func (sys *FS) OpenInputUntil(ctx context.Context, path string) (io.ReadCloser, error) {
	return newInput(ctx, func(stop *Stop) (*Stream, error) { return sys.OpenInput(path, stop) })
}

// InheritInputUntil returns a reader of standard input, in. If in is a pipe, a terminal or a device,
// the end of ctx ends all reads with ErrStopped. It is the caller who closes in.
func (sys *FS) InheritInputUntil(ctx context.Context, in io.Reader) (io.ReadCloser, error) {
	f, ok := in.(*os.File)
	if !ok || runtime.GOOS == "windows" { // a Stop has no effect there
		return io.NopCloser(in), nil
	}
	if info, err := f.Stat(); err != nil || info.Mode().IsRegular() { // reads move the position of a file
		return io.NopCloser(in), nil //nolint:nilerr // the first read reports it
	}
	return newInput(ctx, func(stop *Stop) (*Stream, error) { return sys.InheritStream(f, stop, false) })
}

func newInput(ctx context.Context, open func(*Stop) (*Stream, error)) (io.ReadCloser, error) {
	stop, err := NewStop()
	if err != nil {
		return nil, err
	}
	in := &input{stop: stop, release: context.AfterFunc(ctx, stop.Raise)}
	if in.stream, err = open(stop); err != nil {
		in.release()
		stop.Close()
		return nil, err
	}
	in.off = in.stream.Start
	return in, nil
}

// Read implements io.Reader.
func (in *input) Read(p []byte) (int, error) {
	n, err := in.stream.ReadSome(p, in.off)
	in.off += int64(n)
	if n == 0 && err == nil && len(p) > 0 {
		err = io.EOF
	}
	return n, err
}

// Close closes the descriptors of the reader. No Read may wait any more.
func (in *input) Close() error {
	in.stream.Close()
	in.release()
	in.stop.Close()
	return nil
}
