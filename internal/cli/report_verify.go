package cli

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/quote"
	"github.com/seed65876f4f/sealift/internal/report"
	"github.com/seed65876f4f/sealift/internal/verify"
)

// openVerifyReport opens the report of a verification.
func openVerifyReport(cmd *cobra.Command, o *verify.Options, file string) (*htmlReport, error) {
	var trees []reportTree
	for _, path := range o.Paths {
		trees = append(trees, reportTree{role: "Checked", path: path})
	}
	return openReport(cmd, o.FS, file, trees)
}

// maxAlgorithms is the largest number of digest columns in the list of files.
const maxAlgorithms = 4

// checkResults has the report's words for the verdicts about files.
var checkResults = map[verify.Verdict]string{
	verify.Match: "matches", verify.Mismatch: "mismatch", verify.Missing: "missing", verify.Unreadable: "unreadable",
}

// checked is verify.Options.Each.
func (r *verifyReporter) checked(c *verify.Checked) {
	f := &report.File{Path: r.name(verify.Result{Dir: c.Dir, Path: c.Path}), Size: c.Size, Mtime: mtime(c.Mtime), Digests: make([][]byte, maxAlgorithms)}
	last := 0
	for _, line := range c.Lines {
		for _, d := range line.Digests {
			if i := r.page.column(d.Algorithm); i >= 0 {
				f.Digests[i] = d.Digest
				last = max(last, i+1)
			}
		}
		f.Results = []string{checkResults[line.Verdict]}
		if line.Verdict != verify.Match {
			r.page.mark(f.Path, checkResults[line.Verdict])
		}
	}
	f.Digests = f.Digests[:last]
	r.page.file(f)
}

// column returns the column for digests of an algorithm. It adds a column if there is none yet,
// and returns -1 if all maxAlgorithms columns are used.
func (r *htmlReport) column(a hash.Algorithm) int {
	i := slices.Index(r.algorithms, a)
	if i < 0 && len(r.algorithms) < maxAlgorithms {
		i = len(r.algorithms)
		r.algorithms = append(r.algorithms, a)
	}
	return i
}

// writeReport writes the report of a verification that has ended.
func (r *verifyReporter) writeReport(o *verify.Options, s *verify.Summary, result outcome) outcome {
	return r.page.write(r.reporter, result, s.Elapsed, func(page *report.Page) {
		failures, _ := r.counts()
		v := verifyVerdict(s, failures, result)
		page.Command, page.Verdict = "verify", v.text()
		page.Good = page.Good && len(v.reasons) == 0
		page.Totals = append([]report.Fact{number("files read", s.Files, "counts.files")}, bytesFacts("size", s.Bytes, s.Elapsed)...)
		if s.Files > 0 {
			page.Totals = append(page.Totals, report.Fact{Label: "read from", Text: readFrom(o, s)})
		}
		page.Totals = append(page.Totals, some(4,
			number("matches", s.Matches, "counts.matches"),
			problemCount("mismatches", s.Mismatches, "counts.mismatches"),
			problemCount("missing", s.Missing, "counts.missing"),
			problemCount("errors", failures, "counts.errors"),
			problemCount("incomplete copies", s.Incomplete, "counts.incomplete"),
			number("unlisted", s.Unlisted, "counts.unlisted"),
			number("malformed lines", s.Malformed, "counts.malformed"),
			number("left out by filters", s.LeftOut, "counts.left_out"),
			number("warnings", s.Warnings, "counts.warnings"))...)
		for i, path := range o.Paths {
			page.Trees[i].Facts = append(r.manifestFacts(path, s), page.Trees[i].Facts...)
		}
		page.Elsewhere = plural(page.Files.Count(), "file") + " are too many for a page, which lists only the problems. The manifests list all files."
	})
}

// manifestFacts returns the manifests against which a path was checked.
func (r *verifyReporter) manifestFacts(path string, s *verify.Summary) (facts []report.Fact) {
	for _, m := range s.Manifests {
		switch {
		case m.Dir != path && r.several:
		case len(facts) == maxManifestRows:
			return append(facts, report.Fact{Label: "manifests", Text: "and more"})
		default:
			facts = append(facts, report.Fact{Label: "manifest", Text: quote.Name(m.Path) + ", " + plural(m.Lines, "line")})
		}
	}
	return facts
}
