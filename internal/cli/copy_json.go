package cli

import (
	"github.com/seed65876f4f/sealift/internal/engine"
)

// copyJSON is the JSON output of copy.
type copyJSON struct {
	headJSON
	Source nameJSON      `json:"source"`
	DryRun bool          `json:"dry_run"`
	Counts engine.Totals `json:"counts"`
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

// reservedJSON counts the journals, markers and temporaries in the source, which no copy gets.
type reservedJSON struct {
	Count int64      `json:"count"`
	Paths []nameJSON `json:"paths"` // the first paths
}

// atDestinationJSON is the result at one destination.
type atDestinationJSON struct {
	nameJSON
	engine.DestinationCounts
	Dropped *string `json:"dropped"` // reason why the destination was dropped, or null
}

func newAtDestinationJSON(t *engine.TargetSummary) atDestinationJSON {
	at := atDestinationJSON{nameJSON: newNameJSON(t.Path), DestinationCounts: t.DestinationCounts}
	if t.Lost != nil {
		at.Dropped = new(t.Lost.Error())
	}
	return at
}

type targetJSON struct {
	atDestinationJSON
	Volume      volumeJSON       `json:"volume"`
	Missing     *int64           `json:"missing"`   // number of missing files; null if the source was not counted to its end
	Conflicts   int64            `json:"conflicts"` // conflicts of this destination
	Failures    int64            `json:"failures"`  // failures that concern this destination alone
	Manifests   []manifestJSON   `json:"manifests"`
	Generations []generationJSON `json:"generations"` // generations of --mhl
	Backup      *backupJSON      `json:"backup"`      // replaced files; null without --backup-dir
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
		Counts:       s.Totals,
		amountJSON:   newAmountJSON(s.Bytes, s.Elapsed),
		ResumedFiles: s.ResumedFiles,
		ResumedBytes: s.ResumedBytes,
		Targets:      []targetJSON{},
		Failures:     list(r.mu.failures),
		Conflicts:    list(r.mu.conflicts),
		Warnings:     list(r.mu.warnings),
		ExitCode:     result.code(),
	}
	report.Counts.Mismatches, report.Counts.Errors = r.mu.mismatches, r.mu.errors
	report.Reserved = &reservedJSON{s.Reserved, []nameJSON{}}
	for _, path := range s.ReservedAt {
		report.Reserved.Paths = append(report.Reserved.Paths, newNameJSON(path))
	}
	report.Limit = newLimitJSON(s)
	for _, t := range s.Targets {
		target := targetJSON{
			atDestinationJSON: newAtDestinationJSON(&t), Volume: newVolumeJSON(r.volumes.at(t.Path)),
			Manifests: []manifestJSON{}, Generations: []generationJSON{},
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
