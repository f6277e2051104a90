package cli

import (
	"math"

	"github.com/seed65876f4f/sealift/internal/verify"
)

// verifyJSON is the account of a check for programs.
type verifyJSON struct {
	Schema    int                  `json:"schema"`
	Counts    verifyCountsJSON     `json:"counts"`
	Bytes     int64                `json:"bytes"`
	Seconds   float64              `json:"seconds"`
	Rate      float64              `json:"rate"` // bytes per second
	Manifests []verifyManifestJSON `json:"manifests"`
	Failures  []failureJSON        `json:"failures"`
	Unlisted  []unlistedJSON       `json:"unlisted"`
	Warnings  []warningJSON        `json:"warnings"`
	ExitCode  int                  `json:"exit_code"`
}

type verifyCountsJSON struct {
	Files      int64 `json:"files"`
	Matches    int64 `json:"matches"`
	Mismatches int64 `json:"mismatches"`
	Missing    int64 `json:"missing"`
	Errors     int64 `json:"errors"`
	Unlisted   int64 `json:"unlisted"`
	Incomplete int64 `json:"incomplete"`
	Malformed  int64 `json:"malformed"`
	Warnings   int64 `json:"warnings"`
	Cached     int64 `json:"verified_through_cache"` // perhaps read from memory, though the device was asked for
}

type verifyManifestJSON struct {
	nameJSON
	Target    string `json:"target"`    // the directory that it was used for
	Algorithm string `json:"algorithm"` // "" where each line says its own
	Lines     int64  `json:"lines"`
}

type unlistedJSON struct {
	nameJSON
	Target string `json:"target"`
}

func newVerifyJSON(s *verify.Summary, r *verifyReporter, result outcome) verifyJSON {
	r.mu.Lock()
	defer r.mu.Unlock()
	report := verifyJSON{
		Schema: jsonSchema,
		Counts: verifyCountsJSON{
			Files:      s.Files,
			Matches:    s.Matches,
			Mismatches: s.Mismatches,
			Missing:    s.Missing,
			Errors:     r.mu.errors,
			Unlisted:   s.Unlisted,
			Incomplete: s.Incomplete,
			Malformed:  s.Malformed,
			Warnings:   s.Warnings,
			Cached:     s.Cached,
		},
		Bytes:     s.Bytes,
		Seconds:   s.Elapsed.Seconds(),
		Rate:      math.Round(rate(s.Bytes, s.Elapsed)),
		Manifests: []verifyManifestJSON{},
		Failures:  list(r.mu.failures),
		Unlisted:  list(r.mu.unlisted),
		Warnings:  list(r.mu.warnings),
		ExitCode:  result.code(),
	}
	manifests := map[string]int{} // by directory
	for _, m := range s.Manifests {
		manifests[m.Dir]++
		report.Manifests = append(report.Manifests, verifyManifestJSON{newNameJSON(m.Path), m.Dir, m.Algorithm, m.Lines})
	}
	for i := range report.Failures {
		if f := &report.Failures[i]; manifests[f.Target] <= 1 {
			f.Manifest, f.Algorithm = "", ""
		}
	}
	return report
}
