// Package sum hashes trees and writes the lines of their manifest.
package sum

import (
	"context"
	"io"
	"time"

	"github.com/seed65876f4f/sealift/internal/filter"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/tally"
)

// Options say what to hash, and how to write it.
type Options struct {
	Paths  []string         // directories and files as the user named them, "-" for Stdin; at least one
	Hashes []hash.Algorithm // at least one; several need Tag
	Tag    bool             // lines of BSD's style, with the algorithm
	Zero   bool             // lines end in NUL, names are not escaped

	Stdin    io.Reader
	Out      io.Writer // gets the lines if Manifest is ""
	Manifest string    // the file to write, as the user named it; complete or not there at all

	Filter        *filter.List // nil for everything
	Only          *filter.Only // nil for everything
	OneFileSystem bool

	Workers int // files under way at once; 0 for a number that suits the machine

	// Report receives what is worth telling while it happens, from one goroutine
	// at a time. May be nil.
	Report func(Event)
}

// Event is a failure (Err is a *failure.FileError) or a warning.
type Event struct {
	Warning bool
	Path    string // as it would be listed
	Err     error
}

// Summary is the account of a run.
type Summary struct {
	Files    int64 // hashed
	Bytes    int64
	Errors   int64
	Warnings int64
	Elapsed  time.Duration
	Manifest string // as the user named it, "" if there is none
	Lines    int
	SHA256   string // of the manifest itself, hexadecimal; "" if there is none
}

// Run hashes as o says and reports through o.Report and c. The error is a
// *failure.RefusedError if nothing was done, the cause of ctx's end if the run
// was stopped, or that of writing the lines; the summary tells of everything
// else that went wrong. When Run returns, all its goroutines have ended.
func Run(ctx context.Context, o *Options, c *tally.Counters) (*Summary, error) {
	panic("under construction")
}
