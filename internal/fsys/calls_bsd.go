//go:build darwin || freebsd

package fsys

import "golang.org/x/sys/unix"

// systemCalls are those that other systems and file systems lack.
type systemCalls struct {
	procFD          string
	exclusiveRename func(dirfd int, oldName, newName string) error
	hardLink        func(oldDir int, oldName string, newDir int, newName string, flags int) error
}

var system = systemCalls{
	procFD:          "/proc/self/fd/",
	exclusiveRename: renameNoReplace,
	hardLink:        unix.Linkat,
}
