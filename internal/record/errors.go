package record

import "errors"

// Conflict says why a run leaves an entry of the destination alone.
type Conflict struct {
	Why  string
	Next string // the user's next step
}

func (c *Conflict) Error() string { return c.Why }

// Mismatch means that the content of a file is not the expected one.
type Mismatch struct{ Err error }

func (m *Mismatch) Error() string { return m.Err.Error() }
func (m *Mismatch) Unwrap() error { return m.Err }

// ErrNoDigests means that Accepts cannot answer without digests.
var ErrNoDigests = errors.New("the digests are not known")
