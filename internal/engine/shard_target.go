package engine

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"

	"github.com/seed65876f4f/sealift/internal/catalog"
	"github.com/seed65876f4f/sealift/internal/dest"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/metadata"
	"github.com/seed65876f4f/sealift/internal/record"
	"github.com/seed65876f4f/sealift/internal/resume"
	"github.com/seed65876f4f/sealift/internal/shard"
	"github.com/seed65876f4f/sealift/internal/walk"
)

// openTargets opens the destinations of a task. None is locked: many tasks copy to it.
func (k *task) openTargets(r *run) error {
	for _, t := range r.targets {
		r.activity.At(t.Place())
		err := t.openTask(r, k)
		if errors.As(err, new(*failure.RefusedError)) {
			return err
		}
		if err != nil {
			t.Drop("", err)
		}
	}
	return nil
}

// openTask opens the destination, and the log of what the task copies to it.
func (t *target) openTask(r *run, k *task) error {
	root, err := t.Open()
	if err != nil {
		return err
	}
	t.Root = root
	t.Handle = r.newHandles().Root(root)
	root.SetTempID(k.attempt.TempID())
	if err := t.openTaskLog(r, k); err != nil {
		return err
	}
	if err := t.probe(r); err != nil {
		return err
	}
	if err := t.readLeftAlone(r, k); err != nil {
		return err
	}
	if t.records, err = record.Open(&record.Destination{Hashes: r.opts.Hashes}, partRecorder{part: k.parts[t.Index]}); err != nil {
		return err
	}
	return t.openBackup(r)
}

// readLeftAlone reads the conflicts of the attempt whose finish record this one replaces. That attempt
// has not written these files, and none has begun since, so they are not incomplete.
func (t *target) readLeftAlone(r *run, k *task) error {
	if k.attempt.Former == nil {
		return nil
	}
	outcomes, err := k.store.OpenOutcomes(k.attempt.Former, &shardCounts{})
	if err != nil {
		return err
	}
	defer outcomes.Close()
	t.leftAlone = &nameSet{seed: r.names}
	for {
		o, err := outcomes.Next()
		if errors.Is(err, io.EOF) {
			t.leftAlone.sort()
			return nil
		}
		if err != nil {
			return fmt.Errorf("outcomes of shard %d: %w", k.index, err)
		}
		if o.Kind == shard.OutcomeConflict && o.Target == t.Index {
			t.leftAlone.add([]byte(o.Path))
		}
	}
}

// leftBefore reports whether the file is in leftAlone.
func (t *target) leftBefore(path string) bool { return t.leftAlone != nil && t.leftAlone.has(path) }

// openTaskLog begins the task's log for the destination.
func (t *target) openTaskLog(r *run, k *task) error {
	earlier, err := k.openEarlier()
	if err != nil {
		return fmt.Errorf("the attempts before: %w", err)
	}
	t.journal, t.earlier, t.log, err = resume.OpenAttempt(t.Root, resume.Attempt{
		Dir: k.attempt.Dir, Name: fmt.Sprintf("log-%d", t.Index), TempID: k.attempt.TempID(), Earlier: earlier,
	}, resume.Options{
		Source:     fmt.Sprintf("shard %d of plan %s", k.index, k.store.Plan.ID),
		Terms:      r.opts.logTerms(),
		Hashes:     r.opts.Hashes,
		KeepTimes:  r.opts.Preserve&metadata.PreserveTimes != 0,
		Durable:    r.opts.Sync != dest.SyncNone,
		TimeStamps: t.timeStamps,
	})
	if err != nil {
		return fmt.Errorf("the log of the task: %w", err)
	}
	return nil
}

// openEarlier opens the directories of earlier attempts.
func (k *task) openEarlier() (earlier []resume.EarlierAttempt, err error) {
	for _, a := range k.attempt.Earlier {
		dir, err := k.attempt.OpenEarlier(a.Number)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		if err == nil {
			k.earlier = append(k.earlier, dir)
		}
		earlier = append(earlier, resume.EarlierAttempt{Dir: dir, TempID: a.TempID, Ended: a.Ended})
	}
	return earlier, nil
}

// absentInPlan reports whether the destination lacked the directory when the plan was made. This
// copy creates the directory then.
func (t *target) absentInPlan(d *walk.Dir) bool {
	switch note := d.Note.(type) {
	case shard.Absence:
		return note.Of(t.planIndex)
	case *shard.Directory:
		return note.Absent.Of(t.planIndex)
	}
	return false
}

// leave ends the work of the task in a directory. Merge sets the metadata of the directory when all
// tasks are finished.
func (k *task) leave(r *run, d *walk.Dir) {
	for _, dd := range d.State.(destDirs) {
		if dd.untried() {
			continue
		}
		dir, ok := dd.acquire(&r.placer)
		if !ok {
			dd.close()
			continue
		}
		t := dd.target
		t.SyncList.AddDir(d.Path())
		if r.ctx.Err() == nil {
			if err := t.earlier.RemoveLeftovers(dir, d.Path()); err != nil {
				t.Fail(d.Path(), failure.StageJournal, err)
			}
		}
		dd.syncLeft(r, dir)
		dd.release(dir)
		dd.close()
	}
}

// inShard returns the entry of the shard that e is.
func inShard(e *entry) *shard.Entry { return e.Note.(*shard.Entry) }

// expected returns what the source's manifests list for an entry of the shard.
func (k *task) expected(_ *run, e *entry) (catalog.Expectation, error) {
	var slots []int
	var digests [][][]byte
	plan := k.store.Plan
	for i, x := range inShard(e).Expected {
		slot := slices.Index(plan.Options.Hashes, plan.Lists[x.List].Hash)
		switch {
		case slot < 0:
		case i > 0 && x.List == inShard(e).Expected[i-1].List:
			digests[len(digests)-1] = append(digests[len(digests)-1], x.Digest)
		default:
			slots, digests = append(slots, slot), append(digests, [][]byte{x.Digest})
		}
	}
	return catalog.NewExpectation(slots, digests), nil
}

// previous returns what the previous manifests of a destination list for an entry of the shard.
func (k *task) previous(e *entry, p *transfer) record.Kept {
	digests := make(hash.Digests, len(k.store.Plan.Options.Hashes))
	for _, l := range inShard(e).Previous {
		if l.Target == p.target.Index {
			digests[l.Hash] = l.Digest
		}
	}
	return record.Kept{Digests: digests, Complete: record.IsComplete(digests)}
}

// partRecorder is the record.Recorder of a task: another process writes the manifests.
type partRecorder struct {
	record.NoRecorder
	part *shard.LineWriter
}

// Open implements record.Recorder.
func (p partRecorder) Open(*record.Destination) (record.Book, error) {
	return partBook{part: p.part}, nil
}

// partBook records in the part of a destination.
type partBook struct {
	record.NoBook
	part *shard.LineWriter
}

// Account implements record.Book.
func (b partBook) Account(o record.Outcome) error {
	if o.Path == "" {
		return nil
	}
	return b.part.Put(shard.Line{
		Path: o.Path, Digests: o.Digests, Size: o.Size, Mtime: o.Mtime, Dropped: o.Dropped, Below: o.Below,
		Created: o.Created, Replaced: o.Replaced, Failed: o.Failed, Resumed: o.Resumed,
	})
}

// Finish implements record.Book.
func (partBook) Finish(record.End) ([]record.Written, error) { return nil, nil }

// Each implements record.Lister.
func (b partBook) Each(yield func(file string, digests hash.Digests) error) error {
	return b.part.Each(func(l *shard.Line) error {
		if l.Digests == nil {
			return nil
		}
		return yield(l.Path, l.Digests)
	})
}
