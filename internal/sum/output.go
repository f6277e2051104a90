package sum

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/manifest"
	"github.com/seed65876f4f/sealift/internal/quote"
)

// output is where the lines go: Options.Out, or a file that appears when it is
// complete.
type output struct {
	dir  *fsys.Dir // of the file; nil without one
	name string
	old  bool // there is one already, to be replaced
}

// openOutput finds out where the lines go, before anything is read for them.
func (r *run) openOutput() (*output, error) {
	o := &output{}
	if r.opts.Manifest == "" {
		if r.opts.OutFile != nil {
			if info, err := fsys.StatFile(r.opts.OutFile); err == nil && info.Kind == fsys.Regular {
				r.own = append(r.own, info.ID)
			}
		}
		return o, nil
	}
	refuse := func(err error) (*output, error) {
		return nil, failure.Refuse("--manifest %s: %s", quote.Name(r.opts.Manifest), bare(err))
	}
	path := r.opts.Manifest
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	var err error
	if o.dir, err = fsys.OpenRoot(filepath.Dir(path)); err != nil {
		return refuse(err)
	}
	o.name = filepath.Base(path)
	f, info, err := o.dir.Open(o.name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return o, nil
	case err == nil:
		defer f.Close()
		o.old = true
		r.own = append(r.own, info.ID)
		err = replaceable(f, info)
	}
	if err != nil {
		o.dir.Close()
		return refuse(err)
	}
	return o, nil
}

// replaceable refuses what is certainly no manifest: a name that was mistyped
// must not cost a file.
func replaceable(f *fsys.File, info fsys.Info) error {
	if info.Kind != fsys.Regular {
		return &fsys.KindError{Kind: info.Kind}
	}
	in := manifest.NewCheckReader(io.NewSectionReader(fsys.ReaderAt{File: f}, 0, info.Size), manifest.FormatSums)
	_, err := in.Next()
	if bad, _ := in.Malformed(); errors.Is(err, io.EOF) && bad > 0 {
		return errors.New("it is there and no manifest")
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

func (o *output) close() {
	if o.dir != nil {
		o.dir.Close()
	}
}

// write writes the lines of all builders.
func (o *output) write(r *run) error {
	if o.dir == nil {
		return r.lines(r.opts.Out)
	}
	fail := func(err error) error {
		return fmt.Errorf("manifest %s: %w", quote.Name(r.opts.Manifest), err)
	}
	p, err := o.dir.Create(false)
	if err != nil {
		return fail(err)
	}
	defer p.Abort()
	sum := sha256.New()
	if err := r.lines(io.MultiWriter(&fsys.Writer{File: &p.File}, sum)); err != nil {
		return fail(err)
	}
	if r.summary.Lines == 0 { // no program takes an empty one
		if o.old {
			if err := o.dir.Remove(o.name); err != nil {
				return fail(err)
			}
		}
		return nil
	}
	err = p.Chmod(0o666 &^ fsys.Umask())
	if fsys.Unsupported(err) || fsys.NotPermitted(err) {
		err = nil // the file system has no modes
	}
	if err == nil {
		err = p.Sync()
	}
	if err == nil {
		if o.old {
			err = p.CommitReplacing(o.name)
		} else {
			err = p.Commit(o.name)
		}
	}
	if err == nil {
		err = o.dir.Sync()
	}
	if err != nil {
		return fail(err)
	}
	r.summary.Manifest, r.summary.SHA256 = r.opts.Manifest, hex.EncodeToString(sum.Sum(nil))
	return nil
}

// lines writes the lines of all builders to one writer.
func (r *run) lines(w io.Writer) error {
	out := bufio.NewWriterSize(w, 64<<10)
	for _, b := range r.builders {
		n, err := b.Write(out, nil, nil)
		if err != nil {
			return err
		}
		r.summary.Lines += n
	}
	return out.Flush()
}

// newSpill makes the temporary of a builder that outgrows memory.
func newSpill() (manifest.Spill, error) {
	f, err := os.CreateTemp("", "sealift-sum-")
	if err != nil {
		return nil, err
	}
	return &spill{f}, nil
}

type spill struct{ *os.File }

// Close removes the file, too.
func (s *spill) Close() error { return errors.Join(s.File.Close(), os.Remove(s.Name())) }
