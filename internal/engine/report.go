package engine

import "time"

// EventKind says what an Event tells.
type EventKind uint8

// The kinds of events.
const (
	EventCopied     EventKind = iota // an entry was created or replaced (Action says which)
	EventSkipped                     // an entry was up to date, or policy "never"
	EventConflict                    // an entry was left alone; Err says why, Hint how to change that
	EventFailed                      // Err is a *failure.FileError
	EventMismatch                    // content is not what a digest promised; Err is a *failure.FileError
	EventWarning                     // something less than asked for, said once a kind
	EventTargetLost                  // a destination is given up; Err says why
)

// Event is one thing worth telling while the copy runs.
type Event struct {
	Kind   EventKind
	Path   string // relative to the source's root, raw bytes
	Target string // the destination as the user named it; "" if the source or all
	Action string // EventCopied, EventSkipped: "create", "replace", "link", "up to date", "metadata", "kept"
	Bytes  int64  // size of a copied file
	Err    error  // EventFailed: *failure.FileError; EventConflict, EventWarning, EventTargetLost: the text
	Hint   string // EventConflict: the name of the policy that would replace it, "" if none would
}

// Summary is the account of a finished run.
type Summary struct {
	Files       int64 // regular files copied, hard links to them included
	Directories int64 // directories made, the root aside
	Links       int64 // symbolic links copied
	Specials    int64 // fifos, sockets and device nodes copied
	HardLinks   int64 // names linked to a file that was copied under another
	Bytes       int64 // bytes of the files copied, once however many destinations
	Skipped     int64 // entries that were up to date or left alone by policy "never"
	Conflicts   int64
	Mismatches  int64 // files that are not what a digest promised, or absent with SourceManifestStrict
	Errors      int64 // failures reported, lost destinations included
	Warnings    int64
	// What an interrupted run had done already: files that were not read again, and
	// bytes, those of files that were continued in the middle included.
	ResumedFiles int64
	ResumedBytes int64
	Elapsed      time.Duration
	DryRun       bool
	Targets      []TargetSummary
}

// TargetSummary is the part of a Summary that concerns one destination.
type TargetSummary struct {
	Path      string // as the user named it
	Lost      error  // why it was given up, nil if it was not
	Manifests []ManifestSummary
	Verified  int64 // files read back and found equal
	Cached    int64 // of those, how many perhaps came from memory: there is no device, or none that can be told
}

// ManifestSummary describes one manifest written.
type ManifestSummary struct {
	Path      string // as a user would write it: the destination and the manifest's name
	Algorithm string
	Lines     int
	SHA256    string // of the manifest itself, hexadecimal
}
