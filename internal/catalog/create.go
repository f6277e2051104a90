package catalog

import (
	"errors"
	"io"
	"io/fs"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/manifest"
)

// CreateFile writes a manifest that replaces nothing: it is complete and durable when it
// gets its name in the directory, and it is an error if there is a file of that name.
func CreateFile(home *fsys.Dir, name string, compose func(io.Writer) (manifest.Counts, error)) (Written, error) {
	w := Written{Path: name}
	r := replacement{home: home, name: name, durable: true, compose: compose}
	n, digest, err := r.write()
	w.count(n, digest)
	if errors.Is(err, fs.ErrExist) {
		err = errors.New("another process has created it meanwhile")
	}
	if err == nil {
		err = home.Sync()
	}
	return w, err
}
