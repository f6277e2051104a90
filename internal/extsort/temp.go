package extsort

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime"
)

// ErrTemporary means that a temporary file cannot be created or written.
var ErrTemporary = errors.New("temporary file")

// temporaryMemory is the number of bytes that a Spill of TempFile keeps in memory.
const temporaryMemory = 256 << 10

// TempFile makes a Spill that keeps a little data in memory. More data goes to a file in the
// directory of the system for temporary files, so that little data does not need that
// directory. The file has no name where the system can remove the name of an open file; elsewhere
// Close removes it. The error is always nil.
func TempFile() (Spill, error) { return &temporary{}, nil }

type temporary struct {
	held    []byte   // the data, as long as there is no file
	file    *os.File // file with the data; nil until there is more than fits in memory
	unnamed bool
}

func (t *temporary) Write(p []byte) (int, error) {
	if t.file == nil && len(t.held)+len(p) <= temporaryMemory {
		t.held = append(t.held, p...)
		return len(p), nil
	}
	if t.file == nil {
		if err := t.create(); err != nil {
			return 0, spillError(err)
		}
	}
	n, err := t.file.Write(p)
	return n, spillError(err)
}

// create makes the file and writes the data to it that is in memory.
func (t *temporary) create() error {
	f, err := createTemp()
	if err != nil {
		return err
	}
	t.file, t.unnamed = f, os.Remove(f.Name()) == nil
	_, err = f.Write(t.held)
	t.held = nil
	return err
}

// createTemp creates a file. The error names the directory, and the variable that chooses it.
func createTemp() (*os.File, error) {
	f, err := os.CreateTemp("", "sealift-sort-")
	if err != nil {
		if e, ok := errors.AsType[*os.PathError](err); ok {
			err = e.Err // the message leaves out the random name of the file
		}
		return nil, fmt.Errorf("%w: the directory '%s' cannot be used: %w; set %s to another", ErrTemporary, os.TempDir(), err, variable())
	}
	return f, nil
}

// CheckTemp returns an error if TempFile cannot keep much data. It is for a command that would
// notice that only after long work.
func CheckTemp() error {
	f, err := createTemp()
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// variable returns the name of the environment variable that chooses the directory.
func variable() string {
	if runtime.GOOS == "windows" {
		return "TMP"
	}
	return "TMPDIR"
}

func (t *temporary) ReadAt(p []byte, off int64) (int, error) {
	if t.file == nil {
		return bytes.NewReader(t.held).ReadAt(p, off)
	}
	return t.file.ReadAt(p, off)
}

func (t *temporary) Close() error {
	t.held = nil
	if t.file == nil {
		return nil
	}
	err := t.file.Close()
	if !t.unnamed {
		err = errors.Join(err, os.Remove(t.file.Name()))
	}
	return err
}

// spillError returns an error of a spill as an ErrTemporary.
func spillError(err error) error {
	if err == nil || errors.Is(err, ErrTemporary) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrTemporary, err)
}
