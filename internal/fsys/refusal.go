package fsys

import "errors"

// Refusal is the scope of a refused fast path (CreateClone, CopyRange), so that a tree costs
// one refused call and not one for each file.
type Refusal uint8

// The refusals. The refused call has neither moved nor changed anything, so the caller can use
// another way.
const (
	NotRefused  Refusal = iota // There is no error, or other ways to copy would return it, too.
	RefusedFile                // The system refuses this file only; it may accept the next one.
	RefusedPair                // The system refuses every file from the one device to the other.
)

// RefusalOf classifies an error of CreateClone or CopyRange.
func RefusalOf(err error) Refusal {
	var r *refusedError
	if errors.As(err, &r) {
		return r.reach
	}
	return NotRefused
}

// refusedError is a system error that means a refusal. Its meaning depends on the call and
// the file system, so it has both.
type refusedError struct {
	err   error
	reach Refusal
}

func (r *refusedError) Error() string { return r.err.Error() }

func (r *refusedError) Unwrap() error { return r.err }

// refused marks err as a refusal, unless reach is NotRefused.
func refused(err error, reach Refusal) error {
	if reach == NotRefused {
		return err
	}
	return &refusedError{err, reach}
}

// IgnoreRefusal returns nil if err means that the file system or this user cannot do the
// operation, such as changing the owner. Otherwise it returns err.
func IgnoreRefusal(err error) error {
	if Unsupported(err) || NotPermitted(err) {
		return nil
	}
	return err
}
