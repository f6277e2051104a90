package cli

import (
	"github.com/seed65876f4f/sealift/internal/stream"
)

// streamOutcome is the outcome of stream.
type streamOutcome struct {
	headJSON
	verdict
	Complete bool `json:"complete"` // Whether the input was read as far as was asked for.
	// The bytes written to the output that has most of them.
	amountJSON
	In       recordsJSON        `json:"in"`       // The blocks of the input.
	Outputs  []streamOutputJSON `json:"outputs"`  // The outputs, in the order of the command line.
	Digests  []digestJSON       `json:"digests"`  // One for each hash of --hash, in that order; empty if the input was not read completely.
	Manifest *streamManifest    `json:"manifest"` // The manifest that was written; null if none was.
	// Inputs and outputs that failed, and a manifest that could not be written.
	endJSON

	s *stream.Summary
}

// recordsJSON counts full and partial blocks, as dd does.
type recordsJSON struct {
	Full    int64 `json:"full_records"`    // Blocks of --block-size that were moved in full.
	Partial int64 `json:"partial_records"` // Blocks that were moved in part.
}

type streamOutputJSON struct {
	// The output, as it was given.
	nameJSON
	recordsJSON
	Bytes int64 `json:"bytes"` // The bytes of the stream that were written, holes included.
}

type streamManifest struct {
	// The manifest, as it was given.
	nameJSON
	Lines int `json:"lines"` // The number of lines.
	// The number of lines of the previous manifest that were dropped, because their files are gone or were
	// changed.
	Dropped int `json:"dropped"`
}

func newStreamOutcome(o *stream.Options, s *stream.Summary, r *reporter, result outcome) *streamOutcome {
	d := &streamOutcome{
		headJSON: r.head(), verdict: r.verdict(words{"complete", "complete"}, words{"not_complete", "NOT COMPLETE"}),
		Complete: s.Complete, amountJSON: newAmountJSON(s.Bytes, s.Elapsed), In: recordsJSON(s.In),
		Outputs: []streamOutputJSON{}, Digests: digestsJSON(o.Hashes, s.Digests), endJSON: r.ending(result), s: s,
	}
	for _, out := range s.Outputs {
		d.Outputs = append(d.Outputs, streamOutputJSON{newNameJSON(out.Name), recordsJSON(out.Records), out.Bytes})
	}
	if s.Manifest != "" {
		d.Manifest = &streamManifest{newNameJSON(s.Manifest), s.Lines, s.Dropped}
	}
	d.close(result, r.where)
	return d
}

// logged implements document.
func (d *streamOutcome) logged() []any {
	return []any{"verdict", d.Name, "bytes", d.Bytes, "digests", d.Digests, "elapsed", d.s.Elapsed}
}

// summary implements document. The text of stream is that of dd, on standard error.
func (d *streamOutcome) summary() summary { return summary{} }
