//go:build !386 && !arm

package fsys

import "golang.org/x/sys/unix"

const sysUtimensat = unix.SYS_UTIMENSAT
