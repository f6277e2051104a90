package cli

import (
	"github.com/seed65876f4f/sealift/internal/engine"
	"github.com/seed65876f4f/sealift/internal/shard"
)

// mergeJSON is the JSON output of merge: that of the whole copy, and the states of the shards.
type mergeJSON struct {
	copyJSON
	Plan      nameJSON  `json:"plan"`
	Merged    bool      `json:"merged"`        // all counts of the copy are 0 otherwise, except Conflicts with Already
	Already   bool      `json:"merged_before"` // an earlier merge has completed the plan
	Abandoned bool      `json:"abandoned"`     // --abandon has ended the plan
	Removed   int64     `json:"removed"`       // temporaries that --abandon has removed
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

	List []shardStateJSON `json:"list"` // one for each shard, in the order of their indexes
}

// shardStateJSON is the state of one shard. The fields from Files on are nil if the shard is not
// finished.
type shardStateJSON struct {
	Index      int    `json:"index"`
	State      string `json:"state"` // the name of the shard.State, with _ in place of a space
	Attempts   int    `json:"attempts"`
	Failures   int64  `json:"failures"`
	Mismatches int64  `json:"mismatches"`
	Conflicts  int64  `json:"conflicts"`

	Files        *int64   `json:"files"`
	Bytes        *int64   `json:"bytes"`
	ResumedFiles *int64   `json:"resumed_files"`
	ResumedBytes *int64   `json:"resumed_bytes"`
	Begun        *string  `json:"begun"` // the time in the form of RFC 3339, in UTC
	Ended        *string  `json:"ended"`
	Seconds      *float64 `json:"seconds"`
}

func newShardStateJSON(index int, s shard.Report, r *engine.ShardResult) shardStateJSON {
	j := shardStateJSON{Index: index, State: oneWord(s.State.String()), Attempts: s.Attempts}
	if f := s.Finished; f != nil {
		j.Failures, j.Mismatches, j.Conflicts = f.Failures, f.Mismatches, f.Conflicts
	}
	if r != nil {
		j.Files, j.Bytes, j.ResumedFiles, j.ResumedBytes = &r.Files, &r.Bytes, &r.ResumedFiles, &r.ResumedBytes
		j.Begun, j.Ended = new(r.Begun.UTC().Format(timeJSON)), new(r.Ended().UTC().Format(timeJSON))
		j.Seconds = new(r.Elapsed.Seconds())
	}
	return j
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
			List: make([]shardStateJSON, len(p)),
		},
	}
	j.DryRun, j.Reserved = f.options.DryRun, nil
	if len(p.ToRun()) > 0 {
		j.Shards.Again = f.resubmit()
	}
	for i, state := range p {
		row := newShardStateJSON(i, state, s.Result(i))
		j.Shards.List[i] = row
		j.Shards.Failures += row.Failures
		j.Shards.Mismatches += row.Mismatches
		j.Shards.Conflicts += row.Conflicts
	}
	return j
}
