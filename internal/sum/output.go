package sum

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/manifest"
	"github.com/seed65876f4f/sealift/internal/quote"
)

// output is where the lines go: Options.Out, or a file that appears when it is
// complete.
type output struct {
	fs   *fsys.FS
	file *fsys.Replacement // nil without one
	out  fsys.ID           // of the file that Options.Out writes to, zero if it is none
}

// openOutput finds out where the lines go, before anything is read for them.
func (r *run) openOutput() (*output, error) {
	o := &output{fs: r.opts.FS}
	if r.opts.Manifest == "" {
		if r.opts.OutFile != nil {
			if info, err := fsys.StatFile(r.opts.OutFile); err == nil && info.Kind == fsys.Regular {
				o.out = info.ID
			}
		}
		return o, nil
	}
	var err error
	o.file, err = r.opts.FS.OpenReplacement(r.opts.Manifest, func(f *fsys.File, info fsys.Info) error {
		return manifest.Replaceable(fsys.ReaderAt{File: f}, info.Size)
	})
	if errors.Is(err, fsys.ErrNotRegular) {
		err = fmt.Errorf("%w; without --manifest, the lines go to standard output", err)
	}
	if err != nil {
		return nil, failure.Refuse("--manifest %s: %s", quote.Name(r.opts.Manifest), bare(err))
	}
	return o, nil
}

// holds reports whether the lines go to the file that has been opened for j. The
// manifest is known by its place, since a file elsewhere that is a hard link of
// the old one stays what it is.
func (o *output) holds(j job, info fsys.Info) bool {
	if o.file == nil {
		return info.ID == o.out && o.out != fsys.ID{}
	}
	in, name := fsys.ID{}, j.base
	if j.dir != nil {
		in = j.dir.Info.ID
	} else if path, err := filepath.EvalSymlinks(j.path); err == nil {
		in, name = idOf(o.fs, filepath.Dir(path)), filepath.Base(path)
	}
	// Where names differ in case only, the file system says whether they are one.
	return in == o.file.ID && (name == o.file.Name || o.file.Old != nil && info.ID == o.file.Old.ID && strings.EqualFold(name, o.file.Name))
}

// idOf is zero for a directory that is gone.
func idOf(sys *fsys.FS, dir string) fsys.ID {
	d, err := sys.OpenRoot(dir)
	if err != nil {
		return fsys.ID{}
	}
	defer d.Close()
	info, err := d.Stat()
	if err != nil {
		return fsys.ID{}
	}
	return info.ID
}

func (o *output) close() {
	if o.file != nil {
		o.file.Close()
	}
}

// write writes the lines of all builders. A file is complete or not written: what
// was there stays.
func (o *output) write(r *run) error {
	if o.file == nil {
		return r.lines(r.opts.Out)
	}
	fail := func(err error) error {
		return fmt.Errorf("manifest %s: %w", quote.Name(r.opts.Manifest), err)
	}
	switch n := r.summary.Errors; {
	case n > 0:
		return fail(fmt.Errorf("it was not written, since %s could not be hashed", files(n)))
	case r.summary.Files == 0: // no program takes an empty one
		return fail(errors.New("it was not written, since there is nothing to list"))
	}
	sum := sha256.New()
	err := o.file.Write(func(w io.Writer) error { return r.lines(io.MultiWriter(w, sum)) })
	if err != nil {
		return fail(err)
	}
	r.summary.Manifest, r.summary.SHA256 = r.opts.Manifest, hex.EncodeToString(sum.Sum(nil))
	return nil
}

func files(n int64) string {
	if n == 1 {
		return "1 file"
	}
	return fmt.Sprintf("%d files", n)
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
