package cli

import (
	"github.com/seed65876f4f/sealift/internal/stream"
)

// streamOutcome is the outcome of stream.
type streamOutcome struct {
	headJSON
	verdict
	Complete   bool               `json:"complete"` // true if the input was read as far as requested
	amountJSON                    // amounts of the output that has most bytes
	In         recordsJSON        `json:"in"`
	Outputs    []streamOutputJSON `json:"outputs"`
	Digests    []digestJSON       `json:"digests"`
	Manifest   *streamManifest    `json:"manifest"` // manifest; null if none was written
	endJSON

	s *stream.Summary
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
