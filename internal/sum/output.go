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
	"strings"

	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/manifest"
	"github.com/seed65876f4f/sealift/internal/quote"
)

// output is where the lines go: Options.Out, or a file that appears when it is
// complete.
type output struct {
	dir   *fsys.Dir // of the file; nil without one
	dirID fsys.ID
	name  string
	old   *fsys.Info // of the one that is there already, to be replaced; nil if none is
	out   fsys.ID    // of the file that Options.Out writes to, zero if it is none
}

// openOutput finds out where the lines go, before anything is read for them.
func (r *run) openOutput() (*output, error) {
	o := &output{}
	if r.opts.Manifest == "" {
		if r.opts.OutFile != nil {
			if info, err := fsys.StatFile(r.opts.OutFile); err == nil && info.Kind == fsys.Regular {
				o.out = info.ID
			}
		}
		return o, nil
	}
	if err := o.find(r.opts.Manifest); err != nil {
		o.close()
		return nil, failure.Refuse("--manifest %s: %s", quote.Name(r.opts.Manifest), bare(err))
	}
	return o, nil
}

// find opens the directory of the manifest, and looks at the one that is there.
func (o *output) find(path string) error {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return errors.New("it is not a regular file; without --manifest, the lines go to standard output")
	}
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	var err error
	if o.dir, err = fsys.OpenRoot(filepath.Dir(path)); err != nil {
		return err
	}
	info, err := o.dir.Stat()
	if err != nil {
		return err
	}
	o.dirID, o.name = info.ID, filepath.Base(path)
	f, info, err := o.dir.Open(o.name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	o.old = &info
	return replaceable(f, info)
}

// replaceable refuses what is not certainly a manifest: a name that was mistyped
// must not cost a file.
func replaceable(f *fsys.File, info fsys.Info) error {
	if info.Kind != fsys.Regular {
		return &fsys.KindError{Kind: info.Kind}
	}
	in := manifest.NewCheckReader(io.NewSectionReader(fsys.ReaderAt{File: f}, 0, info.Size), manifest.FormatSums)
	_, err := in.Next()
	if errors.Is(err, io.EOF) && info.Size > 0 {
		return errors.New("it is there and no manifest")
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// holds reports whether the lines go to the file that has been opened for j. The
// manifest is known by its place, since a file elsewhere that is a hard link of
// the old one stays what it is.
func (o *output) holds(j job, info fsys.Info) bool {
	if o.dir == nil {
		return info.ID == o.out && o.out != fsys.ID{}
	}
	in, name := fsys.ID{}, j.base
	if j.dir != nil {
		in = j.dir.Info.ID
	} else if path, err := filepath.EvalSymlinks(j.path); err == nil {
		in, name = idOf(filepath.Dir(path)), filepath.Base(path)
	}
	// Where names differ in case only, the file system says whether they are one.
	return in == o.dirID && (name == o.name || o.old != nil && info.ID == o.old.ID && strings.EqualFold(name, o.name))
}

// idOf is zero for a directory that is gone.
func idOf(dir string) fsys.ID {
	d, err := fsys.OpenRoot(dir)
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
	if o.dir != nil {
		o.dir.Close()
	}
}

// write writes the lines of all builders. A file is complete or not written: what
// was there stays.
func (o *output) write(r *run) error {
	if o.dir == nil {
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
	p, err := o.dir.Create(false)
	if err != nil {
		return fail(err)
	}
	defer p.Abort()
	sum := sha256.New()
	if err := r.lines(io.MultiWriter(&fsys.Writer{File: &p.File}, sum)); err != nil {
		return fail(err)
	}
	mode := 0o666 &^ fsys.Umask()
	if o.old != nil {
		mode = o.old.Mode & 0o777
	}
	err = p.Chmod(mode)
	if fsys.Unsupported(err) || fsys.NotPermitted(err) {
		err = nil // the file system has no modes
	}
	if err == nil {
		err = p.Sync()
	}
	if err == nil {
		if o.old != nil {
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
