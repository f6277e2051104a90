package catalog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"strings"

	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/manifest"
	"github.com/seed65876f4f/sealift/internal/quote"
	"github.com/seed65876f4f/sealift/internal/record"
)

// standardInput is the name of standard input in lines.
const standardInput = "-"

// FileOptions say where a File is and which lines it gets.
type FileOptions struct {
	FS *fsys.FS // opens the manifest; nil for the system's files
	// Path is that of --manifest, as the user gave it. Symbolic links are followed.
	Path string
	// Base is the directory that the names of the lines are relative to; "" for the
	// working directory.
	Base string
	// Builder has the lines, with digests of Hashes and perhaps others. Write writes them
	// as Format, which is BSD for several hashes.
	Builder *manifest.Builder
	Hashes  []hash.Algorithm
	Format  manifest.Sums
	// Omit reports whether a path of the Builder gets no line; may be nil.
	Omit func(path string) bool
	// Hint says how the user can continue after a refusal.
	Hint string
	// Refuse returns an error if the caller does not allow the existing file to be
	// replaced; may be nil.
	Refuse func(fsys.Info) error
	// Changed reports whether the run has changed the content of a file that the Builder
	// does not list; may be nil.
	Changed func(fsys.Info) bool
}

// File is a manifest at a path that the user gave, outside a copy. Rules 3, 5 and 8 apply,
// and names are spelled as users write them. One goroutine uses it, except for Is.
type File struct {
	opts   FileOptions
	home   *fsys.Dir
	homeID fsys.ID
	name   string
	prev   *existing
	blocks []io.ReadSeeker // of prev, one for each hash; nil without lines
}

// OpenFile finds the place of the manifest and applies rule 3 to the existing file. It
// writes nothing. The error is a *failure.RefusedError. The caller must Close the File.
func OpenFile(o FileOptions) (*File, error) {
	f := &File{opts: o}
	err := f.open()
	if errors.As(err, new(*takenError)) {
		err = fmt.Errorf("%w; %s", err, o.Hint)
	}
	if err != nil {
		f.Close()
		return nil, failure.Refuse("--manifest %s: %s", quoteName(o.Path), quote.Text(err.Error()))
	}
	return f, nil
}

func (f *File) open() error {
	file := f.opts.Path
	if err := fsys.CheckLinks(file); err != nil {
		return err
	}
	info, err := f.opts.FS.StatPath(file)
	if err == nil && info.Kind != fsys.Regular { // also /dev/stdout, which may not lead to a path
		return &takenError{"it is a " + info.Kind.String()}
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if target, err := filepath.EvalSymlinks(file); err == nil {
		file = target
	}
	f.name = filepath.Base(file)
	if f.home, err = f.opts.FS.OpenTrustedRoot(filepath.Dir(file)); err != nil {
		return err
	}
	home, err := f.home.Stat()
	if err != nil {
		return err
	}
	f.homeID = home.ID
	return f.load()
}

// load applies rule 3.
func (f *File) load() (err error) {
	f.blocks = nil
	if f.prev, err = openRegular(f.home, f.name); f.prev == nil || err != nil {
		return err
	}
	near, err := neighboursOf(f.home, f.name)
	if err == nil {
		err = near.refuseCrowd(f.name, false)
	}
	if err != nil {
		return err
	}
	if f.opts.Refuse != nil {
		if err := f.opts.Refuse(f.prev.info); err != nil {
			return err
		}
	}
	if f.prev.info.Size == 0 {
		return nil
	}
	if f.opts.Format == manifest.GNU { // other hashes have lines of the same form
		if a, _ := manifest.AlgorithmIn(f.name); a != "" && a != f.opts.Hashes[0] {
			return &takenError{fmt.Sprintf("its name says that its lines are of %s, not of %s", a, f.opts.Hashes[0])}
		}
	}
	f.blocks, err = manifest.ExactBlocks(fsys.ReaderAt{File: f.prev.file}, f.prev.info.Size, f.opts.Format, f.opts.Builder.Named, f.opts.Hashes...)
	return otherForm(err)
}

// Is reports whether the manifest is, or will be, the file name in the directory dir. file
// describes the existing entry of that name.
func (f *File) Is(dir fsys.ID, name string, file fsys.ID) bool {
	if dir != f.homeID {
		return false
	}
	// If names differ only in case, the file system decides whether they are the same.
	return name == f.name || f.prev != nil && file == f.prev.info.ID && strings.EqualFold(name, f.name)
}

// Write writes the lines of the Builder, and the lines of the previous manifest for other
// paths that are still regular files. A manifest that would not change stays. The file is
// complete and synced before it gets its name; otherwise the existing file stays. Write returns
// the cause of ctx's end if it still waits for another process then.
func (f *File) Write(ctx context.Context) (record.Written, error) {
	w := record.Written{Path: f.opts.Path}
	if err := f.refresh(); err != nil {
		return w, err
	}
	compose := func(to io.Writer) (manifest.Counts, error) {
		return f.opts.Builder.Write(to, manifest.Document{
			Format: f.opts.Format, Hashes: f.opts.Hashes, Previous: f.blocks, Keep: f.keep, Omit: f.opts.Omit,
		})
	}
	if f.prev != nil {
		n, digest, err := equals(f.prev.file, f.prev.info.Size, compose)
		if err != nil {
			return w, err
		}
		if digest != "" {
			removeLeftLock(f.home)
			w.Count(n, digest)
			return w, stillSame(f.home, f.name, f.prev)
		}
	}
	unlock, err := lock(ctx, f.home)
	if err != nil {
		return w, err
	}
	defer unlock()
	if err := f.refresh(); err != nil {
		return w, err
	}
	r := replacement{home: f.home, name: f.name, replaces: f.prev, like: f.prev, durable: true, compose: compose}
	n, digest, err := r.write()
	w.Count(n, digest)
	if err == nil {
		err = f.home.Sync()
	}
	return w, err
}

// refresh loads the previous manifest again if another process has replaced it or written
// the first one. The lines of both must be kept.
func (f *File) refresh() error {
	if f.prev != nil && stillSame(f.home, f.name, f.prev) == nil {
		return nil
	}
	f.prev.close()
	if err := f.load(); err != nil {
		return fmt.Errorf("another process has changed it meanwhile: %w", err)
	}
	return nil
}

// keep applies rule 5 to the line of a path that the run does not list.
func (f *File) keep(file string, digest []byte) ([]byte, error) {
	if file == standardInput && f.opts.Builder.Named {
		return nil, nil
	}
	name := filepath.FromSlash(file)
	if f.opts.Base != "" && !filepath.IsAbs(name) {
		name = f.opts.Base + string(filepath.Separator) + name
	}
	info, err := f.opts.FS.StatPath(name)
	switch {
	case errors.Is(err, fs.ErrNotExist), fsys.IsSymlinkRefusal(err):
		return nil, nil
	case err != nil: // the file may exist
		return digest, nil //nolint:nilerr // a line is dropped only when its file is gone
	case info.Kind != fsys.Regular, f.opts.Changed != nil && f.opts.Changed(info):
		return nil, nil
	case info.ID == f.prev.info.ID && strings.EqualFold(path.Base(file), f.name): // a manifest does not list its own earlier version
		return nil, nil
	}
	return digest, nil
}

// Close closes all files. It is safe to call it again.
func (f *File) Close() {
	f.prev.close()
	if f.home != nil {
		f.home.Close()
		f.home = nil
	}
}
