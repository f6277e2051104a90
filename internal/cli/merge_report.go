package cli

import (
	"github.com/seed65876f4f/sealift/internal/engine"
	"github.com/seed65876f4f/sealift/internal/report"
	"github.com/seed65876f4f/sealift/internal/shard"
)

// writeReport writes the report of a merge, or of a plan whose shards are not finished. It shows the
// shards in place of the throughput and of the files: the tasks have copied them.
func (f *mergeFlags) writeReport(r *copyReporter, s *engine.MergeSummary, result outcome) outcome {
	return r.html.htmlReport.write(r.reporter, result, s.Summary.Elapsed, func(page *report.Page) {
		reason := "The tasks of the shards have copied the files." + listedElsewhere(&s.Summary)
		if s.Merged {
			r.html.fill(page, r, &s.Summary, result)
		} else {
			v := f.verdict(s, result)
			page.Verdict, page.Totals = v.text(), statusFacts(s.Shards)
			page.Good = page.Good && len(v.reasons) == 0
			reason = "Nothing was merged."
		}
		page.Command, page.Shards = "merge", shardPlot(s)
		page.WithoutFiles(reason)
	})
}

// statusFacts count the shards by their states.
func statusFacts(p shard.Progress) []report.Fact {
	return some(1,
		number("shards", int64(len(p)), "shards.total"),
		number("finished", int64(p.Count(shard.Done)), "shards.finished"),
		number("in progress", int64(p.Count(shard.Begun)), "shards.in_progress"),
		number("stopped", int64(p.Count(shard.Stopped)), "shards.stopped"),
		number("not begun", int64(p.Count(shard.NotBegun)), "shards.not_begun"))
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
