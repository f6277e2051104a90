package cli

import (
	"math"
	"strconv"
	"time"

	"github.com/seed65876f4f/sealift/internal/shard"
)

// planJSON is the JSON output of plan.
type planJSON struct {
	headJSON
	Source      nameJSON      `json:"source"`
	Targets     []nameJSON    `json:"destinations"`
	Plan        nameJSON      `json:"plan"`
	ID          *string       `json:"id"`          // null if no plan was written
	Shards      int           `json:"shards"`      // number of shards
	Entries     int64         `json:"entries"`     // number of entries of all shards
	Directories int64         `json:"directories"` // number of directories of the source
	Bytes       int64         `json:"bytes"`
	LinkGroups  int64         `json:"link_groups"`
	LeftOut     int64         `json:"left_out"`        // entries of the source that filters leave out
	Missing     int64         `json:"missing"`         // number of paths that manifests of the source list and the source lacks
	Longest     float64       `json:"longest_seconds"` // estimated time of one task for the longest shard
	Mean        float64       `json:"mean_seconds"`    // mean time of all shards
	Failures    []failureJSON `json:"failures"`
	Warnings    []warningJSON `json:"warnings"`
	ExitCode    int           `json:"exit_code"`
}

func (f *planFlags) newJSON(p *shard.Plan, r *reporter, result outcome) planJSON {
	r.mu.Lock()
	defer r.mu.Unlock()
	longest, mean := costs(p)
	report := planJSON{
		headJSON: r.head(), Source: newNameJSON(f.options.Source), Targets: []nameJSON{}, Plan: newNameJSON(f.into.Into),
		Shards: len(p.Shards), Entries: p.Totals.Entries, Directories: p.Totals.Directories, Bytes: p.Totals.Bytes,
		LinkGroups: p.Totals.LinkGroups, Missing: p.Totals.Missing, LeftOut: p.Totals.LeftOut,
		Longest: longest.Seconds(), Mean: mean.Seconds(),
		Failures: list(r.mu.failures), Warnings: list(r.mu.warnings), ExitCode: result.code(),
	}
	for _, target := range f.options.Targets {
		report.Targets = append(report.Targets, newNameJSON(target))
	}
	if p.ID != "" {
		report.ID = &p.ID
	}
	return report
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
