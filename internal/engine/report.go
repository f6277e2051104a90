package engine

import (
	"time"

	"github.com/seed65876f4f/sealift/internal/catalog"
	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/timing"
)

// EventKind says what an Event reports.
type EventKind uint8

// The kinds of events.
const (
	EventCopied     EventKind = iota // an entry was created or replaced (Action says which)
	EventSkipped                     // an entry was up to date, or policy "never"
	EventConflict                    // an entry was left alone; Err says why, Hint how to change that
	EventFailed                      // Err is a *failure.FileError
	EventMismatch                    // content is not what a digest promised; Err is a *failure.FileError
	EventWarning                     // something less than asked for, said once a kind
	EventTargetLost                  // a destination is dropped; Err says why
)

// Event is something that is reported while the copy runs.
type Event struct {
	Kind    EventKind
	Path    string       // relative to the source's root, raw bytes
	Target  string       // the destination as the user named it; "" if the source or all
	Entry   fsys.Kind    // EventCopied, EventSkipped: what it is in the source
	Action  string       // EventCopied, EventSkipped: "created", "replaced", "linked", "up to date", "metadata", "kept"
	Reason  string       // EventCopied, EventSkipped: for people; "" where it is plain
	Bytes   int64        // size of a copied file
	Digests hash.Digests // of the file's content, one for each of Options.Hashes; nil if they are unknown
	Err     error        // EventFailed: *failure.FileError; EventConflict, EventWarning, EventTargetLost: the text
	Hint    string       // EventConflict: the name of the policy that would replace it, "" if none would
	Next    string       // EventConflict: what the user can do where no policy helps, "" for moving away what is there
}

// Entry is an entry of the source with its outcome at each destination.
type Entry struct {
	Path    string // relative to the source's root, raw bytes
	Kind    fsys.Kind
	Size    int64
	Mtime   fsys.Time
	Digests hash.Digests // one for each of Options.Hashes; nil if the content was not read and no line is kept
	// Outcomes has Event.Action for each of Options.Targets, "conflict", or "" if the entry
	// was not copied there.
	Outcomes []string
}

// fileEvent is an event about a file that is named in both the event and its error.
func fileEvent(kind EventKind, path, target string, stage failure.Stage, err error) Event {
	return Event{Kind: kind, Path: path, Target: target, Err: &failure.FileError{Path: path, Target: target, Stage: stage, Err: err}}
}

// Counts are the entries of the source at one destination by what happened to them. An
// existing directory counts only where its metadata was updated.
type Counts struct {
	Created  int64
	Replaced int64
	Updated  int64 // equal, and metadata brought up to date
	UpToDate int64
	Kept     int64 // left alone by policy "never", or because the destination cannot hold them
}

// add counts what happened to an entry at one destination.
func (c *Counts) add(t targetResult) {
	switch {
	case t.done == outCreated, t.done == outLinked && !t.existed:
		c.Created++
	case t.done == outReplaced, t.done == outLinked:
		c.Replaced++
	case t.done == outRefreshed:
		c.Updated++
	case t.done == outUpToDate:
		c.UpToDate++
	case t.done == outLeft:
		c.Kept++
	}
}

// addEntry counts an entry once, by the destination where most happened to it.
func (c *Counts) addEntry(at Counts) {
	switch {
	case at.Created > 0:
		c.Created++
	case at.Replaced > 0:
		c.Replaced++
	case at.Updated > 0:
		c.Updated++
	case at.UpToDate > 0:
		c.UpToDate++
	case at.Kept > 0:
		c.Kept++
	}
}

// Copied are the regular files that a run has written to one destination, and those that
// an interrupted run had done there already.
type Copied struct {
	Files        int64
	Bytes        int64 // of these files, without those that an interrupted run had written
	ResumedFiles int64 // that were not read again
	ResumedBytes int64 // of these files, and of the parts of others
}

// add counts an entry at one destination.
func (c *Copied) add(f *result, t targetResult) {
	switch {
	case f.kind != fsys.Regular:
	case t.done == outCreated, t.done == outReplaced:
		c.Files++
		c.Bytes = counters.Plus(c.Bytes, f.size-f.resumed)
		c.ResumedBytes += f.resumed
	case t.known:
		c.ResumedFiles++
		c.ResumedBytes += f.size
	}
}

// Summary is the account of a finished run.
type Summary struct {
	Counts            // each entry once, by the destination where most happened to it
	Files       int64 // regular files copied, hard links to them included
	Directories int64 // directories made, the root aside
	Links       int64 // symbolic links copied
	Specials    int64 // fifos, sockets and device nodes copied
	HardLinks   int64 // names linked to a file that was copied under another
	Bytes       int64 // bytes of the files copied, once however many destinations, without ResumedBytes
	Skipped     int64 // entries that were not copied: updated, up to date or kept; no directories
	Conflicts   int64
	Mismatches  int64 // files that are not what a digest promised, or absent with SourceManifestStrict
	Total       int64 // regular files in the source, or -1 if the run ended before all of them were counted
	Errors      int64 // failures reported, lost destinations included
	Warnings    int64
	// What an interrupted run had done already: files that were not read again, and
	// bytes, those of files that were continued in the middle included.
	ResumedFiles int64
	ResumedBytes int64
	Elapsed      time.Duration
	DryRun       bool
	Targets      []TargetSummary
	Stages       []StageSummary // where the time went; work before waiting
	Shares       []Share        // what the run has waited for, as package timing divides its time
	Limit        Share          // that of which it was most; several destinations may be one
}

// StageSummary is what a run has spent with one thing at one place.
type StageSummary struct {
	Stage      timing.Kind
	Place      string        // "source", "cpu", "destination", "limit" (one that was asked for), or "nobody"
	Target     string        // the destination as the user named it, "" elsewhere
	Time       time.Duration // of all goroutines together, which can be more than the wall time
	Bytes      int64
	Operations int64
}

// Share is how much of its time a run has waited for a place.
type Share struct {
	Place  string  // as in StageSummary; "" where nothing was waited for
	Target string  // the destination as the user named it; "" elsewhere, and where several are meant
	Share  float64 // of the wall time, from 0 to 1
}

// summarizeTimes fills in where the time went, when all clocks have stopped.
func (r *run) summarizeTimes() {
	s := r.summary
	for _, l := range r.sheet.Intervals() {
		place, target := r.placeOf(l.Place)
		s.Stages = append(s.Stages, StageSummary{l.Kind, place, target, l.Time, l.Bytes, l.Operations})
	}
	share := func(p timing.Place, d time.Duration) Share {
		place, target := r.placeOf(p)
		return Share{place, target, min(d.Seconds()/s.Elapsed.Seconds(), 1)}
	}
	for p, d := range r.sheet.Shares() {
		if d > 0 {
			s.Shares = append(s.Shares, share(timing.Place(p), d))
		}
	}
	if who, all, d := r.sheet.Limit(); d > 0 {
		if s.Limit = share(who, d); all {
			s.Limit.Target = ""
		}
	}
}

func (r *run) placeOf(p timing.Place) (place, target string) {
	if i, ok := p.Destination(); ok {
		return "destination", r.targets[i].Given
	}
	return p.String(), ""
}

// TargetSummary is the part of a Summary that concerns one destination.
type TargetSummary struct {
	Path      string // as the user named it
	Counts    Counts
	Copied    Copied
	Created   bool  // by this run: there was no such directory
	Lost      error // why it was dropped, nil if it was not
	Manifests []catalog.Written
	Present   int64        // regular files that are there as in the source, copied by this run or earlier
	Left      int64        // regular files that are conflicts
	Ignored   int64        // of Present, files that ignore patterns leave out of the history
	Digests   hash.Digests // of the file, in a copy of a single file; one for each of Options.Hashes
	Verified  int64        // files read back and found equal
	BackupDir string       // where replaced files are kept; "" if none are
	BackedUp  int64        // of them
	Cached    int64        // of those, how many perhaps came from memory: there is no device, or it is unknown
}
