package engine

import (
	"errors"
	"fmt"
	"slices"

	"github.com/seed65876f4f/sealift/internal/dest"
	"github.com/seed65876f4f/sealift/internal/event"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/incomplete"
	outcomes "github.com/seed65876f4f/sealift/internal/outcome"
)

// undone is what a tree copy leaves undone at each destination, in the order of
// run.targets. The collector alone adds to it. It is nil in a dry run and in a copy of a
// single file, and then collects nothing.
type undone []*undoneAt

type undoneAt struct {
	given string
	incomplete.Job
	incomplete.Missing
	causes outcomes.Causes
}

func (r *run) newUndone() (u undone) {
	source, err := r.route.SourcePath()
	if r.opts.DryRun || !r.rules.completes || r.route.Name != "" || err != nil { // without its path, openLog drops every destination
		return nil
	}
	job := incomplete.Job{Source: source, Filters: incomplete.NoFilters}
	only := r.rules.filesFrom
	if only == "" && r.opts.part() {
		only = fmt.Sprintf("%x", r.opts.Only.Fingerprint())
	}
	if only != "" {
		job.Filters = fmt.Sprintf("%x,%s,%t", r.opts.Filter.Fingerprint(), only, r.opts.OneFileSystem)
	}
	missing := incomplete.Missing{Planned: r.rules.planned}
	for _, d := range r.route.Destinations {
		u = append(u, &undoneAt{given: d.Given, Job: job, Missing: missing})
	}
	return u
}

// end records whether the copy ended before it processed all entries.
func (u undone) end(cut bool) {
	for _, t := range u {
		t.Cut = cut
	}
}

// event adds a failure at its destination, or at all destinations if it is about the
// source.
func (u undone) event(e event.Event) {
	var cause string
	switch e.Kind {
	case event.Failed, event.Mismatch:
		cause = e.Err.Error()
		var f *failure.FileError
		if errors.As(e.Err, &f) {
			cause = string(f.Stage) + ": " + f.Err.Error()
		}
	case event.DestinationLost:
		cause = "dropped: " + e.Err.Error()
		if e.Path != "" {
			cause = "dropped at " + quoteName(e.Path) + ": " + e.Err.Error()
		}
	default:
		return
	}
	for _, t := range u {
		switch {
		case e.Target != "" && e.Target != t.given:
			continue
		case e.Kind == event.DestinationLost || e.Path == "" && e.Target != "":
			t.Remark("this directory: " + cause)
		case e.Path == "":
			t.Remark("the source's directory: " + cause)
		default:
			t.Add(e.Path, cause)
		}
		t.causes.AddEvent(e)
	}
}

// account adds an entry to the list of each dropped destination that it may not have reached. At
// other destinations, each failed entry has an event.
func (u undone) account(targets []*target, f *result) {
	for i, missing := range u {
		t := targets[i]
		arrived := func(tf targetResult) bool { return tf.target == t && tf.done != outNothing }
		if t.Dropped() && !slices.ContainsFunc(f.targets, arrived) {
			missing.Add(f.path, "not copied: the destination was dropped")
		}
	}
}

// markIncomplete writes the marker of an incomplete destination, and removes the marker of an
// earlier run from a complete one. A second call without new failures does nothing. If
// markIncomplete cannot write the marker, it sets t.unmarked, which keeps the journal.
func (r *completer) markIncomplete(t *target) {
	if r.collector.undone == nil || t.Journal == nil { // without a journal, the run has not changed the destination
		return
	}
	r.collector.await()
	u := r.collector.undone[t.Index]
	if !u.Changed() {
		return
	}
	u.Root, u.Sync = t.markerRoot(), r.opts.Sync != dest.SyncNone && !t.FileSystems.Failed.Load()
	if u.Complete() {
		if err := u.Unmark(); err != nil {
			t.FailEnd(failure.StageJournal, fmt.Errorf("the marker of an earlier incomplete copy: %w", err))
		}
		return
	}
	if t.CheckName() != nil { // finishTarget reports that the name leads elsewhere
		t.unmarked = true
		return
	}
	u.Next = u.causes.Next("run the same command again")
	err := t.TakeOver() // the root may already have the source's permissions; GiveBack restores them
	if err == nil {
		err = u.Mark(&u.Missing)
	}
	if t.unmarked = err != nil; !t.unmarked || t.Dropped() {
		return
	}
	journal := "the journal stays, to show that this copy is incomplete"
	if t.Journal.Removed {
		journal = "the journal is already removed, so run the same command again"
	}
	r.report(event.Event{Kind: event.Warning, Target: t.Given, Err: fmt.Errorf("%w; %s", err, journal)})
}
