package engine

import (
	"strings"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/walk"
)

// This file finds the names of the source that a file system folds together: it takes them for one.

// collision explains why name exists although it was neither there before nor
// made by this run. Either another process made it: then collision returns nil, and
// maybeExists reports true from now on. Or the file system takes it for the same as another name, which may be
// another of the source's. src and info are the source's directory and entry.
func (dd *destDir) collision(dir *fsys.Dir, name string, src *walk.Dir, info fsys.Info) error {
	dd.mu.Lock()
	defer dd.mu.Unlock()
	other, err := aliasOf(dir, name)
	if err != nil {
		return err
	}
	if other == name {
		if other, err = twinOf(dir, name, src, info); err != nil {
			return err
		}
		if other != "" {
			return &collisionError{other}
		}
	} else {
		if other == "" || dd.existing == nil || !dd.existing.has(other) {
			return &collisionError{other}
		}
		if in, err := src.Acquire(); err != nil {
			return err
		} else {
			sibling, err := in.Lstat(other)
			src.Release()
			if err == nil && (sibling.ID != info.ID || info.Nlink > 1) {
				return &collisionError{other}
			}
		}
		if first, ok := dd.claimedBy[other]; ok && first != name {
			return &collisionError{first}
		}
		if dd.claimedBy == nil {
			dd.claimedBy = map[string]string{}
		}
		dd.claimedBy[other] = name
	}
	if dd.appeared == nil {
		dd.appeared = map[string]bool{}
	}
	dd.appeared[name] = true
	return nil
}

// aliasFor is the existing name that name is the same as at the destination, as
// found by collision.
func (dd *destDir) aliasFor(name string) (other string, ok bool) {
	dd.mu.Lock()
	defer dd.mu.Unlock()
	for other, claimer := range dd.claimedBy {
		if claimer == name {
			return other, true
		}
	}
	return "", false
}

// aliasOf returns the name under which dir lists the entry that it finds by
// name; "" if that is unknown.
func aliasOf(dir *fsys.Dir, name string) (string, error) {
	alias := ""
	err := dir.Each(func(listed []byte, _ uint64, _ fsys.Kind) bool {
		switch {
		case string(listed) == name:
			alias = name
			return false
		case alias == "" && strings.EqualFold(string(listed), name):
			alias = string(listed)
		}
		return true
	})
	if err != nil || alias == name {
		return alias, err
	}
	info, err := dir.Lstat(name)
	if err != nil {
		return "", err
	}
	if alias == "" && info.ID.Ino != 0 {
		err = dir.Each(func(listed []byte, ino uint64, _ fsys.Kind) bool {
			if ino == info.ID.Ino {
				alias = string(listed)
			}
			return alias == ""
		})
	}
	return alias, err
}

// twinOf returns another name of the source directory src that dir, which lists
// name, takes for the same; "" if there is none. A file system can list a name as
// it was not made: in lower case (ntfs-3g's ignore_case), or in another form of
// Unicode (HFS+). A hard link of the source that is one at the destination is none:
// another process has made it, or a server whose answer was lost.
func twinOf(dir *fsys.Dir, name string, src *walk.Dir, own fsys.Info) (string, error) {
	info, err := dir.Lstat(name)
	if err != nil || info.ID.Ino == 0 {
		return "", err
	}
	in, err := src.Acquire()
	if err != nil {
		return "", err
	}
	defer src.Release()
	twin := ""
	err = in.Each(func(listed []byte, _ uint64, _ fsys.Kind) bool {
		if sibling := string(listed); sibling != name {
			other, err := dir.Lstat(sibling)
			if err != nil || other.ID != info.ID {
				return true
			}
			if from, err := in.Lstat(sibling); err != nil || from.ID != own.ID || other.Nlink == 1 {
				twin = sibling
			}
		}
		return twin == ""
	})
	return twin, err
}

// collisionError says that a file system folds two names of the source together.
type collisionError struct{ other string }

func (e *collisionError) Error() string {
	if e.other == "" {
		return "the destination takes this name for the same as another one"
	}
	return "the destination takes this name for the same as " + quoteName(e.other)
}
