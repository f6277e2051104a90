package fsys

import (
	"errors"
	"slices"
	"syscall"
)

// is reports whether err is one of the codes.
func is(err error, codes ...syscall.Errno) bool {
	return slices.ContainsFunc(codes, func(code syscall.Errno) bool { return errors.Is(err, code) })
}
