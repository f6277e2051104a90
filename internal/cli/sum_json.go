package cli

import (
	"slices"
	"strings"

	"github.com/seed65876f4f/sealift/internal/manifest"
	"github.com/seed65876f4f/sealift/internal/mhl"
	"github.com/seed65876f4f/sealift/internal/sum"
)

// sumJSON is the JSON output of sum.
type sumJSON struct {
	headJSON
	Counts sum.Counts `json:"counts"`
	amountJSON
	Files    []sumFileJSON    `json:"files"`      // files with their digests; empty with --manifest
	Manifest *sumManifestJSON `json:"manifest"`   // manifest; null if none was written
	List     *listJSON        `json:"media_list"` // media hash list; null without --mhl=classic
	History  *sumHistoryJSON  `json:"history"`    // history; null without --mhl
	Failures []failureJSON    `json:"failures"`
	Warnings []warningJSON    `json:"warnings"`
	ExitCode int              `json:"exit_code"`
}

type sumFileJSON struct {
	nameJSON
	Bytes   int64        `json:"bytes"`
	Digests []digestJSON `json:"digests"`
}

type digestJSON struct {
	Algorithm string `json:"algorithm"`
	Digest    string `json:"digest"`
}

type sumManifestJSON struct {
	nameJSON
	Lines   int    `json:"lines"`
	Dropped int    `json:"dropped"` // lines of the previous manifest for files that are gone
	SHA256  string `json:"sha256"`  // digest of the manifest file
}

// listJSON is a classic media hash list that this run has written.
type listJSON struct {
	nameJSON
	Files  int    `json:"files"`  // number of files that it lists
	SHA256 string `json:"sha256"` // digest of the list
}

type sumHistoryJSON struct {
	Mismatches  int64            `json:"mismatches"`
	Missing     int64            `json:"missing"`
	Renamed     int              `json:"renamed"`
	Ignored     int64            `json:"ignored"`
	Generations []generationJSON `json:"generations"`
}

// generationJSON is a generation of an ASC MHL history that this run has written.
type generationJSON struct {
	nameJSON
	Files  int    `json:"files"`  // number of files that it lists
	SHA256 string `json:"sha256"` // digest of the file
}

func newGenerationsJSON(written []mhl.Written) []generationJSON {
	list := []generationJSON{}
	for _, w := range written {
		list = append(list, generationJSON{newNameJSON(w.Path), w.Files, w.SHA256})
	}
	return list
}

// newSumJSON returns the JSON output of a run. It sorts listed.
func newSumJSON(o *sum.Options, s *sum.Summary, r *reporter, listed []manifest.Entry, result outcome) sumJSON {
	r.mu.Lock()
	defer r.mu.Unlock()
	report := sumJSON{
		headJSON:   r.head(),
		Counts:     s.Counts,
		amountJSON: newAmountJSON(s.Bytes, s.Elapsed),
		Files:      []sumFileJSON{},
		Failures:   list(r.mu.failures),
		Warnings:   list(r.mu.warnings),
		ExitCode:   result.code(),
	}
	report.Counts.Errors = r.mu.errors
	if s.Manifest != "" {
		report.Manifest = &sumManifestJSON{newNameJSON(s.Manifest), s.Lines, s.Dropped, s.SHA256}
	}
	if s.List != nil {
		report.List = &listJSON{newNameJSON(s.List.Path), s.List.Lines, s.List.SHA256}
	}
	if o.MHL != nil {
		report.History = &sumHistoryJSON{s.Mismatches, s.Missing, s.Renamed, s.Ignored, newGenerationsJSON(s.Generations)}
	}
	slices.SortFunc(listed, func(a, b manifest.Entry) int { return strings.Compare(a.Path, b.Path) })
	for _, e := range listed {
		report.Files = append(report.Files, sumFileJSON{newNameJSON(e.Path), e.Size, digestsJSON(o.Hashes, e.Digests)})
	}
	return report
}
