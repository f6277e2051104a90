package metadata

import (
	"errors"
	"fmt"
	"sync"

	"github.com/seed65876f4f/sealift/internal/fsys"
)

// Reader reads extended attributes of entries of the source. Several goroutines may use it.
type Reader struct {
	Rules
	// Warn reports something that no copy gets. Read calls it once for each kind.
	Warn func(path string, err error)

	without sync.Map // device → true: its file system has no extended attributes
	warned  sync.Map // kind → true
}

// MayHave reports whether an entry of the device may have attributes that are copied.
func (r *Reader) MayHave(device uint64) bool {
	if !r.Preserve.keepsXattrs() {
		return false
	}
	_, none := r.without.Load(device)
	return !none
}

// Read reads the attributes of o, an entry of the source which v.Info describes, into v. On a file
// system without extended attributes, it asks only once. It warns once of attributes that this user
// must not read, and once of each kind of metadata that no copy can get. The file is copied all the
// same.
func (r *Reader) Read(o *fsys.Object, path string, v *Values) error {
	v.Xattrs, v.Unread = nil, false
	if !r.MayHave(v.Info.ID.Dev) {
		return nil
	}
	list, err := o.Xattrs(r.wants)
	notKept, has := errors.AsType[*fsys.NotKeptError](err)
	switch {
	case has: // another file may have readable attributes
		r.warn(notKept.What, path, fmt.Errorf("its %s, and perhaps the same of others, cannot be kept; the data is copied", notKept.What))
		return nil
	case fsys.Unsupported(err):
		if k := v.Info.Kind; k == fsys.Regular || k == fsys.Directory { // a fifo can lack attributes that files have
			r.without.Store(v.Info.ID.Dev, true)
		}
		return nil
	case errors.Is(err, fsys.ErrUnread), fsys.NotPermitted(err):
		v.Unread = true
		r.warn("unread", path, fmt.Errorf("its extended attributes, and perhaps those of others, cannot be read and are left out: %w", err))
		err = nil
	}
	v.Xattrs = list
	return err
}

func (r *Reader) warn(kind, path string, err error) {
	if _, again := r.warned.LoadOrStore(kind, true); !again {
		r.Warn(path, err)
	}
}
