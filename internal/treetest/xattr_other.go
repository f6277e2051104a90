//go:build unix && !linux

package treetest

import (
	"errors"
	"os"
	"syscall"
)

func setXattr(string, string, string) error { return errors.ErrUnsupported }

func mknod(path string, mode uint32, device uint64) error {
	if mode&syscall.S_IFMT == syscall.S_IFIFO {
		return syscall.Mkfifo(path, mode&0o777)
	}
	return &os.PathError{Op: "mknod", Path: path, Err: errors.ErrUnsupported}
}

func (c *comparison) xattrs(string, string, [2]*os.Root) {}
