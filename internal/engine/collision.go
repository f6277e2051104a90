package engine

import (
	"strings"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/walk"
)

// This file finds names of the source that a file system folds together, that is, treats as equal.

// collision finds out why name exists, which did not exist before and which this run has not
// made. If another process has made it, collision returns nil, and maybeExists reports true from
// now on. Otherwise, the file system treats name as equal to another name, perhaps of the source.
// src and info are the directory and the entry of the source.
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
		in, err := src.Acquire()
		if err != nil {
			return err
		}
		sibling, err := in.Lstat(other)
		src.Release()
		if err == nil && (sibling.ID != info.ID || info.Nlink > 1) {
			return &collisionError{other}
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

// aliasFor returns the existing name that the destination treats as equal to name, if collision
// has found one.
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

// aliasOf returns the name under which dir lists the entry called name, or "" if it finds none.
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

// twinOf returns another name in the source directory src that dir, which lists name, treats as
// equal to it, or "" if there is none. A file system can change a name when it stores it: to lower
// case (ignore_case of ntfs-3g), or to another form of Unicode (HFS+). A hard link of the source
// that is also one at the destination is no twin: another process has made it, or a server whose
// answer was lost.
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
