package extsort

import (
	"errors"
	"os"
)

// TempFile makes a Spill in the directory of the system for temporary files. It has no name where
// the system can remove the name of an open file; elsewhere Close removes it.
func TempFile() (Spill, error) {
	f, err := os.CreateTemp("", "sealift-sort-")
	if err != nil {
		return nil, err
	}
	if os.Remove(f.Name()) == nil {
		return f, nil
	}
	return named{f}, nil
}

type named struct{ *os.File }

func (n named) Close() error { return errors.Join(n.File.Close(), os.Remove(n.Name())) }
