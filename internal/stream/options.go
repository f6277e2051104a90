package stream

import (
	"math"
	"os"
	"time"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/pipe"
)

// DefaultBlockSize is the default size of a block, in bytes, the same as for copy. It affects
// only counting, not the size of buffers.
const DefaultBlockSize = 128 << 10

// Options describe the input, the outputs, and how to copy.
type Options struct {
	Input   string   // name that the user gave; "-" for Stdin
	Outputs []string // names that the user gave; "-" for Stdout; at least one
	Stdin   *os.File
	Stdout  *os.File

	FS *fsys.FS // nil for the real file system; tests inject others

	BlockSize int64   // bytes
	Count     *Amount // how much to copy; nil for all
	Skip      Amount  // how much of the input to leave out at its beginning
	Seek      Amount  // offset of the first byte in the outputs

	NoTruncate bool // keep the content of an output after the end of the stream
	Sparse     bool // make holes of zeros
	// AllowUnmounted: outputs may be where a volume is mounted usually, and none is.
	AllowUnmounted bool
	Unsynced       bool // do not flush outputs to their devices
	Cache          pipe.CacheMode

	Hashes   []hash.Algorithm
	Manifest string // path of the file to write, as the user named it; see catalog.File; "" for none

	BytesPerSecond int64 // 0 for no limit

	// Report receives failures and warnings as they happen, from several goroutines. It may be
	// nil.
	Report func(Event)
}

// Event is a failure or a warning. The Err of a failure that concerns a name is a
// *failure.FileError.
type Event struct {
	Warning bool
	Err     error
}

// Amount is a length that was given in blocks or in bytes.
type Amount struct {
	N     int64
	Bytes bool
}

// in returns the amount in bytes. ok is false if it does not fit into 64 bits.
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

// Summary has the results of a run.
type Summary struct {
	In       Records
	Outputs  []Written
	Bytes    int64 // number of bytes of the output that got the most
	Elapsed  time.Duration
	Complete bool // true if the input was read to its end, or to Options.Count
	Digests  hash.Digests
	Errors   int64  // number of reported errors
	Manifest string // path as the user named it; "" if none was written
	Lines    int    // number of lines of the manifest
	Dropped  int    // lines of the previous manifest for files that are gone or were changed
}

// Written describes how much an output got.
type Written struct {
	Name    string // name that the user gave
	Records Records
	Bytes   int64
}
