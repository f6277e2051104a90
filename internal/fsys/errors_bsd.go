//go:build darwin || freebsd

package fsys

import (
	"errors"

	"golang.org/x/sys/unix"
)

// deviceGone reports whether err says that a disk was unplugged: "Device not
// configured", intro(2).
func deviceGone(err error) bool { return errors.Is(err, unix.ENXIO) }
