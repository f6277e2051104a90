package engine

import (
	"errors"
	"fmt"

	"github.com/seed65876f4f/sealift/internal/dest"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/policy"
	"github.com/seed65876f4f/sealift/internal/record"
)

// This file opens the destinations and what the run records there.

// openTargets lets the mode open and examine the destinations.
func (r *run) openTargets() error {
	r.targetsLeft.Store(int64(len(r.route.Destinations)))
	return r.mode.openTargets(r)
}

// openTargets locks and examines the destinations, all of them before anything
// is written to one.
func (treeCopy) openTargets(r *run) error {
	for _, t := range r.targets {
		r.activity.At(t.Place())
		err := failure.InStep("its bag cannot be read", r.inspect(t))
		if err == nil {
			err = t.OpenRoot(&r.opening)
		}
		if err == nil {
			err = failure.InStep("its bag cannot be opened", t.openOuter())
		}
		if err == nil {
			err = failure.InStep("its manifests cannot be read", t.openRecords(r))
		}
		if err == nil {
			err = failure.InStep("the backup directory cannot be opened", t.openBackup(r))
		}
		var refused *failure.RefusedError
		if errors.As(err, &refused) {
			for _, t := range r.targets {
				t.undo(r)
			}
			return err
		}
		if err != nil {
			t.Drop("", err)
			t.leaveAsFound(r)
		}
	}
	for _, t := range r.targets { // no destination is refused any more, so the journals may be written
		if t.Dropped() || t.Root == nil { // a dry run does not make it
			continue
		}
		r.activity.At(t.Place())
		if err := t.openLog(r); err != nil {
			what := "written"
			if r.opts.DryRun {
				what = "read"
			}
			t.Drop("", fmt.Errorf("the journal cannot be %s: %w", what, err))
			t.leaveAsFound(r)
			continue
		}
		t.records.Resume(r.mode.interrupted(t))
	}
	return nil
}

// openBackup opens the directory of replaced files, unless no file is replaced.
func (t *target) openBackup(r *run) error {
	if r.opts.Policy == policy.Never {
		return nil
	}
	return t.OpenBackups(r.opts.Sync != dest.SyncNone)
}

// leaveAsFound removes what this run made at a destination that was dropped before anything
// was copied to it.
func (t *target) leaveAsFound(r *run) {
	t.records.Close()
	t.records = record.Books{}
	t.LeaveAsFound(r.rules.planned)
}

// undo removes what this run has created, when nothing will be copied.
func (t *target) undo(r *run) {
	t.records.Close()
	t.Undo(r.rules.planned)
}
