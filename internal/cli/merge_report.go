package cli

import (
	"strings"

	"github.com/seed65876f4f/sealift/internal/engine"
	"github.com/seed65876f4f/sealift/internal/report"
)

// onPage adds what only the page of a merge has. It shows the shards in place of the throughput and
// of the files: the tasks have copied them.
func (d *mergeOutcome) onPage(page *report.Page) {
	reason := "Nothing was merged."
	if d.Merged {
		reason = strings.TrimSpace("The tasks of the shards have copied the files. " + listedElsewhere(d.s))
	}
	page.Shards = shardPlot(d.m)
	page.WithoutFiles(reason)
}

// shardPlot returns the plot of the shards.
func shardPlot(s *engine.MergeSummary) *report.Shards {
	l := &report.Shards{}
	for i, state := range s.Shards {
		row := report.Shard{Index: i, State: state.State.String(), Attempts: state.Attempts}
		if r := s.Result(i); r != nil {
			row.Failures = state.Finished.Failures + state.Finished.Mismatches
			row.Files, row.Bytes = r.Files, r.Bytes
			row.Begun, row.Ended, row.Time = r.Begun, r.Ended(), duration(r.Elapsed)
		}
		l.Add(row)
	}
	return l
}
