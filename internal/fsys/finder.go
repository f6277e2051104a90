package fsys

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
)

// ErrOutside means that a path leads out of the directory below which it has to be.
var ErrOutside = errors.New("it leads outside the directory")

// errLinks is the error that other programs report as ELOOP.
var errLinks = errors.New("too many symbolic links")

// maxLinks limits the symbolic links on a path, as on Linux.
const maxLinks = 40

// A KindError means that an object is not a regular file.
type KindError struct{ Kind Kind }

func (e *KindError) Error() string { return fmt.Sprintf("it is a %s, not a regular file", e.Kind) }

// NoSuchFile reports whether err means that no file has the name, also because the name is
// too long for the file system.
func NoSuchFile(err error) bool { return errors.Is(err, fs.ErrNotExist) || NameTooLong(err) }

// Finder opens files below a directory by untrusted paths, for example of a manifest. It
// resolves them name by name and never leaves the directory, whatever the paths contain and
// whichever objects are exchanged meanwhile. It keeps the directories of the last path open
// for the next one, which is near in sorted lists. Use it from one goroutine.
type Finder struct {
	root  *Dir
	limit int
	names []string // the directories above the last path, from the root down
	dirs  []*Dir   // open directories of these names; nil if closed to stay within the limit

	asked   *Dir // the directory that was checked for device nodes
	devices bool // true if asked may have device nodes that this process could open
}

// NewFinder returns a Finder below root that keeps about limit directories open. The caller
// must Close it, which does not close root.
func NewFinder(root *Dir, limit int) *Finder { return &Finder{root: root, limit: max(limit, 1)} }

// FinderLimit returns a limit for NewFinder that leaves most of the descriptors of the process to
// others.
func FinderLimit() int { return min(max(OpenLimit()/16, 2), 64) }

// Close closes the directories that are open.
func (f *Finder) Close() { f.closeFrom(0) }

// Lstat describes the object at path. It follows no symbolic link.
func (f *Finder) Lstat(path string) (Info, error) {
	dir, name, err := f.Parent(path)
	if err != nil {
		return Info{}, err
	}
	return dir.Lstat(name)
}

// Parent returns the directory of path and the last name of path. It follows no symbolic link.
// The directory is open until the next call.
func (f *Finder) Parent(path string) (dir *Dir, name string, err error) {
	parts, err := elements(path)
	if err != nil {
		return nil, "", err
	}
	dir, err = f.enter(parts[:len(parts)-1])
	return dir, parts[len(parts)-1], err
}

// Open opens the regular file at path for reading. It follows symbolic links that stay in
// the directory. The error is ErrOutside if one leads out, and a *KindError if the object is
// not a regular file. Open does not open that object.
func (f *Finder) Open(path string) (*File, Info, error) {
	parts, err := elements(path)
	if err != nil {
		return nil, Info{}, err
	}
	dir, err := f.enter(parts[:len(parts)-1])
	if err != nil {
		if IsSymlinkRefusal(err) {
			return f.follow(parts)
		}
		return nil, Info{}, err
	}
	file, info, err := dir.openRegular(parts[len(parts)-1], f.mayHaveDevices(dir))
	if other := (*KindError)(nil); errors.As(err, &other) && other.Kind == Symlink {
		return f.follow(parts)
	}
	return file, info, err
}

// OpenRegular is Open of a regular file from an untrusted source. The error is a *KindError
// if the object is not a regular file; it is not opened then.
func (d *Dir) OpenRegular(name string) (*File, Info, error) { return d.openRegular(name, true) }

// openRegular opens name if it is a regular file. If it could be a device, it
// checks the kind first, because opening a device can have effects. Only a process that may
// create devices could put one there in between. For other files, the check would cost a
// tenth of the time of a small file.
func (d *Dir) openRegular(name string, devices bool) (*File, Info, error) {
	if devices {
		info, err := d.Lstat(name)
		if err == nil && info.Kind != Regular {
			err = &KindError{info.Kind}
		}
		if err != nil {
			return nil, info, err
		}
	}
	file, info, err := d.Open(name)
	if err != nil {
		if other, lookErr := d.Lstat(name); lookErr == nil && other.Kind != Regular {
			err = &KindError{other.Kind}
		}
		return nil, info, err
	}
	if info.Kind != Regular {
		file.Close()
		return nil, info, &KindError{info.Kind}
	}
	return file, info, nil
}

// elements splits a path into its names. There is at least one, and none is "..".
func elements(path string) ([]string, error) {
	parts := strings.Split(path, "/")
	if parts[0] == "" || filepath.VolumeName(path) != "" {
		return nil, ErrOutside // the path is absolute, has a drive or is empty
	}
	kept := parts[:0]
	for _, part := range parts {
		switch part {
		case "", ".":
		case "..":
			return nil, ErrOutside
		default:
			kept = append(kept, part)
		}
	}
	if len(kept) == 0 || path[len(path)-1] == '/' {
		return nil, &KindError{Directory}
	}
	return kept, nil
}

// mayHaveDevices reports whether a directory may have device nodes on which opening has an
// effect. In an unprivileged process it trusts nodes that a privileged one has made.
func (f *Finder) mayHaveDevices(dir *Dir) bool {
	if f.asked != dir {
		f.asked, f.devices = dir, Privileged() && !dir.noDevices()
	}
	return f.devices
}

// enter returns the directory that the names lead to. It follows no link.
func (f *Finder) enter(names []string) (*Dir, error) {
	same := 0
	for same < len(names) && same < len(f.names) && names[same] == f.names[same] {
		same++
	}
	if same > 0 && f.dirs[same-1] == nil {
		same = 0
	}
	f.closeFrom(same)
	dir := f.root
	if same > 0 {
		dir = f.dirs[same-1]
	}
	for _, name := range names[same:] {
		next, err := dir.OpenDir(name)
		if err != nil {
			return nil, err
		}
		f.names, f.dirs = append(f.names, name), append(f.dirs, next)
		dir = next
		if old := len(f.dirs) - 1 - f.limit; old >= 0 && f.dirs[old] != nil {
			f.closeDir(f.dirs[old])
			f.dirs[old] = nil
		}
	}
	return dir, nil
}

func (f *Finder) closeFrom(depth int) {
	for _, d := range f.dirs[depth:] {
		if d != nil {
			f.closeDir(d)
		}
	}
	f.names, f.dirs = f.names[:depth], f.dirs[:depth]
}

func (f *Finder) closeDir(d *Dir) {
	if f.asked == d { // the next directory may get the same address
		f.asked = nil
	}
	d.Close()
}

// follow opens the regular file that the names lead to through symbolic links. enter has
// already stopped at the first of them. ".." in a link's target removes the last directory
// from the path; it is never opened as a name.
func (f *Finder) follow(names []string) (*File, Info, error) {
	passed := slices.Clone(f.names) // names of directories, none of them a link
	names = names[len(passed):]
	links := 0
	for len(names) > 0 {
		name := names[0]
		names = names[1:]
		switch name {
		case "", ".":
			continue
		case "..":
			if len(passed) == 0 {
				return nil, Info{}, ErrOutside
			}
			passed = passed[:len(passed)-1]
			continue
		}
		dir, err := f.enter(passed)
		if err != nil {
			return nil, Info{}, err
		}
		info, err := dir.Lstat(name)
		switch {
		case err != nil:
			return nil, Info{}, err
		case info.Kind == Symlink:
			if links++; links > maxLinks {
				return nil, Info{}, errLinks
			}
			target, err := dir.Readlink(name)
			if err != nil {
				return nil, Info{}, err
			}
			if target = filepath.ToSlash(target); target == "" || target[0] == '/' || filepath.VolumeName(target) != "" {
				return nil, Info{}, ErrOutside
			}
			names = append(strings.Split(target, "/"), names...)
		case len(names) == 0:
			return dir.OpenRegular(name)
		case info.Kind != Directory:
			return nil, Info{}, fs.ErrNotExist // the path continues below a file
		default:
			passed = append(passed, name)
		}
	}
	return nil, Info{}, &KindError{Directory}
}
