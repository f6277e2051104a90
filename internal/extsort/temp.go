package extsort

import (
	"errors"
	"fmt"
	"os"
	"runtime"
)

// TempFile makes a Spill in the directory of the system for temporary files. It has no name where
// the system can remove the name of an open file; elsewhere Close removes it. The error names the
// directory, and the variable that chooses it.
func TempFile() (Spill, error) {
	f, err := os.CreateTemp("", "sealift-sort-")
	if err != nil {
		variable := "TMPDIR"
		if runtime.GOOS == "windows" {
			variable = "TMP"
		}
		if e, ok := errors.AsType[*os.PathError](err); ok {
			err = e.Err // without the random name of the file
		}
		return nil, fmt.Errorf("the directory '%s' cannot be used for temporary files: %w; set %s to another", os.TempDir(), err, variable)
	}
	if os.Remove(f.Name()) == nil {
		return f, nil
	}
	return named{f}, nil
}

// CheckTemp returns the error of TempFile, for a command that needs a temporary file only after long
// work.
func CheckTemp() error {
	spill, err := TempFile()
	if err != nil {
		return err
	}
	return spill.Close()
}

type named struct{ *os.File }

func (n named) Close() error { return errors.Join(n.File.Close(), os.Remove(n.Name())) }
