package cli

import (
	"github.com/seed65876f4f/sealift/internal/engine"
)

// copyJSON is the JSON output of copy.
type copyJSON struct {
	headJSON
	Source nameJSON       `json:"source"`
	DryRun bool           `json:"dry_run"`
	Counts copyCountsJSON `json:"counts"`
	amountJSON
	ResumedFiles int64          `json:"resumed_files"`      // files that an interrupted run had copied, not read again
	ResumedBytes int64          `json:"resumed_bytes"`      // bytes of these files, and of parts of others that were already copied
	Reserved     *reservedJSON  `json:"reserved,omitempty"` // counts of the source; nil for a merge
	Targets      []targetJSON   `json:"destinations"`
	Failures     []failureJSON  `json:"failures"`
	Conflicts    []conflictJSON `json:"conflicts"`
	Warnings     []warningJSON  `json:"warnings"`
	Limit        *shareJSON     `json:"limit"` // the limit of the run, or null
	ExitCode     int            `json:"exit_code"`
}

type copyCountsJSON struct {
	countsJSON
	LeftOut int64 `json:"left_out"` // entries that filters leave out; a directory that is not searched counts once
}

// reservedJSON counts the journals, markers and temporaries in the source, which no copy gets.
type reservedJSON struct {
	Count int64      `json:"count"`
	Paths []nameJSON `json:"paths"` // the first paths
}

type countsJSON struct {
	entriesJSON
	Files       int64 `json:"files"`
	Directories int64 `json:"directories"`
	Links       int64 `json:"links"`
	HardLinks   int64 `json:"hard_links"`
	Specials    int64 `json:"specials"`
	Skipped     int64 `json:"skipped"`
	Conflicts   int64 `json:"conflicts"`
	Mismatches  int64 `json:"mismatches"`
	Errors      int64 `json:"errors"`
	Warnings    int64 `json:"warnings"`
}

func newCountsJSON(s *engine.Summary, mismatches, errors int64) countsJSON {
	return countsJSON{
		entriesJSON: entriesJSON(s.Counts),
		Files:       s.Files,
		Directories: s.Directories,
		Links:       s.Links,
		HardLinks:   s.HardLinks,
		Specials:    s.Specials,
		Skipped:     s.Skipped,
		Conflicts:   s.Conflicts,
		Mismatches:  mismatches,
		Errors:      errors,
		Warnings:    s.Warnings,
	}
}

// entriesJSON counts the entries of the source by their outcome.
type entriesJSON struct {
	Created  int64 `json:"created"`
	Replaced int64 `json:"replaced"`
	Updated  int64 `json:"metadata_updated"`
	UpToDate int64 `json:"up_to_date"`
	Kept     int64 `json:"kept"`
}

type targetJSON struct {
	nameJSON
	Volume volumeJSON  `json:"volume"`
	Counts entriesJSON `json:"counts"`
	copiedJSON
	Present   int64          `json:"present"`
	Missing   *int64         `json:"missing"`   // number of missing files; null if the source was not counted to its end
	Conflicts int64          `json:"conflicts"` // conflicts of this destination
	Failures  int64          `json:"failures"`  // failures that concern this destination alone
	Lost      *string        `json:"dropped"`   // reason why the destination was dropped, or null
	Manifests []manifestJSON `json:"manifests"`

	Generations []generationJSON `json:"generations"`            // generations of --mhl
	Ignored     int64            `json:"ignored"`                // files that the ignore patterns leave out of the history
	Backup      *backupJSON      `json:"backup"`                 // replaced files; null without --backup-dir
	Verified    int64            `json:"verified"`               // number of files read back
	Cached      int64            `json:"verified_through_cache"` // number of these files that perhaps came from memory
}

// copiedJSON counts regular files at one destination.
type copiedJSON struct {
	Files        int64 `json:"files"`
	Bytes        int64 `json:"bytes"`
	ResumedFiles int64 `json:"resumed_files"`
	ResumedBytes int64 `json:"resumed_bytes"`
}

type manifestJSON struct {
	nameJSON
	Algorithm string `json:"algorithm"`
	Lines     int    `json:"lines"`
	Dropped   int    `json:"dropped"` // lines of an earlier run for files that are gone or were replaced
	SHA256    string `json:"sha256"`  // digest of the manifest file; "" if no line was left and the manifest was removed
}

// backupJSON is the backup directory, with the number of replaced files that it keeps.
type backupJSON struct {
	nameJSON
	Files int64 `json:"files"`
}

type conflictJSON struct {
	nameJSON
	whereJSON
	Error string `json:"error"`
	Hint  string `json:"hint,omitempty"`
}

func newCopyJSON(s *engine.Summary, r *copyReporter, result outcome) copyJSON {
	r.mu.Lock()
	defer r.mu.Unlock()
	report := copyJSON{
		headJSON:     r.head(),
		Source:       newNameJSON(r.flags.options.Source),
		DryRun:       s.DryRun,
		Counts:       copyCountsJSON{newCountsJSON(s, r.mu.mismatches, r.mu.errors), s.LeftOut},
		amountJSON:   newAmountJSON(s.Bytes, s.Elapsed),
		ResumedFiles: s.ResumedFiles,
		ResumedBytes: s.ResumedBytes,
		Targets:      []targetJSON{},
		Failures:     list(r.mu.failures),
		Conflicts:    list(r.mu.conflicts),
		Warnings:     list(r.mu.warnings),
		ExitCode:     result.code(),
	}
	report.Reserved = &reservedJSON{s.Reserved, []nameJSON{}}
	for _, path := range s.ReservedAt {
		report.Reserved.Paths = append(report.Reserved.Paths, newNameJSON(path))
	}
	report.Limit = newLimitJSON(s)
	for _, t := range s.Targets {
		target := targetJSON{
			nameJSON:   newNameJSON(t.Path),
			Volume:     newVolumeJSON(r.volumes.at(t.Path)),
			Counts:     entriesJSON(t.Counts),
			copiedJSON: copiedJSON(t.Copied),
			Present:    t.Present,
			Manifests:  []manifestJSON{}, Generations: []generationJSON{},
			Ignored:  t.Ignored,
			Verified: t.Verified,
			Cached:   t.Cached,
		}
		if s.Total >= 0 {
			target.Missing = new(s.Total - t.Present - t.Left)
		}
		for _, c := range report.Conflicts {
			if *c.Destination == t.Path {
				target.Conflicts++
			}
		}
		for _, f := range report.Failures {
			if f.target == t.Path {
				target.Failures++
			}
		}
		if t.Lost != nil {
			target.Lost = new(t.Lost.Error())
		}
		if t.BackupDir != "" {
			target.Backup = &backupJSON{newNameJSON(t.BackupDir), t.BackedUp}
		}
		for _, m := range t.Manifests {
			if m.Generation {
				target.Generations = append(target.Generations, generationJSON{newNameJSON(m.Path), m.Lines, m.SHA256})
				continue
			}
			target.Manifests = append(target.Manifests, manifestJSON{newNameJSON(m.Path), m.Algorithm, m.Lines, m.Dropped, m.SHA256})
		}
		report.Targets = append(report.Targets, target)
	}
	return report
}
