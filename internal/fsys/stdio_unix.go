//go:build unix

package fsys

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// openWithoutPath opens an object that has a link but no path, such as the pipe of /dev/stdin.
// The target of the link does not exist as a path, but opening the link works.
func (sys *FS) openWithoutPath(link string, _ error) (*File, Info, error) {
	if err := sys.fault(OpOpen, link); err != nil {
		return nil, Info{}, err
	}
	o, err := openPath(link, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY)
	if err != nil {
		return nil, Info{}, err
	}
	o.descriptor = sys.opened(link)
	return describe(o)
}

// StatFile describes the object that f has open.
func StatFile(f *os.File) (Info, error) { return (&Object{fd: int(f.Fd())}).stat() }

// PipeClosed reports whether a write failed because no process reads the pipe any more.
func PipeClosed(err error) bool { return errors.Is(err, unix.EPIPE) }
