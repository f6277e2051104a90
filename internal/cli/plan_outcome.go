package cli

import (
	"math"
	"strconv"
	"time"

	outcomes "github.com/seed65876f4f/sealift/internal/outcome"
	"github.com/seed65876f4f/sealift/internal/quote"
	"github.com/seed65876f4f/sealift/internal/shard"
	"github.com/seed65876f4f/sealift/internal/units"
)

// planOutcome is the outcome of plan.
type planOutcome struct {
	headJSON
	verdict
	Source      nameJSON   `json:"source"`       // The source.
	Targets     []nameJSON `json:"destinations"` // The destinations, in the order of the command line.
	Plan        nameJSON   `json:"plan"`         // The directory of the plan.
	ID          *string    `json:"id"`           // The id of the plan: 32 hexadecimal digits, or null if no plan was written.
	Shards      int        `json:"shards"`       // The number of shards. Their indexes begin with 0.
	Entries     int64      `json:"entries"`      // Entries of the source in all shards: files, links and special files.
	Directories int64      `json:"directories"`  // Directories of the source, the root included.
	Bytes       int64      `json:"bytes"`        // Bytes of the regular files of all shards. A file with several names counts once.
	LinkGroups  int64      `json:"link_groups"`  // Files with several names in the source.
	// Entries of the source that filters left out. A directory that was not searched counts once.
	LeftOut int64   `json:"left_out"`
	Missing int64   `json:"missing"`         // Paths that manifests of the source list, but that the source lacks.
	Longest float64 `json:"longest_seconds"` // The estimated time that one task needs for the longest shard.
	Mean    float64 `json:"mean_seconds"`    // The mean of the estimated times of all shards.
	// Mismatches, errors and destinations dropped, in the order in which they were found.
	endJSON

	failures, mismatches int64
	into                 string
	longest, mean        time.Duration
}

func (f *planFlags) newOutcome(p *shard.Plan, r *copyReporter, result outcome) *planOutcome {
	d := &planOutcome{
		headJSON: r.head(), Source: newNameJSON(f.options.Source), Targets: []nameJSON{}, Plan: newNameJSON(f.into.Into),
		Shards: len(p.Shards), Entries: p.Totals.Entries, Directories: p.Totals.Directories, Bytes: p.Totals.Bytes,
		LinkGroups: p.Totals.LinkGroups, Missing: p.Totals.Missing, LeftOut: p.Totals.LeftOut,
		endJSON: r.ending(result), into: quote.Name(f.into.Into),
	}
	d.failures, d.mismatches = r.counts()
	d.longest, d.mean = costs(p)
	d.Longest, d.Mean = d.longest.Seconds(), d.mean.Seconds()
	for _, target := range f.options.Targets {
		d.Targets = append(d.Targets, newNameJSON(target))
	}
	d.verdict = r.verdict(
		words{"planned", "planned: " + plural(p.Totals.Entries, "entry") + " in " + plural(int64(len(p.Shards)), "shard") + "; nothing is copied yet"},
		words{"no_plan", "NO PLAN"})
	d.next = "correct the cause, or leave the files out with --exclude, and plan again"
	d.addCount(d.failures, "failure")
	d.addCount(d.mismatches, "mismatch")
	switch {
	case p.ID != "": // the plan is complete, but for example the log is not
		d.ID, d.bad, d.next = &p.ID, words{"planned_with_errors", "PLANNED, WITH ERRORS"}, "the plan can be run"
	case result.signal != nil:
		d.next = "run the same command again"
	}
	d.close(result, r.where)
	return d
}

// logged implements document.
func (d *planOutcome) logged() []any {
	return []any{"verdict", d.Name, "shards", d.Shards, "entries", d.Entries, "bytes", d.Bytes, "mismatches", d.mismatches, "errors", d.failures}
}

// summary implements document.
func (d *planOutcome) summary() summary {
	s := summary{verdict: &d.verdict}
	if d.ID == nil {
		return s
	}
	rows := &s.rows
	rows.Add("size", outcomes.Size(d.Bytes, "bytes"))
	rows.Add("links", outcomes.Number(d.LinkGroups, "link_groups").Some())
	rows.Add("missing", outcomes.Number(d.Missing, "missing").Some())
	rows.Add("left out", outcomes.Plural(d.LeftOut, "entry", "left_out").Some().With(", by filters"))
	shards := units.Size(d.Bytes/int64(d.Shards)) + " on average"
	if d.Shards > 1 {
		shards += "; the longest needs " + times(d.longest, d.mean) + " the mean time"
	}
	rows.Add("shards", outcomes.Text(shards))
	rows.Add("longest", outcomes.Text("about "+duration(d.longest)+" for one task, by an estimate"))
	rows.Add("plan", outcomes.Name(d.into))
	rows.Add("next", outcomes.Text("sealift run "+d.into+" --shard 0"))
	if last := d.Shards - 1; last > 0 {
		rows.Add("", outcomes.Text("and so on to --shard "+grouped(int64(last))+", on any machine"))
	}
	rows.Add("then", outcomes.Text("sealift merge "+d.into))
	return s
}

// costs returns the estimated time of the longest shard, and the mean of all shards.
func costs(p *shard.Plan) (longest, mean time.Duration) {
	var sum float64
	for _, s := range p.Shards {
		longest = max(longest, time.Duration(s.Cost))
		sum += float64(s.Cost)
	}
	return longest, time.Duration(math.Round(sum / float64(max(len(p.Shards), 1))))
}

// times returns the quotient a/b as text: "1.02 times".
func times(a, b time.Duration) string {
	return strconv.FormatFloat(float64(a)/float64(max(b, 1)), 'f', 2, 64) + " times"
}
