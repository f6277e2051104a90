// Package event describes what happens during a copy. All packages that do a part of a copy report
// events, and the engine passes them to its caller.
package event

import (
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
)

// Kind says what an Event reports.
type Kind uint8

// The kinds of events.
const (
	Copied          Kind = iota // An entry was created or replaced; Action says which.
	Skipped                     // An entry was up to date, or left alone by policy "never".
	Conflict                    // An existing entry was left unchanged; Err has the reason, Hint or Next the way out.
	Failed                      // An operation failed; Err is a *failure.FileError.
	Mismatch                    // Content does not match its expected digest; Err is a *failure.FileError.
	Warning                     // The run does less than requested. Each kind of warning occurs once.
	DestinationLost             // A destination is dropped; Err says why.
)

// Event reports one thing that happened during the copy.
type Event struct {
	Kind    Kind
	Path    string       // path relative to the source's root, raw bytes
	Target  string       // destination as the user named it; "" if the event concerns the source or all of them
	Entry   fsys.Kind    // Copied, Skipped: kind of the entry in the source
	Action  string       // Copied, Skipped: "created", "replaced", "linked", "up to date", "metadata updated", "kept"
	Reason  string       // Copied, Skipped: reason, as text for people; "" if obvious
	Bytes   int64        // size of a copied file
	Digests hash.Digests // digests of the content, one for each of engine.Options.Hashes; nil if they are unknown
	Err     error        // Failed: *failure.FileError; Conflict, Warning, DestinationLost: the text
	Hint    string       // Conflict: the overwrite policy that would replace the entry, "" if none would
	Cause   string       // Failed, Mismatch, DestinationLost: the cause, as package outcome names it; "" if Err shows it
	Next    string       // Conflict: the user's next step if Hint is ""; "" if it is to move the existing entry away
}

// Entry is an entry of the source with its outcome at each destination, as engine.Options.Each
// receives it.
type Entry struct {
	Path    string // path relative to the source's root, raw bytes
	Kind    fsys.Kind
	Size    int64
	Mtime   fsys.Time
	Digests hash.Digests // digests in the order of engine.Options.Hashes; nil if not read and no line is kept
	// Outcomes has one element for each of engine.Options.Targets: Event.Action, "conflict", or "" if
	// the entry was not copied there.
	Outcomes []string
	// Listed says for each destination whether the manifests there list the file, so that --verify reads it.
	Listed []bool
}

// OfFile returns an event about a file. Both the event and its error contain the path and
// the destination.
func OfFile(kind Kind, path, target string, stage failure.Stage, err error) Event {
	return Event{Kind: kind, Path: path, Target: target, Err: &failure.FileError{Path: path, Target: target, Stage: stage, Err: err}}
}
