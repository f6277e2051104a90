// Package failure has the errors that every command reports in the same way: failures of
// single files, and refusals of the complete command.
package failure

import (
	"errors"
	"fmt"

	"github.com/seed65876f4f/sealift/internal/quote"
	"github.com/seed65876f4f/sealift/internal/units"
)

// Stage names the step of the work that failed.
type Stage string

// The stages, in the order of a file's life.
const (
	StageScan     Stage = "scan" // listing a source directory, reading the status of an entry
	StageOpen     Stage = "open" // opening the source
	StageRead     Stage = "read"
	StageCheck    Stage = "check"  // the source changed or vanished, names fold together, or a destination was moved
	StageCreate   Stage = "create" // creating a directory, link, special file or temporary
	StageWrite    Stage = "write"
	StageMetadata Stage = "metadata"
	StageSync     Stage = "sync"
	StageCommit   Stage = "commit" // giving the final name
	StageVerify   Stage = "verify" // reading back, checking against a digest
	StageManifest Stage = "manifest"
	StageJournal  Stage = "journal"
)

// Causes of a FileError that several packages report.
var (
	ErrVanished  = errors.New("it vanished after it was listed")
	ErrExchanged = errors.New("it was exchanged meanwhile")
)

// FileError is the only error type for a failure of a file. The code that knows the path
// creates it, once.
type FileError struct {
	Path   string // raw path relative to the source's root; "" for the root itself
	Target string // destination as the user named it; "" if the error concerns the source
	Stage  Stage
	Err    error
}

func (e *FileError) Error() string {
	s := quote.Name(e.Path)
	switch {
	case e.Path == "" && e.Target != "":
		s = quote.Name(e.Target)
	case e.Path == "":
		s = "the source's directory"
	case e.Target != "":
		s += " (to " + quote.Name(e.Target) + ")"
	}
	return fmt.Sprintf("%s: %s: %s", s, e.Stage, quote.Text(e.Err.Error()))
}

func (e *FileError) Unwrap() error { return e.Err }

// FullError is the error of a full device, with the space that the rest of the work needs and that is free, in
// bytes.
type FullError struct {
	Err          error
	Needed, Free int64
}

func (e *FullError) Error() string {
	return fmt.Sprintf("%s (needs %s, %s free)", e.Err, units.Size(e.Needed), units.Size(e.Free))
}

func (e *FullError) Unwrap() error { return e.Err }

// At adds the offset to an error of reading a file, in bytes from the beginning of the file.
func At(err error, off int64) error { return fmt.Errorf("%w at offset %d", err, off) }

// RefusedError means that a command has written nothing, because the request makes no sense or
// is dangerous.
type RefusedError struct{ Reason string }

func (e *RefusedError) Error() string { return e.Reason }

// Refuse returns a *RefusedError.
func Refuse(format string, args ...any) error {
	return &RefusedError{Reason: fmt.Sprintf(format, args...)}
}

// InStep adds the step that failed to an error, unless it is a refusal, which has a complete text.
func InStep(what string, err error) error {
	if err == nil || errors.As(err, new(*RefusedError)) {
		return err
	}
	return fmt.Errorf("%s: %w", what, err)
}
