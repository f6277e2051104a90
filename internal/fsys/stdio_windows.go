package fsys

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/windows"
)

// StatFile describes the object that f has open.
func StatFile(f *os.File) (Info, error) { return (&Object{h: windows.Handle(f.Fd())}).stat() }

// openWithoutPath returns err: Windows has no links to objects without a path.
func (sys *FS) openWithoutPath(_ string, err error) (*File, Info, error) { return nil, Info{}, err }

// PipeClosed reports whether a write failed because no process reads the pipe any more.
func PipeClosed(err error) bool {
	return errors.Is(err, windows.ERROR_BROKEN_PIPE) || errors.Is(err, windows.ERROR_NO_DATA) || errors.Is(err, syscall.EPIPE)
}
