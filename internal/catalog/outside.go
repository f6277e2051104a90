package catalog

import (
	"errors"
	"io/fs"
	"path/filepath"

	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/quote"
)

// Outside is the record.Book of a manifest outside the destination.
type Outside struct{ *manifests }

// open applies rule 6: only the place of the manifest matters.
func (o *Outside) open() error {
	l := o.lists[0]
	dir, err := o.FS.OpenTrustedRoot(filepath.Dir(o.Outside))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return failure.Refuse("--manifest %s: %s", quoteName(o.Outside), quote.Text(err.Error()))
	}
	o.homes = append(o.homes, dir)
	name := filepath.Base(o.Outside)
	near, err := neighboursOf(dir, name)
	if err == nil {
		err = near.refuseCrowd(name, false)
	}
	if err == nil {
		l.prev, err = openExisting(dir, name, l.algorithm)
	}
	return o.refuse("", err)
}
