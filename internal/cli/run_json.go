package cli

import (
	"github.com/seed65876f4f/sealift/internal/engine"
)

// runJSON is the JSON output of run.
type runJSON struct {
	headJSON
	Source    nameJSON       `json:"source"`
	Plan      nameJSON       `json:"plan"`
	Shards    []shardRunJSON `json:"shards"`
	Failures  []failureJSON  `json:"failures"`
	Conflicts []conflictJSON `json:"conflicts"`
	Warnings  []warningJSON  `json:"warnings"`
	ExitCode  int            `json:"exit_code"`
}

// shardRunJSON is the result of one shard.
type shardRunJSON struct {
	Index  int           `json:"index"`
	State  string        `json:"state"` // "finished", "finished_before", "finished_by_another_task", "merged_before" or "not_finished"
	Counts engine.Totals `json:"counts"`
	amountJSON
	ResumedFiles int64               `json:"resumed_files"`
	ResumedBytes int64               `json:"resumed_bytes"`
	Targets      []atDestinationJSON `json:"destinations"` // empty if the shard was not begun
}

func (f *runFlags) newJSON(all *runSummary, r *copyReporter, result outcome) runJSON {
	r.mu.Lock()
	defer r.mu.Unlock()
	report := runJSON{
		headJSON: r.head(), Source: newNameJSON(f.options.Source), Plan: newNameJSON(f.plan), Shards: []shardRunJSON{},
		Failures: list(r.mu.failures), Conflicts: list(r.mu.conflicts), Warnings: list(r.mu.warnings), ExitCode: result.code(),
	}
	for _, s := range all.shards {
		report.Shards = append(report.Shards, newShardRunJSON(s.index, s.state, s.summary))
	}
	return report
}

func newShardRunJSON(index int, state string, s *engine.Summary) shardRunJSON {
	report := shardRunJSON{Index: index, State: state, Targets: []atDestinationJSON{}}
	if s == nil {
		return report
	}
	report.Counts, report.amountJSON = s.Totals, newAmountJSON(s.Bytes, s.Elapsed)
	report.ResumedFiles, report.ResumedBytes = s.ResumedFiles, s.ResumedBytes
	for _, t := range s.Targets {
		report.Targets = append(report.Targets, newAtDestinationJSON(&t))
	}
	return report
}
