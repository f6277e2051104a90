package engine

import (
	"cmp"
	"time"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	outcomes "github.com/seed65876f4f/sealift/internal/outcome"
	"github.com/seed65876f4f/sealift/internal/record"
	"github.com/seed65876f4f/sealift/internal/timing"
)

// Counts are numbers of entries by their outcome at one destination. An existing directory
// counts only if its metadata was updated. The result of a task has them, and the next type, as JSON.
type Counts struct {
	Created  int64 `json:"created"`          // Entries that did not exist at the destination, hard links included.
	Replaced int64 `json:"replaced"`         // Entries that replaced another one.
	Updated  int64 `json:"metadata_updated"` // Entries that were equal and got the source's metadata, existing directories included.
	UpToDate int64 `json:"up_to_date"`       // Entries that were equal, without directories.
	Kept     int64 `json:"kept"`             // Entries left alone by the policy never, or because the destination cannot hold them.
}

// add counts the outcome of an entry at one destination.
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

// addEntry counts an entry once, by its most significant outcome. at contains its outcomes at all
// destinations.
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

// Copied counts the regular files that a run wrote to one destination, and those that an
// interrupted run had already written there.
type Copied struct {
	Files int64 `json:"files"` // Regular files written at this destination, without hard links to them.
	Bytes int64 `json:"bytes"` // Size of these files, in bytes, without resumed_bytes.
	// Files that an interrupted run had copied to this destination, and that were not read again.
	ResumedFiles int64 `json:"resumed_files"`
	ResumedBytes int64 `json:"resumed_bytes"` // Size of these files, and of the parts of other files that were already copied, in bytes.
}

// add counts an entry at one destination.
func (c *Copied) add(f *result, t targetResult) {
	switch {
	case f.kind != fsys.Regular:
	case t.done == outCreated, t.done == outReplaced:
		c.Files++
		c.Bytes = counters.Plus(c.Bytes, f.size-f.resumed)
		c.ResumedBytes += f.resumed
	case t.Known:
		c.ResumedFiles++
		c.ResumedBytes += f.size
	}
}

// Totals count the entries of the source, with the names of the JSON output.
type Totals struct {
	Counts            // Each entry counts once, by its most significant outcome at any destination.
	Files       int64 `json:"files"`       // Regular files copied, hard links to them included.
	Directories int64 `json:"directories"` // Directories made, without the destination itself.
	Links       int64 `json:"links"`       // Symbolic links copied.
	HardLinks   int64 `json:"hard_links"`  // Names linked to a file that was copied under another name.
	Specials    int64 `json:"specials"`    // Fifos, sockets and device nodes copied.
	Skipped     int64 `json:"skipped"`     // Entries that were not copied: up to date, metadata updated or kept, without directories.
	Conflicts   int64 `json:"conflicts"`   // Names left alone by the policy: the length of conflicts.
	Mismatches  int64 `json:"mismatches"`  // Files whose content differs from the expected digest. The list failures has them.
	Errors      int64 `json:"errors"`      // Failures, and destinations dropped. The list failures has them.
	Warnings    int64 `json:"warnings"`    // Warnings.
	// Entries of the source that filters left out. A directory that was not searched counts once.
	LeftOut int64 `json:"left_out"`
}

// Summary is the result of a finished run.
type Summary struct {
	Totals     `json:"counts"`
	Bytes      int64           // bytes of the files copied, without ResumedBytes; a file counts once, also with several destinations
	Reserved   int64           // journals, markers and temporaries in the source, which no copy gets
	ReservedAt []string        // the first of their paths
	Total      int64           // regular files in the source, or -1 if the run ended before all of them were counted
	Causes     outcomes.Causes // of Errors, Mismatches and Conflicts
	// Work of an interrupted run that was not repeated: files that were not read again, and
	// bytes, including those of files that were continued.
	ResumedFiles int64
	ResumedBytes int64
	Elapsed      time.Duration
	ReadBack     time.Duration // the part of Elapsed in which destinations were read back, by at least one task of a merge
	DryRun       bool
	Targets      []TargetSummary
	Shares       []Share // the time, divided by package timing among the places that the run waited for; none after a short run
	Limit        Share   // the largest share; for this comparison, all destinations together may count as one place

	copying time.Duration // result of Copying in a merge
}

// Copying returns the time without reading back. That of a merge is the time in which at least one task was
// copying.
func (s *Summary) Copying() time.Duration { return cmp.Or(s.copying, s.Elapsed-s.ReadBack) }

// Share is the part of its wall time that a run has waited for one place.
type Share struct {
	Place  string  // the name of a timing.Place: `source`, `cpu`, `destination`, or `limit` (set by the user); "" if the run waited for none
	Target string  // the destination as the user named it; "" for other places and for several destinations
	Share  float64 // fraction of the wall time, from 0 to 1
}

// summarizeShares sets Shares and Limit of the summary.
func (r *completer) summarizeShares() {
	s := r.collector.summary
	for p, share := range r.sampler.Shares() {
		if share > 0 {
			place, target := r.placeOf(timing.Place(p))
			s.Shares = append(s.Shares, Share{place, target, share})
		}
	}
	if who, all, share := r.sampler.Limit(); share > 0 {
		place, target := r.placeOf(who)
		if all {
			target = ""
		}
		s.Limit = Share{place, target, share}
	}
}

// placeOf returns the name of a place, and the destination if it is one.
func (r *completer) placeOf(p timing.Place) (place, target string) {
	if i, ok := p.Destination(); ok {
		return "destination", r.targets[i].Given
	}
	return p.String(), ""
}

// DestinationCounts count entries at one destination, with the names of the JSON output.
type DestinationCounts struct {
	Counts Counts `json:"counts"` // Entries of the source by their outcome at this destination.
	Copied        // regular files written here
	// Regular files of the source that are at this destination now, copied in this run or earlier.
	Present int64 `json:"present"`
	// The number of files here that were copied and that ignore patterns leave out of the ASC MHL history.
	Ignored  int64 `json:"ignored"`
	Verified int64 `json:"verified"`               // Files that --verify has read back and found equal.
	Cached   int64 `json:"verified_through_cache"` // Of these, the files that perhaps came from memory and not from a device.

	Conflicts int64 `json:"conflicts"` // Conflicts at this destination. The list conflicts has them.
	Failures  int64 `json:"failures"`  // Failures that concern only this destination. The list failures has them.
}

// TargetSummary is the part of a Summary that concerns one destination.
type TargetSummary struct {
	Path string // path that the user named
	DestinationCounts
	Created   bool             // true if this run created the directory
	Lost      error            `json:"-"` // reason why it was dropped; nil if it was not
	Manifests []record.Written `json:"-"`
	Left      int64            // regular files that are conflicts
	Flushed   time.Duration    // time until everything copied was on the device; 0 if that is unknown
	ReadBack  time.Duration    // time of reading back
	ReadBytes int64            // bytes that were read back
	Digests   hash.Digests     // digests of a single file, one for each of Options.Hashes
	BackupDir string           // the directory that keeps replaced files; "" if there is none
	BackedUp  int64            // files in BackupDir that this run replaced

	PartialFiles, PartialBytes int64 // large files of which the beginning is kept for the next run, and the length of these parts
}

// summarize completes what the collector has counted at the destination. It sets no manifests.
func (t *target) summarize(s TargetSummary) TargetSummary {
	s.Path, s.Created, s.Lost = t.Given, t.Created, t.Lost()
	if t.Backups != nil {
		s.BackupDir, s.BackedUp = t.Backups.Shown, t.Backups.Kept.Load()
	}
	return s
}
