package fsys

import (
	"os"

	"golang.org/x/sys/windows"
)

// StatFile describes what f is open on.
func StatFile(f *os.File) (Info, error) { return (&Object{h: windows.Handle(f.Fd())}).stat() }

// openWithoutPath returns err: there are no links without a path.
func (sys *FS) openWithoutPath(_ string, err error) (*File, Info, error) { return nil, Info{}, err }
