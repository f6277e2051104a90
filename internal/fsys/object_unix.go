//go:build unix

package fsys

import (
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// errNotSupported is the error of operations that a system does not support.
const errNotSupported = unix.ENOTSUP

// Object is an open file, directory or other entry whose metadata can be read and set through
// its descriptor.
type Object struct {
	fd int
	// pathOnly marks a descriptor opened with O_PATH (Linux), on which the
	// f-calls fail with EBADF; Sealift uses /proc/self/fd/N instead.
	pathOnly bool
	// entry, if not empty, is the object's name in the directory fd: macOS has
	// no O_PATH, and not everything there can be opened.
	entry string //nolint:unused // outside macOS

	descriptor *Descriptor // a value for tests; nil without an FS
}

func (o *Object) release() error {
	err := unix.Close(o.fd)
	if err == unix.EINTR { // the descriptor is closed nevertheless
		return nil
	}
	return err
}

// valuesOf reads the attributes that have these names and that keep accepts. A refused value
// does not mean that the file system has no attributes.
func valuesOf(names []string, keep func(string) bool, value func(name string) ([]byte, error)) (list []Xattr, err error) {
	var unread error
	for _, name := range names {
		if !keep(name) {
			continue
		}
		v, err := value(name)
		switch {
		case err == nil:
			list = append(list, Xattr{Name: name, Value: v})
		case err == errNoXattr: // the attribute was removed after it was listed
		case NotPermitted(err) || Unsupported(err):
			unread = fmt.Errorf("%w: %q: %v", ErrUnread, name, err) // Unsupported must not be true for it: no %w
		default:
			return nil, err
		}
	}
	return list, unread
}

// splitNames splits a list of names, each of which ends with NUL.
func splitNames(list []byte) []string {
	if len(list) == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(list), "\x00"), "\x00")
}

// infoOf converts a stat structure. The types of its fields differ between systems.
func infoOf(st *unix.Stat_t) Info {
	info := Info{
		Kind:   kindOf(uint32(st.Mode)),                      //nolint:unconvert // 16 bits on macOS
		ID:     ID{Dev: uint64(st.Dev), Ino: uint64(st.Ino)}, //nolint:unconvert // 32 bits elsewhere
		Mode:   uint32(st.Mode) & 0o7777,                     //nolint:unconvert // 16 bits on macOS
		Nlink:  uint64(st.Nlink),                             //nolint:unconvert // 16 bits on macOS
		UID:    st.Uid,
		GID:    st.Gid,
		Rdev:   uint64(st.Rdev), //nolint:unconvert // 32 bits on macOS
		Size:   st.Size,
		Blocks: int64(st.Blocks), //nolint:unconvert // unsigned elsewhere
	}
	setTimesOf(&info, st)
	return info
}

// kindOf returns the kind of a file with the mode.
func kindOf(mode uint32) Kind {
	switch mode & unix.S_IFMT {
	case unix.S_IFREG:
		return Regular
	case unix.S_IFDIR:
		return Directory
	case unix.S_IFLNK:
		return Symlink
	case unix.S_IFIFO:
		return Fifo
	case unix.S_IFSOCK:
		return Socket
	case unix.S_IFCHR:
		return CharDevice
	case unix.S_IFBLK:
		return BlockDevice
	}
	return Irregular
}

// kindOfDirent returns the kind of an entry that is listed with the type: IFTODT of
// dirent.h the other way round.
func kindOfDirent(t byte) Kind {
	if kind := kindOf(uint32(t) << 12); t < 16 && kind != Irregular {
		return kind
	}
	return Unknown
}

func timeOf(ts unix.Timespec) Time {
	return Time{Sec: int64(ts.Sec), Nsec: int64(ts.Nsec)} //nolint:unconvert // 32 bits elsewhere
}

// retryN is retry of a call that returns a number. If the call fails, the number is 0, not the -1 of
// system calls.
func retryN(f func() (int, error)) (int, error) {
	for {
		if n, err := f(); err != unix.EINTR {
			return max(n, 0), err
		}
	}
}
