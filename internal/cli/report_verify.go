package cli

import (
	"slices"

	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/report"
	"github.com/seed65876f4f/sealift/internal/verify"
)

// maxAlgorithms is the largest number of digest columns in the list of files.
const maxAlgorithms = 4

// checkResults has the report's words for the verdicts about files.
var checkResults = map[verify.Verdict]string{
	verify.Match: "matches", verify.Mismatch: "mismatch", verify.Missing: "missing", verify.Unreadable: "unreadable",
}

// checked is verify.Options.Each.
func (r *verifyReporter) checked(c *verify.Checked) {
	r.page.checked(r.name(verify.Result{Dir: c.Dir, Path: c.Path}), c)
}

// checked adds a file that was checked.
func (r *htmlReport) checked(name string, c *verify.Checked) {
	f := &report.File{Path: name, Size: c.Size, Mtime: c.Mtime.Sec, Digests: make([][]byte, maxAlgorithms)}
	last := 0
	for _, line := range c.Lines {
		for _, d := range line.Digests {
			if i := r.column(d.Algorithm); i >= 0 {
				f.Digests[i] = d.Digest
				last = max(last, i+1)
			}
		}
		f.Results = []string{checkResults[line.Verdict]}
		if line.Verdict != verify.Match {
			r.mark(f.Path, checkResults[line.Verdict])
		}
	}
	f.Digests = f.Digests[:last]
	r.file(f)
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
