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
	Plan   nameJSON `json:"plan"`   // The directory of the plan.
	Merged bool     `json:"merged"` // Whether this command has merged the plan.
	// Whether the plan was merged before, so that nothing was done. The number of conflicts and the exit
	// code are then those of the merge that has completed the plan.
	Already   bool      `json:"merged_before"`
	Abandoned bool      `json:"abandoned"` // Whether --abandon has ended the plan.
	Removed   int64     `json:"removed"`   // Temporaries that --abandon has removed.
	Shards    shardJSON `json:"shards"`    // The state of the shards.

	flags *mergeFlags
	m     *engine.MergeSummary
}

// shardJSON counts the shards of a plan by their states.
type shardJSON struct {
	Total      int `json:"total"`       // The shards of the plan.
	Finished   int `json:"finished"`    // Shards in which each entry has an outcome, failures included.
	InProgress int `json:"in_progress"` // Shards whose last task has not ended: it is running, or was killed.
	Stopped    int `json:"stopped"`     // Shards whose last task ended in order before it finished the shard.
	NotBegun   int `json:"not_begun"`   // Shards that no task has begun.

	// The indexes of the shards that are not finished, in the form of sbatch --array: 0-3,7. Empty if
	// there are none.
	Unfinished string `json:"unfinished"`
	// The indexes, in the same form, of finished shards with failures or mismatches. These shards can be
	// run again.
	Failed string `json:"failed"`
	// A command line that submits the unfinished and the failed shards: the one of --resubmit, or one for
	// Slurm. Empty if there are none.
	Again string `json:"run_again"`

	Failures   int64 `json:"failures"`   // Failures in the records of the finished shards.
	Mismatches int64 `json:"mismatches"` // Files that do not match a digest, in these records.
	Conflicts  int64 `json:"conflicts"`  // Conflicts in these records.

	List []shardStateJSON `json:"list"` // All shards, in the order of their indexes.
}

// shardStateJSON is the state of one shard. The fields from Files on are nil if the shard is not
// finished.
type shardStateJSON struct {
	Index      int    `json:"index"`      // The index of the shard, counted from 0.
	State      string `json:"state"`      // The state, as in the counts above.
	Attempts   int    `json:"attempts"`   // How many tasks have begun the shard.
	Failures   int64  `json:"failures"`   // Failures in the record of the finished shard.
	Mismatches int64  `json:"mismatches"` // Files that do not match a digest, in this record.
	Conflicts  int64  `json:"conflicts"`  // Conflicts in this record.

	Files        *int64   `json:"files"`         // Regular files that the last task has copied, hard links to them included.
	Bytes        *int64   `json:"bytes"`         // Size of these files, in bytes, without resumed_bytes.
	ResumedFiles *int64   `json:"resumed_files"` // Files that earlier tasks had copied, and that were not read again.
	ResumedBytes *int64   `json:"resumed_bytes"` // Size of these files, and of the parts of other files that were already copied, in bytes.
	Begun        *string  `json:"begun"`         // When the last task began the shard, in UTC (RFC 3339), by the clock of its machine.
	Ended        *string  `json:"ended"`         // When that task finished the shard, by the same clock.
	Seconds      *float64 `json:"seconds"`       // The time between them.
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
	j.DryRun = f.options.DryRun
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
	s.more = d.onPage
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
