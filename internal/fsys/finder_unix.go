//go:build unix

package fsys

import (
	"errors"

	"golang.org/x/sys/unix"
)

func nameTooLong(err error) bool { return errors.Is(err, unix.ENAMETOOLONG) }
