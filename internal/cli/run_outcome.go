package cli

import (
	"strconv"
	"strings"

	"github.com/seed65876f4f/sealift/internal/engine"
	"github.com/seed65876f4f/sealift/internal/quote"
)

// runOutcome is the outcome of run.
type runOutcome struct {
	headJSON
	verdict
	Source nameJSON `json:"source"` // The source.
	Plan   nameJSON `json:"plan"`   // The directory of the plan.
	// The shards of this task, in the order in which they were copied. A task that was stopped has no
	// entry for those that it did not begin.
	Shards    []shardOutcome `json:"shards"`
	Conflicts []conflictJSON `json:"conflicts"` // Names that the policy left alone.
	// Mismatches, errors and destinations dropped, in the order in which they were found.
	endJSON

	mismatches, errors int64
}

// shardOutcome is the outcome of one shard. Without a summary, the shard was not begun.
type shardOutcome struct {
	Index int `json:"index"` // The index of the shard, counted from 0.
	// Whether every entry of the shard has an outcome, failures included. finished_before: an earlier task
	// finished it without failures, so this task copied nothing. finished_by_another_task: another task
	// took it over and finished it; the exit code is then that of the other task. merged_before: the plan
	// was merged, so there was nothing to do.
	State string `json:"state"`
	copiedJSON

	begun bool
}

func (f *runFlags) newOutcome(all *runSummary, r *copyReporter, result outcome) *runOutcome {
	d := &runOutcome{
		headJSON: r.head(), Source: newNameJSON(f.options.Source), Plan: newNameJSON(f.plan), Shards: []shardOutcome{}, endJSON: r.ending(result),
		verdict: verdict{good: words{"complete", "there is no shard for this task"}, bad: words{"not_finished", "NOT FINISHED"}},
	}
	d.errors, d.mismatches = r.counts()
	r.keep(func() { d.Conflicts = list(r.mu.conflicts) })
	for _, s := range all.shards {
		shard := f.newShard(s, r, result)
		d.Shards = append(d.Shards, shard)
		for _, c := range shard.causes {
			d.causes.Append(c)
		}
		if !shard.isGood() && (d.isGood() || shard.Name == "not_finished") {
			d.bad.name, d.reasons, d.next = shard.Name, shard.reasons, shard.next
		}
	}
	d.close(result, r.where)
	return d
}

// newShard returns the outcome of one shard.
func (f *runFlags) newShard(s shardResult, r *copyReporter, result outcome) shardOutcome {
	d := shardOutcome{Index: s.index, State: s.state, begun: s.summary != nil}
	summary := s.summary
	if summary == nil {
		summary = &engine.Summary{}
	}
	d.copiedJSON = r.newCopied(summary, result)
	name := "shard " + strconv.Itoa(s.index)
	v := verdict{bad: words{"not_finished", strings.ToUpper(name) + " IS NOT FINISHED"}}
	v.good.name = "complete"
	result = s.outcome().or(outcome{signal: result.signal})
	v.causes = summary.Causes
	switch {
	case s.state == mergedBefore:
		v.good.text = name + " has nothing to do: the plan was merged before"
		result.signal = nil
	case s.state == finishedBefore:
		v.good.text = name + " was finished before; when all shards are finished, run sealift merge " + quote.Name(f.plan)
		result = outcome{}
	case s.state == finishedByOther:
		v.good.text = name + " is finished by another task, which has taken it over"
		v.bad, v.next = words{"not_complete", name + " is finished by another task, NOT COMPLETE"}, "run the same command again, on any machine"
		v.addOutcomes(s.record.Mismatches, s.record.Failures, s.record.Conflicts)
		result.signal = nil
	case s.summary == nil:
		v.next = "run it again"
		if v.add("see the messages above"); result.signal == nil {
			result.failed = true
		}
	default:
		v.good.text = name + " is finished: " + plural(max(s.summary.Total, 0), "file") + " at " + destinations(s.summary)
		if s.state == shardFinished {
			v.bad = words{"not_complete", name + " is finished, NOT COMPLETE"}
		} else if result.signal == nil {
			v.add("see the messages above")
		}
		v.addOutcomes(s.summary.Mismatches, s.summary.Errors, s.summary.Conflicts)
		if s.summary.Errors+s.summary.Mismatches > 0 || s.state == shardNotFinished {
			v.next = v.causes.Next("run the same command again, on any machine")
		}
	}
	v.close(result, r.where)
	d.verdict = v
	return d
}

// summary implements document.
func (d *runOutcome) summary() (s summary) {
	if len(d.Shards) == 0 {
		return summary{verdict: &d.verdict}
	}
	for i := range d.Shards {
		shard := &d.Shards[i]
		if shard.begun && shard.State != finishedByOther {
			s.shards = append(s.shards, shard.copiedJSON.summary())
		} else {
			s.shards = append(s.shards, summary{verdict: &shard.verdict})
		}
	}
	return s
}

// logged implements document.
func (d *runOutcome) logged() []any {
	return []any{"verdict", d.Name, "shards", len(d.Shards), "mismatches", d.mismatches, "errors", d.errors}
}
