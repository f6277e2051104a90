//go:build unix

package fsys

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// CheckLinks returns a *LinkError if the path leads through a symbolic link that is not trusted. The
// path need not exist. Other errors are those of using the path, which reports them.
func CheckLinks(path string) error {
	w, err := walkLinks(path)
	if err == nil {
		_ = w.dir.release()
		return nil
	}
	if errors.As(err, new(*LinkError)) {
		return err
	}
	return nil
}

// OpenTrusted is [os.OpenFile] for a path that leads through trusted links only. Otherwise it fails
// with a *LinkError, also if the links change meanwhile.
func OpenTrusted(path string, flags int, mode fs.FileMode) (*os.File, error) {
	file, err := openTrusted(path, flags, uint32(mode.Perm()))
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	// As in os.OpenFile, writing to a pipe or a terminal can have a deadline.
	if info, err := file.stat(); err == nil && info.Kind != Regular && info.Kind != Directory {
		_ = unix.SetNonblock(file.fd, true)
	}
	return os.NewFile(uintptr(file.fd), path), nil
}

// OpenTrustedRoot is OpenRoot for a path that leads through trusted links only. Otherwise it fails
// with a *LinkError, also if the links change meanwhile.
func (sys *FS) OpenTrustedRoot(path string) (*Dir, error) {
	if err := sys.fault(OpOpenDir, path); err != nil {
		return nil, err
	}
	o, err := openTrusted(path, openDirFlags, 0)
	if err != nil {
		return nil, err
	}
	o.descriptor = sys.opened(path)
	return &Dir{Object: o, caps: new(capabilities)}, nil
}

// openTrusted is openPath for a path that leads through trusted links only.
func openTrusted(path string, flags int, mode uint32) (Object, error) {
	w, err := walkLinks(path)
	if err != nil {
		return Object{}, err
	}
	defer w.dir.release() //nolint:errcheck // it was only read
	return w.dir.openAt(w.name, flags|w.noFollow, mode)
}

// makeDir creates the directory path. The umask decides its mode.
func makeDir(path string) error {
	parent, err := openTrusted(filepath.Dir(path), lookupFlags, 0)
	if err != nil {
		return err
	}
	defer parent.release() //nolint:errcheck // it was only read
	return retry(func() error { return unix.Mkdirat(parent.fd, filepath.Base(path), 0o777) })
}

// linkWalk is where a path leads: to an entry that is no symbolic link, or that does not exist.
type linkWalk struct {
	dir      *Dir
	name     string
	noFollow int // O_NOFOLLOW, or 0 if the system has to follow the last name
}

// walkLinks resolves a path as the system does, but name by name. It checks the owner of each
// symbolic link through the descriptor from which it reads where the link leads.
// macOS needs permission to read each directory of the path, other systems to search it.
func walkLinks(path string) (w linkWalk, err error) {
	passed, rest := "", path // passed is the path of dir, "" or with a slash at its end
	enter := func(next Object, err error, path string) error {
		if err != nil {
			return err
		}
		if w.dir != nil {
			_ = w.dir.release()
		}
		w.dir, passed = &Dir{Object: next}, path
		return nil
	}
	if path == "" {
		return w, unix.ENOENT
	}
	first := "."
	if strings.HasPrefix(path, "/") {
		first = "/"
	}
	start, err := openPath(first, lookupFlags)
	if err := enter(start, err, ""); err != nil {
		return w, err
	}
	defer func() {
		if err != nil {
			_ = w.dir.release()
		}
	}()
	for links := 0; ; {
		if strings.HasPrefix(rest, "/") {
			root, err := openPath("/", lookupFlags)
			if err := enter(root, err, "/"); err != nil {
				return w, err
			}
			rest = strings.TrimLeft(rest, "/")
		}
		name, after, more := strings.Cut(rest, "/")
		if name == "" {
			w.name = "."
			return w, nil
		}
		after = strings.TrimLeft(after, "/")
		w.noFollow = unix.O_NOFOLLOW
		info, err := w.dir.lstat(name)
		if err != nil && (more || err != unix.ENOENT) {
			return w, err
		}
		if err == nil && info.Kind == Symlink {
			if links++; links > maxLinks {
				return w, unix.ELOOP
			}
			target, system, err := w.dir.trustedLink(name, passed+name)
			if err != nil {
				return w, err
			}
			if !system {
				if rest = target; more {
					rest += "/" + after
				}
				continue
			}
			w.noFollow = 0
		}
		if !more {
			w.name = name
			return w, nil
		}
		next, err := w.dir.openAt(name, lookupFlags|w.noFollow, 0)
		if err := enter(next, err, passed+name+"/"); err != nil {
			return w, err
		}
		rest = after
	}
}

// trustedLink returns where a symbolic link leads, or a *LinkError. If system is true, the link is one
// of the system, which only the system can follow. path is that of the link, for the error.
func (d *Dir) trustedLink(name, path string) (target string, system bool, err error) {
	link, err := d.openObject(name)
	if err != nil {
		return "", false, err
	}
	defer link.release() //nolint:errcheck // it was only read
	info, err := link.stat()
	if err == nil && info.Kind != Symlink {
		err = ErrMoved
	}
	if err != nil {
		return "", false, err
	}
	if link.followedBySystem() {
		return "", true, nil
	}
	if target, err = d.linkTarget(name, &link); err == nil && !trusts(info.UID) {
		err = &LinkError{Link: path, Target: target, UID: info.UID}
	}
	return target, false, err
}

// trusts reports whether links of the user are trusted: root, the caller, and, if the caller is root,
// the user who has called sudo.
func trusts(uid uint32) bool {
	caller := uint32(unix.Geteuid())
	if uid == 0 || uid == caller {
		return true
	}
	by, err := strconv.ParseUint(os.Getenv("SUDO_UID"), 10, 32)
	return caller == 0 && err == nil && uid == uint32(by)
}
