package stream

import (
	"errors"
	"fmt"
	"math"

	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/quote"
	"github.com/seed65876f4f/sealift/internal/route"
)

// standard is the name of standard input and output.
const standard = "-"

// open opens the input and the outputs and refuses invalid combinations, before anything is
// written. undo removes the files that it has created.
func (r *run) open() error {
	o := r.opts
	var ok [3]bool
	r.limit = -1
	if o.Count != nil {
		r.limit, ok[0] = o.Count.in(o.BlockSize)
	}
	r.left = r.limit
	r.skip, ok[1] = o.Skip.in(o.BlockSize)
	r.seek, ok[2] = o.Seek.in(o.BlockSize)
	if o.Count != nil && !ok[0] || !ok[1] || !ok[2] {
		return failure.Refuse("so many blocks are more bytes than 64 bits can count")
	}
	for _, name := range o.Outputs {
		if name != standard && !o.AllowUnmounted {
			if err := route.RefuseUnmountedFile("output", name); err != nil {
				return err
			}
		}
	}
	r.outputs = make([]*output, len(o.Outputs))
	// Opening a fifo waits for the other end, so fifos are opened last.
	for _, fifos := range []bool{false, true} {
		if err := r.openKind(fifos); err != nil {
			return err
		}
		if err := r.check(); err != nil {
			return err
		}
	}
	if err := r.checkManifest(); err != nil {
		return err
	}
	r.setBuffers()
	return r.position()
}

// openKind opens the input and the outputs that are fifos, or those that are not.
func (r *run) openKind(fifos bool) error {
	o := r.opts
	if r.in.Stream == nil && r.isFifo(o.Input) == fifos {
		in, err := r.openInput()
		if err != nil {
			return r.refuse(o.Input, err)
		}
		r.in.Stream = in
	}
	for i, name := range o.Outputs {
		if r.outputs[i] != nil || r.isFifo(name) != fifos {
			continue
		}
		if fifos && r.seek > 0 {
			return cannotSeek(name)
		}
		out, created, err := r.openOutput(name)
		if err != nil {
			return r.refuse(name, err)
		}
		r.outputs[i] = &output{run: r, name: name, to: out, created: created}
	}
	return nil
}

func (r *run) isFifo(name string) bool {
	if name == standard {
		return false
	}
	info, err := r.opts.FS.StatPath(name)
	return err == nil && info.Kind == fsys.Fifo
}

func (r *run) openInput() (*fsys.Stream, error) {
	if r.opts.Input == standard {
		return r.opts.FS.InheritStream(r.opts.Stdin, r.stop, false)
	}
	return r.opts.FS.OpenInput(r.opts.Input, r.stop)
}

func (r *run) openOutput(name string) (s *fsys.Stream, created bool, err error) {
	if name == standard {
		s, err = r.opts.FS.InheritStream(r.opts.Stdout, r.stop, true)
		return s, false, err
	}
	return r.opts.FS.OpenOutput(name, r.stop)
}

// refuse turns an error of opening into a refusal. If the run was stopped, it returns the
// cause.
func (r *run) refuse(name string, err error) error {
	switch {
	case errors.Is(err, fsys.ErrStopped):
		return err
	case fsys.InUse(err):
		return failure.Refuse("%s: it is in use, mounted for instance: %s", quote.Name(name), err)
	}
	return failure.Refuse("%s: %s", quote.Name(name), err)
}

func cannotSeek(name string) error {
	return failure.Refuse("%s: --seek needs a file or a block device", quote.Name(name))
}

// check refuses combinations of the open input and outputs that make no sense.
func (r *run) check() error {
	seen := map[storage]string{}
	add := func(name string, s *fsys.Stream) error {
		t, ok := storageOf(s)
		if !ok {
			return nil
		}
		if other, taken := seen[t]; taken {
			return failure.Refuse("%s and %s are the same %s", quote.Name(other), quote.Name(name), s.Info.Kind)
		}
		seen[t] = name
		return nil
	}
	if s := r.in.Stream; s != nil {
		if s.Info.Kind == fsys.Directory {
			return failure.Refuse("%s is a directory; copy copies those", quote.Name(r.opts.Input))
		}
		if err := add(r.opts.Input, s); err != nil {
			return err
		}
	}
	for _, out := range r.outputs {
		if out == nil {
			continue
		}
		if out.to.Info.Kind == fsys.Directory {
			return failure.Refuse("%s is a directory", quote.Name(out.name))
		}
		if err := add(out.name, out.to); err != nil {
			return err
		}
	}
	return nil
}

// storage identifies a file or a block device, whichever name was used to open it.
type storage struct {
	device bool
	id     fsys.ID
}

// storageOf returns the storage of a stream. ok is false for pipes and other streams that
// several processes may use at the same time.
func storageOf(s *fsys.Stream) (t storage, ok bool) {
	switch s.Info.Kind {
	case fsys.Regular:
		return storage{id: s.Info.ID}, true
	case fsys.BlockDevice: // several device nodes can lead to one device
		return storage{device: true, id: fsys.ID{Dev: s.Info.Rdev}}, true
	}
	return storage{}, false
}

// position sets the offsets at which the outputs and the input begin. If the input cannot
// seek, it reads the bytes that --skip leaves out.
func (r *run) position() error {
	for _, out := range r.outputs {
		if err := out.place(r.seek); err != nil {
			return err
		}
	}
	in := r.in.Stream
	if r.skip > math.MaxInt64-in.Start {
		return failure.Refuse("%s: --skip leads beyond what 64 bits can count", quote.Name(r.opts.Input))
	}
	r.in.off = in.Start
	switch {
	case in.Seeks && in.Size > 0: // a size of 0 shows nothing: files in /proc have it
		if r.in.off += r.skip; r.skip > 0 && r.in.off > in.Size {
			return r.skippedTooFar(in.Size - in.Start)
		}
	case r.skip > 0 && !in.Skip(r.skip):
		return r.skipByReading()
	}
	return nil
}

func (r *run) skippedTooFar(has int64) error {
	return &failure.FileError{Path: r.opts.Input, Stage: failure.StageRead,
		Err: fmt.Errorf("--skip leads beyond the end: %d bytes are to be skipped, and there are %d", r.skip, max(has, 0))}
}

// place sets the offset at which the stream begins in the output.
func (o *output) place(seek int64) error {
	s := o.to
	switch {
	case !s.Seeks:
		if seek > 0 && !s.Skip(seek) {
			return cannotSeek(o.name)
		}
		o.base = max(s.Size, 0) // appending begins at the end of the file
		return nil
	case seek > math.MaxInt64-s.Start:
		return failure.Refuse("%s: --seek leads beyond what 64 bits can count", quote.Name(o.name))
	}
	o.base = s.Start + seek
	if s.Info.Kind == fsys.BlockDevice {
		if o.oldEnd = math.MaxInt64; o.base > s.Size {
			return failure.Refuse("%s: --seek leads beyond its end: it has %d bytes", quote.Name(o.name), s.Size)
		}
	}
	o.sparse = o.run.opts.Sparse
	o.truncates = s.Info.Kind == fsys.Regular && !o.run.opts.NoTruncate && o.name != standard
	return nil
}

// undo removes the files that this run created, after a refusal. It keeps a file that another
// process has filled or replaced while the run waited for a fifo.
func (r *run) undo() {
	for _, out := range r.outputs {
		if out != nil && out.created {
			out.to.RemoveNew(out.name)
		}
	}
}

// close closes everything that is still open.
func (r *run) close() {
	if r.in.Stream != nil {
		r.in.Close()
	}
	if r.manifest != nil {
		r.manifest.Close()
	}
	for _, out := range r.outputs {
		if out != nil && !out.closed {
			out.to.Close()
		}
	}
}
