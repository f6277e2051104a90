package fsys

import (
	"os"

	"golang.org/x/sys/windows"
)

// StatFile describes what f is open on.
func StatFile(f *os.File) (Info, error) { return (&Object{h: windows.Handle(f.Fd())}).Stat() }
