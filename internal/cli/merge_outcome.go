package cli

import (
	"strconv"

	"github.com/seed65876f4f/sealift/internal/engine"
	outcomes "github.com/seed65876f4f/sealift/internal/outcome"
	"github.com/seed65876f4f/sealift/internal/quote"
	"github.com/seed65876f4f/sealift/internal/shard"
)

// mergeOutcome is the outcome of merge: that of the whole copy, and the states of the shards.
type mergeOutcome struct {
	copyOutcome
	Plan      nameJSON  `json:"plan"`
	Merged    bool      `json:"merged"`        // all counts of the copy are 0 otherwise, except Conflicts with Already
	Already   bool      `json:"merged_before"` // an earlier merge has completed the plan
	Abandoned bool      `json:"abandoned"`     // --abandon has ended the plan
	Removed   int64     `json:"removed"`       // temporaries that --abandon has removed
	Shards    shardJSON `json:"shards"`

	flags *mergeFlags
	m     *engine.MergeSummary
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

func newMergeOutcome(f *mergeFlags, s *engine.MergeSummary, r *copyReporter, result outcome) *mergeOutcome {
	p := s.Shards
	j := &mergeOutcome{
		copyOutcome: *newCopyOutcome(&s.Summary, r, result),
		Plan:        newNameJSON(f.plan), Merged: s.Merged, Already: s.Already,
		Abandoned: f.options.Abandon && !s.Already && result.code() == 0, Removed: s.Removed,
		Shards: shardJSON{
			Total: len(p), Finished: p.Count(shard.Done), InProgress: p.Count(shard.Begun),
			Stopped: p.Count(shard.Stopped), NotBegun: p.Count(shard.NotBegun),
			Unfinished: shard.FormatIndexes(p.Unfinished()), Failed: shard.FormatIndexes(p.Failed()),
			List: make([]shardStateJSON, len(p)),
		},
		flags: f, m: s,
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
	if !s.Merged {
		j.verdict = j.statusVerdict()
		j.verdict.close(result, r.where)
	}
	return j
}

// statusVerdict returns the verdict of a command that has merged nothing.
func (d *mergeOutcome) statusVerdict() verdict {
	p := d.m.Shards
	v := verdict{good: words{"ready", "ready to merge: all shards are finished"}, bad: words{"not_complete", "NOT COMPLETE"}}
	switch {
	case d.flags.options.Abandon && !d.Already:
		v.good = words{"abandoned", "the plan is abandoned: other copies to its destinations can run again"}
		v.bad, v.next = words{"not_abandoned", "NOT ABANDONED"}, "run the same command again"
	case d.Already:
		v.good = words{"complete", "complete: the plan was merged before, and nothing was done"}
		if d.Counts.Conflicts > 0 {
			v.addCountOf(d.Counts.Conflicts, "conflict", " left alone")
			v.causes.Add(outcomes.Conflicts, "")
			v.next = "the plan was merged before, and nothing was done; a dry run of the copy lists the conflicts"
		}
	default:
		if n := len(p.Unfinished()); n > 0 {
			v.add(grouped(int64(n)) + " of " + plural(int64(len(p)), "shard") + " not finished")
			v.causes.Add(outcomes.Unfinished, "")
		}
		if n := len(p.Failed()); n > 0 {
			v.add(grouped(int64(n)) + " of " + plural(int64(len(p)), "shard") + " with failures")
			v.causes.Add(outcomes.Failed, "")
		}
	}
	return v
}

// summary implements document.
func (d *mergeOutcome) summary() summary {
	s := summary{verdict: &d.verdict, elapsed: d.s.Elapsed}
	n := &d.Shards
	switch {
	case d.Merged:
		s = d.copyOutcome.summary()
		d.shardRows(&s.rows)
	case d.Already:
	case d.flags.options.Abandon:
		s.rows.Add("removed", outcomes.Number(d.Removed, "removed").Some())
	default:
		s.rows.Add("shards", outcomes.Plural(int64(n.Total), "shard", "shards.total"),
			outcomes.Number(int64(n.Finished), "shards.finished").Some().With(" finished"),
			outcomes.Number(int64(n.InProgress), "shards.in_progress").Some().With(" in progress"),
			outcomes.Number(int64(n.Stopped), "shards.stopped").Some().With(" stopped"),
			outcomes.Number(int64(n.NotBegun), "shards.not_begun").Some().With(" not begun"))
		d.shardRows(&s.rows)
	}
	return s
}

// shardRows adds rows with the shards to run, and the commands that run and merge them.
func (d *mergeOutcome) shardRows(rows *outcomes.Rows) {
	plan := quote.Name(d.flags.plan)
	rows.Add("unfinished", outcomes.Text(d.Shards.Unfinished))
	rows.Add("failed", outcomes.Text(d.Shards.Failed))
	if list := d.m.Shards.ToRun(); len(list) > 0 {
		rows.Add("run", outcomes.Text(d.flags.again))
		rows.Add("run each", outcomes.Text("sealift run "+plan+" --shard "+strconv.Itoa(list[0])))
	}
	if d.Merged && d.s.Errors+d.s.Mismatches > 0 {
		rows.Add("then", outcomes.Text("sealift merge "+plan))
		rows.Add("or abandon", outcomes.Text("sealift merge --abandon "+plan+" (copied files stay)"))
	}
}

// logged implements document.
func (d *mergeOutcome) logged() []any {
	return []any{
		"verdict", d.Name, "shards", d.Shards.Total, "unfinished", len(d.m.Shards.Unfinished()), "files", d.Counts.Files, "errors", d.Counts.Errors, "elapsed", d.s.Elapsed,
	}
}
