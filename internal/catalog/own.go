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

// own is a manifest of Sealift's form at a destination, written by an earlier run.
type own struct {
	path  string    // the manifest's path, also while it has its other name
	home  *fsys.Dir // that it is in
	name  string    // that it has there now
	aside bool      // it has the name that it has while files are being replaced
	// killed: it had that name when this run began, because the run that moved it aside
	// did not come to write its own.
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

// notOwnError says why what has a manifest's name is not a manifest of Sealift's.
type notOwnError struct{ why string }

func (e *notOwnError) Error() string { return e.why }

// signatures are what the names of detached signatures end in.
var signatures = []string{".asc", ".sig", ".gpg"}

// openOwn opens the manifest name of hash a in home: nil if nothing has the name, a
// *notOwnError if it is not a regular file in exactly the form that Sealift writes, or
// has a detached signature beside it.
func openOwn(home *fsys.Dir, name string, a hash.Algorithm) (*own, error) {
	o, err := openUnsigned(home, name)
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

// openUnsigned opens the regular file name in home, whatever is in it: nil if nothing
// has the name, a *notOwnError if it is something else or has a detached signature.
func openUnsigned(home *fsys.Dir, name string) (*own, error) {
	f, info, err := home.OpenRegular(name)
	var other *fsys.KindError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case errors.As(err, &other):
		return nil, &notOwnError{"it is a " + other.Kind.String()}
	case err != nil:
		return nil, err
	}
	for _, extension := range signatures {
		if _, err := home.Lstat(name + extension); err == nil {
			f.Close()
			return nil, &notOwnError{"there is a signature of it, " + quoteName(name+extension)}
		} else if !fsys.NoSuchFile(err) {
			f.Close()
			return nil, err
		}
	}
	return &own{home: home, name: name, file: f, info: info}, nil
}

// otherForm makes a *notOwnError of a *manifest.FormError.
func otherForm(err error) error {
	if form := (*manifest.FormError)(nil); errors.As(err, &form) {
		return &notOwnError{"it is not a manifest that Sealift wrote: " + form.Error()}
	}
	return err
}

// openHome opens the directory of a path below root name by name, through no symbolic
// link: what a copy has put there must not lead a manifest out of the tree. The caller
// closes it unless it is root.
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
	return io.NewSectionReader(fsys.ReaderAt{File: o.file}, 0, o.info.Size)
}
