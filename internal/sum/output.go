package sum

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/seed65876f4f/sealift/internal/catalog"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/manifest"
	"github.com/seed65876f4f/sealift/internal/quote"
	"github.com/seed65876f4f/sealift/internal/units"
)

// output writes the lines to Options.Out or to a manifest, and the media hash list.
type output struct {
	fs   *fsys.FS
	file *catalog.File // manifest to write; nil without one
	list *mediaList    // media hash list to write; nil without one
	out  fsys.ID       // the file that Options.Out writes to; zero if it is not a file
}

// openOutput finds the place of the output before any file is read for it.
func (r *run) openOutput(ctx context.Context, args []argument) (*output, error) {
	o := &output{fs: r.opts.FS}
	if r.opts.MediaList != nil {
		var err error
		if o.list, err = r.openMediaList(ctx, args); err != nil {
			return o, err
		}
	}
	if !r.opts.writesLines() {
		return o, nil
	}
	if r.opts.Manifest == "" {
		if r.opts.OutFile != nil {
			if info, err := fsys.StatFile(r.opts.OutFile); err == nil && info.Kind == fsys.Regular {
				o.out = info.ID
			}
		}
		return o, nil
	}
	base := ""
	if isTree(args) {
		base = args[0].given
	}
	var err error
	o.file, err = catalog.OpenFile(catalog.FileOptions{
		FS: r.opts.FS, Path: r.opts.Manifest, Base: base, Hashes: r.opts.Hashes, Builder: r.builder, Format: r.format,
		Omit: func(path string) bool { return strings.HasSuffix(path, "/") }, // directories are only for the history
		Hint: "choose another name, or leave --manifest out to print the lines",
	})
	return o, err
}

// holds reports whether the file opened for j is the one that the lines are written to. A
// manifest is identified by its path, because a hard link of the old one elsewhere stays an
// ordinary file.
func (o *output) holds(j *job, info fsys.Info) bool {
	if o.file == nil {
		return info.ID == o.out && o.out != fsys.ID{}
	}
	in, name := fsys.ID{}, j.base
	if j.dir != nil {
		in = j.dir.Info.ID
	} else if path, err := filepath.EvalSymlinks(j.path); err == nil {
		in, name = idOf(o.fs, filepath.Dir(path)), filepath.Base(path)
	}
	return o.file.Is(in, name, info.ID)
}

// idOf returns zero for a directory that does not exist any more.
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
	if o.list != nil {
		o.list.root.Close()
	}
}

// write writes the lines. A manifest is written completely, or the existing one stays.
func (o *output) write(ctx context.Context, r *run) error {
	switch {
	case r.opts.Listed != nil:
		return nil
	case o.file == nil:
		n, err := r.builder.Write(r.opts.Out, manifest.Document{Format: r.format, Zero: r.opts.Zero})
		r.summary.Lines = n.Lines
		return err
	}
	fail := func(err error) error {
		return fmt.Errorf("manifest %s: %w", quote.Name(r.opts.Manifest), err)
	}
	if err := r.complete(); err != nil {
		return fail(err)
	}
	written, err := o.file.Write(ctx)
	if err != nil {
		return fail(err)
	}
	r.summary.Manifest, r.summary.SHA256 = written.Path, written.SHA256
	r.summary.Lines, r.summary.Dropped = written.Lines, written.Dropped
	return nil
}

// complete returns an error if a manifest would not list every file, or would be empty.
func (r *run) complete() error {
	switch n := r.summary.Errors; {
	case n > 0:
		return fmt.Errorf("it was not written, since %s could not be hashed", units.Plural(n, "file"))
	case r.summary.Files == 0: // no program accepts an empty one
		return errors.New("it was not written, since there is nothing to list")
	}
	return nil
}
