package stream

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/seed65876f4f/sealift/internal/catalog"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/manifest"
	"github.com/seed65876f4f/sealift/internal/quote"
	"github.com/seed65876f4f/sealift/internal/record"
)

// checkManifest opens the manifest. It refuses one that could have no line, because neither an
// output nor the input can be listed.
func (r *run) checkManifest() error {
	if r.opts.Manifest == "" {
		return nil
	}
	refuse := func(err error) error {
		return failure.Refuse("--manifest %s: %s", quote.Name(r.opts.Manifest), err)
	}
	possible := r.inputCanBeListed()
	for _, out := range r.outputs {
		possible = possible || out.canBeListed(r.seek)
	}
	if !possible {
		return refuse(errors.New("there is nothing to list: no output is a file or a device that will hold the stream and nothing else, and the input is not read completely"))
	}
	format := manifest.FormatOf(r.opts.Hashes[0])
	if len(r.opts.Hashes) > 1 {
		format = manifest.BSD
	}
	r.builder = manifest.NewBuilder(r.opts.Hashes, nil, 0)
	r.builder.Named = true
	var err error
	r.manifest, err = catalog.OpenFile(catalog.FileOptions{
		FS: r.opts.FS, Path: r.opts.Manifest, Hashes: r.opts.Hashes, Builder: r.builder, Format: format,
		Hint: "choose another name", Refuse: r.refuseManifest,
		Changed: func(info fsys.Info) bool { return r.isOutput(info.ID) },
	})
	return err
}

// refuseManifest returns an error if the existing manifest is the input or an output.
func (r *run) refuseManifest(info fsys.Info) error {
	switch {
	case r.in.Info.ID == info.ID:
		return errors.New("it is the input")
	case r.isOutput(info.ID):
		return errors.New("it is an output")
	}
	return nil
}

func (r *run) isOutput(id fsys.ID) bool {
	return slices.ContainsFunc(r.outputs, func(o *output) bool { return o.to.Info.ID == id })
}

func hasContent(name string, s *fsys.Stream) bool {
	return name != standard && (s.Info.Kind == fsys.Regular || s.Info.Kind == fsys.BlockDevice)
}

func (r *run) inputCanBeListed() bool {
	return hasContent(r.opts.Input, r.in.Stream) && r.skip == 0 && (r.limit < 0 || r.limit >= r.in.Size)
}

func (o *output) canBeListed(seek int64) bool { return hasContent(o.name, o.to) && seek == 0 }

// namesStream reports whether the name still leads to the stream. A reader of the manifest
// opens the file by its name.
func (r *run) namesStream(name string, s *fsys.Stream) (bool, error) {
	now, err := r.opts.FS.StatPath(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return now.ID == s.Info.ID, err
}

// isStream reports whether the output contains the stream and nothing else. Call it before the
// output is closed.
func (o *output) isStream() (bool, error) {
	if o.failed || !o.canBeListed(o.base) {
		return false, nil
	}
	if same, err := o.run.namesStream(o.name, o.to); !same || err != nil {
		return false, err
	}
	if o.to.Info.Kind == fsys.BlockDevice {
		return o.written == o.to.Size, nil
	}
	now, err := o.to.Stat()
	return now.Size == o.written, err
}

// isStream reports whether the input was read completely and has not changed since.
func (in *input) isStream() (bool, error) {
	if !in.run.inputCanBeListed() {
		return false, nil
	}
	if same, err := in.run.namesStream(in.run.opts.Input, in.Stream); !same || err != nil {
		return false, err
	}
	if in.Info.Kind == fsys.BlockDevice {
		return in.total == in.Size, nil
	}
	now, err := in.Stat()
	return now.Size == in.total && now.Mtime == in.Info.Mtime && now.Ctime == in.Info.Ctime, err
}

// writeManifest writes a line for each output that contains exactly the stream. If there is
// none, it lists the input. The error is the cause of the context's end.
func (r *run) writeManifest() error {
	if r.manifest == nil {
		return nil
	}
	if err := r.list(); err != nil {
		r.listed = record.Written{}
		if cause := context.Cause(r.ctx); cause != nil && errors.Is(err, cause) {
			return cause
		}
		r.fail(r.opts.Manifest, failure.StageManifest, err)
	}
	return nil
}

func (r *run) list() error {
	if r.errors.Load() > 0 {
		return errors.New("it was not written, since something has failed")
	}
	var names []string
	for _, out := range r.outputs {
		if out.listed {
			names = append(names, out.name)
		}
	}
	if len(names) == 0 {
		is, err := r.in.isStream()
		if err != nil {
			return err
		}
		if is {
			names = append(names, r.opts.Input)
		}
	}
	if len(names) == 0 {
		return errors.New("it was not written, since there is nothing to list: no output holds the stream and nothing else, and the input was not read completely")
	}
	for _, name := range names {
		entry := manifest.Entry{Path: filepath.ToSlash(name), Digests: r.set.Digests(), Size: r.in.total, Mtime: r.in.Info.Mtime.Sec}
		if err := r.builder.Put(entry); err != nil {
			return err
		}
	}
	var err error
	r.listed, err = r.manifest.Write(r.ctx)
	return err
}
