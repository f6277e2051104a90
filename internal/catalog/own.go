package catalog

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/manifest"
)

// own is a manifest of Sealift's form at a destination, written by an earlier run. That of a complete
// bag has only file and index.
type own struct {
	path  string    // the manifest's path, also while it is aside
	home  *fsys.Dir // the directory that it is in
	name  string    // its current name there
	aside bool      // it is renamed while the run replaces files
	// killed: it was aside when this run began, because the run that moved it aside did not
	// finish.
	killed bool
	file   *fsys.File
	info   fsys.Info
	index  *manifest.Index
}

func (o *own) close() {
	if o != nil && o.file != nil {
		o.file.Close()
		o.file = nil
	}
}

// closeHome closes the manifest and its directory, unless that is root.
func (o *own) closeHome(root *fsys.Dir) {
	o.close()
	if o != nil && o.home != root {
		o.home.Close()
	}
}

// isEmpty reports whether the file has no line. Sealift writes no such manifest, but replaces one
// that --manifest names.
func (o *own) isEmpty() bool { return o != nil && o.info.Size == 0 }

// notOwnError explains why the file with a manifest's name is not a manifest of Sealift.
type notOwnError struct{ why string }

func (e *notOwnError) Error() string { return e.why }

// openOwn opens the manifest name of hash a in home. It returns nil if the name does not
// exist. It returns a *notOwnError if it is not a regular file in exactly the form that
// Sealift writes.
func openOwn(home *fsys.Dir, name string, a hash.Algorithm) (*own, error) {
	o, err := openRegular(home, name)
	if o == nil || err != nil {
		return nil, err
	}
	o.index, err = manifest.BuildOwnIndex(fsys.ReaderAt{File: o.file}, o.info.Size, a)
	if err != nil {
		o.close()
		return nil, otherForm(err)
	}
	return o, nil
}

// openRegular opens the regular file name in home, with any content. It returns nil if the
// name does not exist, and a *notOwnError if it has another type.
func openRegular(home *fsys.Dir, name string) (*own, error) {
	f, info, err := home.OpenRegular(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if other, ok := errors.AsType[*fsys.KindError](err); ok {
		return nil, &notOwnError{"it is a " + other.Kind.String()}
	}
	if err != nil {
		return nil, err
	}
	return &own{home: home, name: name, file: f, info: info}, nil
}

// otherForm makes a *notOwnError from a *manifest.FormError.
func otherForm(err error) error {
	if form, ok := errors.AsType[*manifest.FormError](err); ok {
		return &notOwnError{"it is not a manifest that Sealift wrote: " + form.Error()}
	}
	return err
}

// openHome opens the directory of a path below root, name by name. It follows no symbolic
// link, because a link that was copied must not lead a manifest out of the tree. The caller
// closes the directory unless it is root.
func openHome(root *fsys.Dir, file string, create bool) (*fsys.Dir, error) {
	d := root
	if path.Dir(file) == "." {
		return d, nil
	}
	for part := range strings.SplitSeq(path.Dir(file), "/") {
		made := create && d.Mkdir(part) == nil
		next, err := d.OpenDir(part)
		if d != root {
			d.Close()
		}
		if err == nil && made {
			err = fsys.IgnoreRefusal(next.Chmod(0o777 &^ fsys.Umask()))
		}
		if err != nil {
			if next != nil {
				next.Close()
			}
			return nil, fmt.Errorf("%s: %w", quoteName(part), err)
		}
		d = next
	}
	return d, nil
}

// lines reads the manifest.
func (o *own) lines() *io.SectionReader {
	return o.file.Reader(o.info.Size)
}
