package fsys

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// MakeDirs creates path and its parents like os.MkdirAll, but through trusted links only. It returns
// the directories that it created, outermost first, also with an error. If a name exists and cannot
// be read, the error has the reason. os.MkdirAll reports only that the name exists.
func MakeDirs(path string) (made []string, err error) {
	err = makeDir(path)
	if errors.Is(err, fs.ErrNotExist) && filepath.Dir(path) != path {
		if made, err = MakeDirs(filepath.Dir(path)); err != nil {
			return made, err
		}
		err = makeDir(path)
	}
	if err == nil {
		return append(made, path), nil
	}
	info, why := os.Stat(path)
	if why == nil && info.IsDir() {
		return made, nil
	}
	if errors.Is(err, fs.ErrExist) && why != nil {
		if _, gone := os.Lstat(path); gone != nil || !errors.Is(why, fs.ErrNotExist) { // otherwise path is a symbolic link to a name that does not exist
			err = why
		}
	}
	return made, err
}
