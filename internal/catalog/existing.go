package catalog

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/manifest"
)

// existing is a manifest of Sealift's form at a destination, written by an earlier run. That of a complete
// bag has only file and index.
type existing struct {
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

func (o *existing) close() {
	if o != nil && o.file != nil {
		o.file.Close()
		o.file = nil
	}
}

// closeHome closes the manifest and its directory, unless that is root.
func (o *existing) closeHome(root *fsys.Dir) {
	o.close()
	if o != nil && o.home != root {
		o.home.Close()
	}
}

// isEmpty reports whether the file has no line. Sealift writes no such manifest, but replaces one
// that --manifest names.
func (o *existing) isEmpty() bool { return o != nil && o.info.Size == 0 }

// takenError explains why the file with a manifest's name is not a manifest of Sealift.
type takenError struct{ why string }

func (e *takenError) Error() string { return e.why }

// openExisting opens the manifest name of hash a in home. It returns nil if the name does not
// exist. It returns a *takenError if it is not a regular file in exactly the form that
// Sealift writes.
func openExisting(home *fsys.Dir, name string, a hash.Algorithm) (*existing, error) {
	o, err := openRegular(home, name)
	if o == nil || err != nil {
		return nil, err
	}
	o.index, err = manifest.BuildExactIndex(fsys.ReaderAt{File: o.file}, o.info.Size, a)
	if err != nil {
		o.close()
		return nil, otherForm(err)
	}
	return o, nil
}

// openRegular opens the regular file name in home, with any content. It returns nil if the
// name does not exist, and a *takenError if it has another type.
func openRegular(home *fsys.Dir, name string) (*existing, error) {
	f, info, err := home.OpenRegular(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if other, ok := errors.AsType[*fsys.KindError](err); ok {
		return nil, &takenError{"it is a " + other.Kind.String()}
	}
	if err != nil {
		return nil, err
	}
	return &existing{home: home, name: name, file: f, info: info}, nil
}

// otherForm makes a *takenError from a *manifest.FormError.
func otherForm(err error) error {
	if form, ok := errors.AsType[*manifest.FormError](err); ok {
		return &takenError{"it is not a manifest that Sealift wrote: " + form.Error()}
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
func (o *existing) lines() *io.SectionReader {
	return o.file.Reader(o.info.Size)
}

// find opens the manifest of hash a at a path below root, or returns nil if there is none. The
// error is a *takenError if something else has the name, or takes it. near are the neighbours of
// root.
func find(root *fsys.Dir, near neighbours, file string, a hash.Algorithm) (*existing, error) {
	home, err := openHome(root, file, false)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		if fsys.IsSymlinkRefusal(err) {
			err = &takenError{"its directory is reached through something that is not a directory"}
		}
		return nil, err
	}
	name := path.Base(file)
	if home != root {
		near, err = neighboursOf(home, name)
	}
	var o *existing
	if err == nil {
		o, err = openExisting(home, name, a)
	}
	if err == nil {
		if o != nil && !slices.Contains(near, name) { // the directory lists the name in another case
			near = slices.DeleteFunc(slices.Clone(near), func(entry string) bool { return strings.EqualFold(entry, name) })
		}
		err = near.refuseCrowd(name, true)
	}
	if err != nil || o == nil {
		o.close()
		if home != root {
			home.Close()
		}
		return nil, err
	}
	o.path = file
	return o, nil
}

// openAside opens the manifest of a path that an unfinished run has renamed to name.
func openAside(root *fsys.Dir, file, name string, a hash.Algorithm) (*existing, error) {
	home, err := openHome(root, file, false)
	if errors.Is(err, fs.ErrNotExist) || err != nil && fsys.IsSymlinkRefusal(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	o, err := openExisting(home, name, a)
	if o == nil {
		if home != root {
			home.Close()
		}
		return nil, err
	}
	o.path, o.aside, o.killed = file, true, true
	return o, nil
}

func ignoreTaken(err error) error {
	if errors.As(err, new(*takenError)) {
		return nil
	}
	return err
}
