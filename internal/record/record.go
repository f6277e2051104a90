// Package record is the seam between a copy and what a copy writes about its files: line
// manifests, histories, bags and lists. The engine knows only this package. A Recorder is one
// kind of record in a run, and a Book is that record at one destination. The engine has a list of
// the recorders that the user has asked for, and asks all of them the same questions. So a
// feature that is off costs nothing, and a new kind of record is a new Recorder.
package record

import (
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/manifest"
)

// Book is a record at one destination. Several goroutines may call the methods up to
// BeforeChanges. One goroutine at a time calls the others. NoBook has methods for a record that
// does not need them.
type Book interface {
	// Claim says whether the entry of a path may be copied.
	Claim(path string) Claim
	// Kept returns the digests that earlier runs have recorded for a file.
	Kept(path string) Kept
	// Accepts returns an error if no file of this path may have content with these digests. The error
	// is a *Conflict, a *Mismatch, or ErrNoDigests, which asks for digests that the caller does not
	// know. changes is false if the file exists with that content, and is only recorded.
	Accepts(path string, digests hash.Digests, changes bool) error
	// Omits reports whether the record leaves out a file.
	Omits(path string) bool
	// BeforeChange is called before an entry gets a name at the destination.
	BeforeChange(path string) error
	// BeforeChanges is BeforeChange for any number of names.
	BeforeChanges() error

	// Account records an outcome.
	Account(Outcome) error
	// Finish writes the record, when all files are at the destination and durable.
	Finish(End) ([]Written, error)
	// NeedsJournal reports whether the next run needs the journal of this one to continue the record.
	NeedsJournal() bool
	// Close closes all files. It may be called again.
	Close()
}

// NoBook is a record of nothing.
type NoBook struct{}

// Claim implements Book.
func (NoBook) Claim(string) Claim { return Claim{} }

// Kept implements Book.
func (NoBook) Kept(string) Kept { return Kept{} }

// Accepts implements Book.
func (NoBook) Accepts(string, hash.Digests, bool) error { return nil }

// Omits implements Book.
func (NoBook) Omits(string) bool { return false }

// BeforeChange implements Book.
func (NoBook) BeforeChange(string) error { return nil }

// BeforeChanges implements Book.
func (NoBook) BeforeChanges() error { return nil }

// Account implements Book.
func (NoBook) Account(Outcome) error { return nil }

// NeedsJournal implements Book.
func (NoBook) NeedsJournal() bool { return false }

// Close implements Book.
func (NoBook) Close() {}

// Claim says whether the entry of a path may be copied. The zero value allows everything.
type Claim struct {
	Own     bool      // the run itself writes a record of this name, so the entry is not copied
	Guarded *Conflict // the path is that of a record which the run keeps; nil for any other path
	Sealed  *Conflict // the destination is complete, and no content in it changes; nil for any other destination
}

// Kept are the digests that earlier runs have recorded for a file.
type Kept struct {
	Digests hash.Digests // nil for each hash without one
	Line    Line         // for Outcome.Line
	// Complete: each hash has a digest, and a run has found that the file has them. So the file need not
	// be read.
	Complete bool
}

// Line is a line of the previous manifest; 0 for none.
type Line = manifest.LineNumber

// Outcome is the result of one entry at a destination.
type Outcome struct {
	Path              string
	Digests           hash.Digests // known digests of the file that is there; nil if the run knows none
	Size, Mtime       int64        // of the file with the digests; in bytes, and in seconds since 1970
	Created, Replaced bool         // by this run
	Failed            bool         // the failure was reported
	Resumed           bool         // an interrupted run has copied it, or found it equal
	Line              Line         // the digests are those that Kept returned with this line; 0 if they are not

	// Dropped: the path gets no line, because the file there has other content than the run has read.
	Dropped bool
	// Below: Path is a directory of the source, and its name at the destination leads to another
	// directory now. Earlier lines below it are dropped.
	Below bool
}

// drops reports whether the path of the outcome gets no line, not even an earlier one.
func (o *Outcome) drops() bool { return o.Dropped || o.Digests == nil && o.Replaced }

// End describes a finished copy at one destination.
type End struct {
	Complete  bool  // no entry of the source is missing
	Conflicts int64 // entries that the overwrite policy has left alone
	Err       error // why nothing can be written; usually nil
}

// Written describes one file that a Book has written, or found unchanged.
type Written struct {
	Path      string // as a user would write it
	Algorithm string
	Lines     int
	Dropped   int    // lines of an earlier run for files that are gone or were replaced
	SHA256    string // of the file, hexadecimal

	// Generation: it is one of an ASC MHL history, and Lines is the number of its files.
	Generation bool
}

// Count sets what the writing of a manifest has returned.
func (w *Written) Count(n manifest.Counts, digest string) {
	w.Lines, w.Dropped, w.SHA256 = n.Lines, n.Dropped, digest
}
