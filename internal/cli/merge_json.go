package cli

import (
	"github.com/seed65876f4f/sealift/internal/engine"
	"github.com/seed65876f4f/sealift/internal/shard"
)

// mergeJSON is the JSON output of merge: that of the whole copy, and the states of the shards.
type mergeJSON struct {
	copyJSON
	Plan      nameJSON  `json:"plan"`
	Merged    bool      `json:"merged"`        // if false, all counts of the copy are 0
	Already   bool      `json:"merged_before"` // an earlier merge has completed the plan
	Abandoned bool      `json:"abandoned"`     // with --abandon
	Removed   int64     `json:"removed"`       // temporaries and empty directories, with --abandon
	Shards    shardJSON `json:"shards"`
}

// shardJSON counts the shards of a plan by their states.
type shardJSON struct {
	Total      int `json:"total"`
	Finished   int `json:"finished"`
	InProgress int `json:"in_progress"`
	Stopped    int `json:"stopped"`
	NotBegun   int `json:"not_begun"`

	Unfinished string `json:"unfinished"` // indexes in the syntax of sbatch --array
	Failed     string `json:"failed"`     // indexes of finished shards with failures or mismatches
	Again      string `json:"run_again"`  // a command line that runs both; "" if there are none

	Failures   int64 `json:"failures"`
	Mismatches int64 `json:"mismatches"`
	Conflicts  int64 `json:"conflicts"`
}

func newMergeJSON(f *mergeFlags, s *engine.MergeSummary, r *copyReporter, result outcome) mergeJSON {
	p := s.Shards
	j := mergeJSON{
		copyJSON: newCopyJSON(&s.Summary, r, result),
		Plan:     newNameJSON(f.plan), Merged: s.Merged, Already: s.Already,
		Abandoned: f.options.Abandon && !s.Already && result.code() == 0, Removed: s.Removed,
		Shards: shardJSON{
			Total: len(p), Finished: p.Count(shard.Done), InProgress: p.Count(shard.Begun),
			Stopped: p.Count(shard.Stopped), NotBegun: p.Count(shard.NotBegun),
			Unfinished: shard.FormatIndexes(p.Unfinished()), Failed: shard.FormatIndexes(p.Failed()),
		},
	}
	j.DryRun = f.options.DryRun
	if len(p.ToRun()) > 0 {
		j.Shards.Again = f.resubmit()
	}
	for _, state := range p {
		j.Shards.Failures += state.Failures
		j.Shards.Mismatches += state.Mismatches
		j.Shards.Conflicts += state.Conflicts
	}
	return j
}
