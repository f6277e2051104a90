package cli

import (
	"math"

	"github.com/seed65876f4f/sealift/internal/verify"
)

// verifyReportJSON is the account of a check for programs.
type verifyReportJSON struct {
	Schema    int                  `json:"schema"`
	Counts    verifyCountsJSON     `json:"counts"`
	Bytes     int64                `json:"bytes"`
	Seconds   float64              `json:"seconds"`
	Rate      float64              `json:"rate"` // bytes per second
	Manifests []verifyManifestJSON `json:"manifests"`
	Failures  []verifyFailureJSON  `json:"failures"`
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

// verifyFailureJSON says of what manifest a line is where a directory has
// several.
type verifyFailureJSON struct {
	failureJSON
	Manifest  string `json:"manifest,omitempty"`
	Algorithm string `json:"algorithm,omitempty"`
}

type unlistedJSON struct {
	nameJSON
	Target string `json:"target"`
}

func newVerifyReport(s *verify.Summary, c *checker, result outcome) verifyReportJSON {
	c.mu.Lock()
	defer c.mu.Unlock()
	report := verifyReportJSON{
		Schema: jsonSchema,
		Counts: verifyCountsJSON{
			Files:      s.Files,
			Matches:    s.Matches,
			Mismatches: s.Mismatches,
			Missing:    s.Missing,
			Errors:     c.errors,
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
		Failures:  []verifyFailureJSON{}, // [] and not null
		Unlisted:  append([]unlistedJSON{}, c.unlisted...),
		Warnings:  append([]warningJSON{}, c.warnings...),
		ExitCode:  result.code(),
	}
	manifests := map[string]int{} // by directory
	for _, m := range s.Manifests {
		manifests[m.Dir]++
		report.Manifests = append(report.Manifests, verifyManifestJSON{newNameJSON(m.Path), m.Dir, m.Algorithm, m.Lines})
	}
	for i, f := range c.failures {
		failed := verifyFailureJSON{failureJSON: f}
		if v := c.origins[i]; manifests[v.Dir] > 1 {
			failed.Manifest, failed.Algorithm = v.Manifest, string(v.Algorithm)
		}
		report.Failures = append(report.Failures, failed)
	}
	return report
}
