package engine

import (
	"errors"
	"io/fs"
	"strings"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/walk"
)

// collision must be called if name exists, although it did not exist before and this run has not
// made it. The error is a *collisionError if the source has another name that the destination
// treats as equal. Otherwise another process has made the entry, or it has another spelling since
// before the run. Then maybeExists reports true from now on, and alias is the other spelling, or "".
// src and info are the directory and the entry of the source.
func (dd *destDir) collision(dir *fsys.Dir, name string, src *walk.Dir, info fsys.Info) (alias string, err error) {
	if dd.target.Name != "" { // no other name of the source is copied
		return "", nil
	}
	found, err := dir.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil // it was removed again
	}
	if err != nil {
		return "", err
	}
	twin, err := twinOf(dir, name, found.ID, src, info)
	if err != nil {
		return "", err
	}
	if twin != "" {
		return "", &collisionError{twin}
	}
	dd.mu.Lock()
	defer dd.mu.Unlock()
	if dd.appeared == nil {
		dd.appeared = map[string]bool{}
	}
	dd.appeared[name] = true
	return spelling(dir, name, found.ID)
}

// twinOf returns another name in the source directory src that dir treats as equal to name, or "" if
// there is none. That is a name under which dir has the same file id. It is also a name that differs
// in case only, because FUSE can give each spelling its own inode number. Links of one file in the
// source that are links at the destination, too, are no twins.
func twinOf(dir *fsys.Dir, name string, id fsys.ID, src *walk.Dir, info fsys.Info) (twin string, err error) {
	in, err := src.Acquire()
	if err != nil {
		return "", err
	}
	defer src.Release()
	err = in.Each(func(listed []byte, _ uint64, _ fsys.Kind) bool {
		sibling := string(listed)
		if sibling == name {
			return true
		}
		other, err := dir.Lstat(sibling)
		if err != nil || (other.ID != id || id.Ino == 0) && !strings.EqualFold(sibling, name) {
			return true
		}
		if from, err := in.Lstat(sibling); err != nil || from.ID != info.ID || other.Nlink == 1 {
			twin = sibling
		}
		return twin == ""
	})
	return twin, err
}

// spelling returns the other spelling under which dir lists the entry called name, or "" if it lists
// that name itself.
func spelling(dir *fsys.Dir, name string, id fsys.ID) (alias string, err error) {
	err = dir.Each(func(listed []byte, ino uint64, _ fsys.Kind) bool {
		switch {
		case string(listed) == name:
			alias = ""
			return false
		case strings.EqualFold(string(listed), name) || ino == id.Ino && ino != 0:
			alias = string(listed)
		}
		return true
	})
	return alias, err
}

// collisionError says that the destination treats two names of the source as equal.
type collisionError struct{ other string }

func (e *collisionError) Error() string {
	return "the destination takes this name for the same as " + quoteName(e.other)
}
