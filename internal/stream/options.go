package stream

import (
	"math"
	"os"
	"time"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/pipe"
)

// DefaultBlockSize is that of copy, in bytes. Only counting depends on it: see
// unit.
const DefaultBlockSize = 128 << 10

// Options say what to copy where, and how.
type Options struct {
	Input   string   // as the user named it; "-" for Stdin
	Outputs []string // as the user named them; "-" for Stdout; at least one
	Stdin   *os.File
	Stdout  *os.File

	FS *fsys.FS // nil for the system's own; tests give others

	BlockSize int64   // bytes
	Count     *Amount // to copy; nil for all
	Skip      Amount  // of the input
	Seek      Amount  // in the outputs

	NoTruncate bool // what an output holds behind the stream stays
	Sparse     bool // zeros become holes
	Unsynced   bool // nothing is flushed to a device
	Cache      pipe.CacheMode

	Hashes   []hash.Algorithm
	Manifest string // the file to write, as the user named it; see catalog.File; "" for none

	BytesPerSecond int64 // 0 for no limit

	// Report receives what is worth telling while it happens, from several
	// goroutines. May be nil.
	Report func(Event)
}

// Event is a failure (Err is a *failure.FileError where a name is concerned) or a
// warning.
type Event struct {
	Warning bool
	Err     error
}

// Amount is a length that was given in blocks or in bytes.
type Amount struct {
	N     int64
	Bytes bool
}

// in returns the amount in bytes; not ok if 64 bits cannot count them.
func (a Amount) in(block int64) (n int64, ok bool) {
	if a.Bytes {
		return a.N, true
	}
	if a.N > math.MaxInt64/block {
		return 0, false
	}
	return a.N * block, true
}

// Records counts blocks, as dd does.
type Records struct {
	Full    int64
	Partial int64
}

// Summary is the account of a run.
type Summary struct {
	In       Records
	Outputs  []Written
	Bytes    int64 // written to the output that has most
	Elapsed  time.Duration
	Complete bool // the input was read as far as was asked for
	Digests  hash.Digests
	Errors   int64  // each was reported
	Manifest string // as the user named it; "" if none was written
	Lines    int    // of the manifest
	Dropped  int    // lines of the previous manifest for files that are gone or were changed
}

// Written is the account of an output.
type Written struct {
	Name    string // as the user named it
	Records Records
	Bytes   int64
}
