//go:build unix

package fsys

import "os"

// StatFile describes what f is open on.
func StatFile(f *os.File) (Info, error) { return (&Object{fd: int(f.Fd())}).Stat() }
