package engine

import (
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
	Created  int64 `json:"created"`
	Replaced int64 `json:"replaced"`
	Updated  int64 `json:"metadata_updated"` // entries with equal content and updated metadata
	UpToDate int64 `json:"up_to_date"`
	Kept     int64 `json:"kept"` // left alone by policy "never", or because the destination cannot store that kind of entry
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
	Files        int64 `json:"files"`
	Bytes        int64 `json:"bytes"`         // bytes of these files, without those that an interrupted run had written
	ResumedFiles int64 `json:"resumed_files"` // files of an interrupted run that were not read again
	ResumedBytes int64 `json:"resumed_bytes"` // bytes of ResumedFiles, and of the parts of files that were continued
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
	Files       int64 `json:"files"`       // regular files copied, hard links to them included
	Directories int64 `json:"directories"` // directories created, without the root
	Links       int64 `json:"links"`       // symbolic links copied
	HardLinks   int64 `json:"hard_links"`  // names linked to a file that was copied under another name
	Specials    int64 `json:"specials"`    // fifos, sockets and device nodes copied
	Skipped     int64 `json:"skipped"`     // entries other than directories that were not copied: updated, up to date or kept
	Conflicts   int64 `json:"conflicts"`
	Mismatches  int64 `json:"mismatches"` // files that do not match an expected digest, or are listed in the source and absent
	Errors      int64 `json:"errors"`     // failures reported, lost destinations included
	Warnings    int64 `json:"warnings"`
	LeftOut     int64 `json:"left_out"` // entries that filters leave out; a directory that is not searched counts once
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
	ReadBack     time.Duration // the part of Elapsed in which destinations were read back
	DryRun       bool
	Targets      []TargetSummary
	Shares       []Share // the time, divided by package timing among the places that the run waited for; none after a short run
	Limit        Share   // the largest share; for this comparison, all destinations together may count as one place
}

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
	Counts   Counts `json:"counts"` // entries by their outcome here
	Copied          // regular files written here
	Present  int64  `json:"present"`                // regular files that equal the source, copied by this run or earlier
	Ignored  int64  `json:"ignored"`                // files of Present that ignore patterns exclude from the history
	Verified int64  `json:"verified"`               // files that were read back and are equal
	Cached   int64  `json:"verified_through_cache"` // files of Verified that the run perhaps read from memory instead of a device

	Conflicts int64 `json:"conflicts"` // entries left alone here
	Failures  int64 `json:"failures"`  // failures and mismatches that concern this destination alone, and its loss
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
}

// summarize returns the summary of the destination, without its manifests. The caller may use the
// data of the collector.
func (t *target) summarize(at *collected) TargetSummary {
	s := TargetSummary{
		DestinationCounts: DestinationCounts{Counts: at.Counts, Copied: at.Copied, Present: at.present, Ignored: at.ignored, Verified: at.verified, Cached: at.cached, Conflicts: at.conflicts, Failures: at.failures},
		Path:              t.Given,
		Created:           t.Created,
		Left:              at.conflicting,
		Flushed:           at.flushed,
		ReadBack:          at.readBack,
		ReadBytes:         t.Progress.ReadBack.Bytes.Load(),
		Digests:           at.digests,
	}
	s.Lost = t.Lost()
	if t.Backups != nil {
		s.BackupDir, s.BackedUp = t.Backups.Shown, t.Backups.Kept.Load()
	}
	return s
}
