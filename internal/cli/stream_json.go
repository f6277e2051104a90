package cli

import (
	"github.com/seed65876f4f/sealift/internal/stream"
)

// streamJSON is the JSON output of stream.
type streamJSON struct {
	Schema     int                `json:"schema"`
	Complete   bool               `json:"complete"` // true if the input was read as far as requested
	amountJSON                    // amounts of the output that has most bytes
	In         recordsJSON        `json:"in"`
	Outputs    []streamOutputJSON `json:"outputs"`
	Digests    []digestJSON       `json:"digests"`
	Manifest   *streamManifest    `json:"manifest"` // manifest; null if none was written
	Failures   []failureJSON      `json:"failures"`
	Warnings   []warningJSON      `json:"warnings"`
	ExitCode   int                `json:"exit_code"`
}

// recordsJSON counts full and partial blocks, as dd does.
type recordsJSON struct {
	Full    int64 `json:"full_records"`
	Partial int64 `json:"partial_records"`
}

type streamOutputJSON struct {
	nameJSON
	recordsJSON
	Bytes int64 `json:"bytes"`
}

type streamManifest struct {
	nameJSON
	Lines   int `json:"lines"`
	Dropped int `json:"dropped"` // lines of the previous manifest for files that are gone or were changed
}

func newStreamJSON(o *stream.Options, s *stream.Summary, r *reporter, result outcome) streamJSON {
	r.mu.Lock()
	defer r.mu.Unlock()
	report := streamJSON{
		Schema:     jsonSchema,
		Complete:   s.Complete,
		amountJSON: newAmountJSON(s.Bytes, s.Elapsed),
		In:         recordsJSON(s.In),
		Outputs:    []streamOutputJSON{},
		Digests:    digestsJSON(o.Hashes, s.Digests),
		Failures:   list(r.mu.failures),
		Warnings:   list(r.mu.warnings),
		ExitCode:   result.code(),
	}
	for _, out := range s.Outputs {
		report.Outputs = append(report.Outputs, streamOutputJSON{newNameJSON(out.Name), recordsJSON(out.Records), out.Bytes})
	}
	if s.Manifest != "" {
		report.Manifest = &streamManifest{newNameJSON(s.Manifest), s.Lines, s.Dropped}
	}
	return report
}
