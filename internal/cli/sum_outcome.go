package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/seed65876f4f/sealift/internal/manifest"
	outcomes "github.com/seed65876f4f/sealift/internal/outcome"
	"github.com/seed65876f4f/sealift/internal/quote"
	"github.com/seed65876f4f/sealift/internal/record"
	"github.com/seed65876f4f/sealift/internal/sum"
)

// sumOutcome is the outcome of sum.
type sumOutcome struct {
	headJSON
	verdict
	Counts sum.Counts `json:"counts"` // How many there are of each kind.
	// Bytes that were read.
	amountJSON
	// Without --manifest, the files that were hashed, in the order of the bytes of their paths; else
	// empty.
	Files    []sumFileJSON    `json:"files"`
	Manifest *sumManifestJSON `json:"manifest"`   // The manifest that was written; null if none was.
	List     *generationJSON  `json:"media_list"` // The media hash list that --mhl=classic wrote; null if none was.
	History  *sumHistoryJSON  `json:"history"`    // The ASC MHL history that --mhl found and wrote; null without --mhl.
	// Files and directories that could not be read, and a manifest that could not be written.
	endJSON

	s *sum.Summary
}

type sumFileJSON struct {
	// The file, as a manifest would list it; - is standard input.
	nameJSON
	Bytes   int64        `json:"bytes"`   // Its size in bytes.
	Digests []digestJSON `json:"digests"` // One for each hash of --hash, in that order.
}

type digestJSON struct {
	Algorithm string `json:"algorithm"` // The hash. Others may be added.
	Digest    string `json:"digest"`    // The digest, as manifests write it.
}

type sumManifestJSON struct {
	// The manifest, as it was given.
	nameJSON
	Lines int `json:"lines"` // The number of lines.
	// The number of lines of the previous manifest that were dropped, because their files are gone.
	Dropped int    `json:"dropped"`
	SHA256  string `json:"sha256"` // The SHA-256 of the manifest itself, in hexadecimal.
}

type sumHistoryJSON struct {
	// Files whose content differs from the history. The history records them as failed, and failures lists
	// them, too.
	Mismatches int64 `json:"mismatches"`
	// Files and directories that the history lists and that do not exist. They are in failures as well.
	Missing int64 `json:"missing"`
	Renamed int   `json:"renamed"` // Files and directories whose earlier path is recorded.
	Ignored int64 `json:"ignored"` // Files that ignore patterns leave out. Files that --exclude leaves out are not counted.
	// The generations that were written: those of nested histories, the deepest first, and then that of
	// the directory.
	Generations []generationJSON `json:"generations"`
}

// generationJSON is a generation of an ASC MHL history, or a classic media hash list, that this run has written.
type generationJSON struct {
	// The generation or the list, beginning as the destination or the directory was given.
	nameJSON
	Files  int    `json:"files"`  // The number of files that it lists.
	SHA256 string `json:"sha256"` // The SHA-256 of the file itself, in hexadecimal.
}

// newSumOutcome returns the outcome of a run. It sorts listed.
func newSumOutcome(o *sum.Options, s *sum.Summary, r *reporter, listed []manifest.Entry, result outcome) *sumOutcome {
	d := &sumOutcome{headJSON: r.head(), Counts: s.Counts, amountJSON: newAmountJSON(s.Bytes, s.Elapsed), Files: []sumFileJSON{}, endJSON: r.ending(result), s: s}
	d.Counts.Errors, _ = r.counts()
	if s.Manifest != "" {
		d.Manifest = &sumManifestJSON{newNameJSON(s.Manifest), s.Lines, s.Dropped, s.SHA256}
	}
	if s.List != nil {
		d.List = &generationJSON{newNameJSON(s.List.Path), s.List.Lines, s.List.SHA256}
	}
	if o.MHL != nil {
		d.History = &sumHistoryJSON{s.Mismatches, s.Missing, s.Renamed, s.Ignored, []generationJSON{}}
		for _, w := range s.Generations {
			d.History.Generations = append(d.History.Generations, generationJSON{newNameJSON(w.Path), w.Files, w.SHA256})
		}
	}
	slices.SortFunc(listed, func(a, b manifest.Entry) int { return strings.Compare(a.Path, b.Path) })
	for _, e := range listed {
		d.Files = append(d.Files, sumFileJSON{newNameJSON(e.Path), e.Size, digestsJSON(o.Hashes, e.Digests)})
	}
	d.verdict = r.verdict(words{"complete", "complete: " + plural(s.Files, "file") + " hashed"}, words{"not_complete", "NOT COMPLETE"})
	d.addCount(s.Mismatches, "mismatch")
	d.addCountOf(s.Missing, "entry", " missing")
	d.addCount(d.Counts.Errors, "error")
	d.close(result, r.where)
	return d
}

// logged implements document.
func (d *sumOutcome) logged() []any {
	return []any{"verdict", d.Name, "files", d.Counts.Files, "bytes", d.Bytes, "errors", d.Counts.Errors, "elapsed", d.s.Elapsed}
}

// summary implements document.
func (d *sumOutcome) summary() summary {
	s, n := summary{verdict: &d.verdict, elapsed: d.s.Elapsed}, &d.Counts
	rows := &s.rows
	rows.Add("hashed", outcomes.Plural(n.Files, "file", "counts.files"))
	rows.Add("size", d.amount()...)
	if h := d.History; h != nil {
		rows.Problem("mismatches", outcomes.Number(h.Mismatches, "history.mismatches").Some())
		rows.Problem("missing", outcomes.Number(h.Missing, "history.missing").Some())
		rows.Add("renamed", outcomes.Number(int64(h.Renamed), "history.renamed").Some())
		rows.Add("ignored", outcomes.Number(h.Ignored, "history.ignored").Some())
	}
	rows.Add("warnings", outcomes.Number(n.Warnings, "counts.warnings").Some())
	rows.Problem("errors", outcomes.Number(n.Errors, "counts.errors").Some())
	rows.Add("left out", outcomes.Plural(n.LeftOut, "entry", "counts.left_out").Some().With(", by filters"))
	rows.Add("cached", outcomes.Plural(n.Cached, "file", "counts.hashed_through_cache").Some().With(", perhaps read from memory and not from the device"))
	if m := d.Manifest; m != nil {
		addManifest(rows, record.Written{Path: d.s.Manifest, Lines: m.Lines, Dropped: m.Dropped}, "manifest.lines")
		rows.Add("its sha256", outcomes.Name(m.SHA256))
	}
	if l := d.s.List; l != nil {
		addManifest(rows, *l, "media_list.files")
		rows.Add("its sha256", outcomes.Name(l.SHA256))
	}
	for i, g := range d.s.Generations {
		rows.Add("generation", outcomes.Name(quote.Name(g.Path)), outcomes.Plural(int64(g.Files), "file", fmt.Sprintf("history.generations.%d.files", i)))
	}
	return s
}
