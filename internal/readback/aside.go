package readback

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/quote"
)

// BadPrefix begins the names of files whose content is not what the copy read.
const BadPrefix = fsys.Reserved + "bad-"

// BadName calls use with names for a bad file, which is called name, until use does not return
// fs.ErrExist. It returns the last of these names, and the error of use.
func BadName(name string, use func(bad string) error) (bad string, err error) {
	for try := 0; try < 100; try++ {
		if bad = BadPrefix + name; try > 0 || len(bad) > fsys.MaxName {
			bad = BadPrefix + fsys.TempName()[len(fsys.Reserved):] + "-" + name
			bad = bad[:min(len(bad), fsys.MaxName)]
		}
		if err = use(bad); !errors.Is(err, fs.ErrExist) {
			break
		}
	}
	return bad, err
}

// setAside renames a bad file of a tree and adds its new name to the error.
func (r *run) setAside(tree int, path string, err error, dir *fsys.Dir, name string, info fsys.Info) error {
	bad, moveErr := "", error(nil)
	if mayMove := r.Trees[tree].MayMove; mayMove != nil {
		moveErr = mayMove(path)
	}
	if moveErr == nil {
		bad, moveErr = setAside(dir, name, info)
	}
	switch {
	case bad == "":
		return fmt.Errorf("%w; it could not be moved out of the way: %w", err, moveErr)
	case moveErr != nil:
		return fmt.Errorf("%w; it is called %s now, but its directory is not as it was: %w", err, quote.Name(bad), moveErr)
	}
	return fmt.Errorf("%w; it is called %s now", err, quote.Name(bad))
}

// setAside renames a bad file in its directory, so that no reader uses it. The directory
// keeps its times and its mode.
func setAside(dir *fsys.Dir, name string, info fsys.Info) (bad string, err error) {
	now, err := dir.Lstat(name)
	if err == nil && now.ID != info.ID {
		err = failure.ErrExchanged
	}
	if err != nil {
		return "", err
	}
	before, err := dir.Stat()
	if err != nil {
		return "", err
	}
	rename := func() (err error) {
		bad, err = BadName(name, func(bad string) error { return dir.RenameNew(name, bad) })
		return err
	}
	err = rename()
	if err != nil && (errors.Is(err, fs.ErrPermission) || fsys.NotPermitted(err)) && dir.Chmod(before.Mode|0o700) == nil {
		err = rename()
		if back := dir.Chmod(before.Mode); err == nil && back != nil {
			return bad, back
		}
	}
	if err != nil {
		return "", err
	}
	if err := fsys.IgnoreRefusal(dir.SetTimes(before.Atime, before.Mtime, before.Btime)); err != nil {
		return bad, err
	}
	return bad, dir.Sync()
}
