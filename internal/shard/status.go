package shard

import (
	"context"
	"fmt"
	"strings"

	"github.com/seed65876f4f/sealift/internal/fsys"
)

// Status is what is known of a shard.
type Status struct {
	Attempts int       // that were begun
	Ended    bool      // the process of the last attempt has stopped writing
	Finished *Finished // nil if it is not finished
}

// Status reads the state of a shard.
func (s *Store) Status(index int) (Status, error) {
	dir, err := s.openWork(index)
	if err != nil {
		return Status{}, err
	}
	defer dir.Close()
	return s.statusIn(dir, index)
}

// statusIn is Status for a caller that has opened the directory with the attempts.
func (s *Store) statusIn(dir *fsys.Dir, index int) (Status, error) {
	last, err := lastAttempt(dir)
	if err != nil {
		return Status{}, err
	}
	status := Status{Attempts: last}
	if last > 0 {
		attempt, err := openDir(dir, attemptName(last))
		if err != nil {
			return status, err
		}
		status.Ended, err = exists(attempt, endedName)
		attempt.Close()
		if err != nil {
			return status, err
		}
	}
	status.Finished, err = s.finished(dir, index)
	return status, err
}

// State is the progress of a shard.
type State uint8

// The states of a shard.
const (
	NotBegun State = iota
	Begun          // an attempt has begun; its process is at work, or was killed
	Stopped        // the last attempt has stopped, or it has not renewed its counter in time
	Done           // it is finished
)

// String returns the state as JSON has it.
func (s State) String() string {
	return [...]string{"not begun", "in progress", "stopped", "finished"}[s]
}

// Report is the state of one shard, with the counts of its record if it is finished.
type Report struct {
	State                           State
	Attempts                        int
	Failures, Mismatches, Conflicts int64
}

// Progress has the state of each shard.
type Progress []Report

// Progress reads the states of all shards.
func (s *Store) Progress(ctx context.Context) (Progress, error) {
	p := make(Progress, len(s.Plan.Shards))
	for i := range p {
		if err := ctx.Err(); err != nil {
			return nil, context.Cause(ctx)
		}
		status, err := s.Status(i)
		if err != nil {
			return nil, fmt.Errorf("state of shard %d: %w", i, err)
		}
		p[i] = stateOf(status)
	}
	return p, nil
}

func stateOf(s Status) Report {
	state := Report{Attempts: s.Attempts}
	switch {
	case s.Finished != nil:
		f := s.Finished
		state.State, state.Failures, state.Mismatches, state.Conflicts = Done, f.Failures, f.Mismatches, f.Conflicts
	case s.Ended:
		state.State = Stopped
	case s.Attempts > 0:
		state.State = Begun
	}
	return state
}

// Count returns how many shards are in a state.
func (p Progress) Count(state State) (n int) {
	for _, s := range p {
		if s.State == state {
			n++
		}
	}
	return n
}

// Unfinished returns the indexes of the shards that are not finished.
func (p Progress) Unfinished() []int {
	return p.where(func(s Report) bool { return s.State != Done })
}

// Failed returns the indexes of the finished shards with failures or mismatches. They can be
// run again.
func (p Progress) Failed() []int {
	return p.where(func(s Report) bool { return s.State == Done && s.Failures+s.Mismatches > 0 })
}

// ToRun returns the indexes of the shards that are unfinished or failed.
func (p Progress) ToRun() []int {
	return p.where(func(s Report) bool { return s.State != Done || s.Failures+s.Mismatches > 0 })
}

func (p Progress) where(is func(Report) bool) (indexes []int) {
	for i, s := range p {
		if is(s) {
			indexes = append(indexes, i)
		}
	}
	return indexes
}

// FormatIndexes writes ascending indexes in the form that "sbatch --array=" takes:
// "0-3,7,9-12".
func FormatIndexes(indexes []int) string {
	var b strings.Builder
	for i := 0; i < len(indexes); {
		end := i
		for end+1 < len(indexes) && indexes[end+1] == indexes[end]+1 {
			end++
		}
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "%d", indexes[i])
		if end > i {
			fmt.Fprintf(&b, "-%d", indexes[end])
		}
		i = end + 1
	}
	return b.String()
}

// Wait waits until all shards are finished, or ctx ends. It calls changed with the states at
// the beginning, and whenever they have changed. An attempt whose counter has not changed for
// the time Dead is Stopped.
func (s *Store) Wait(ctx context.Context, o AttemptOptions, changed func(Progress)) error {
	o = o.withDefaults()
	progress := make(Progress, len(s.Plan.Shards))
	observers := make([]observer, len(progress))
	for first := true; ; first = false {
		differs := first
		for i := range progress {
			if progress[i].State == Done {
				continue
			}
			if err := ctx.Err(); err != nil {
				return context.Cause(ctx)
			}
			observers[i].opts = o
			now, err := s.watch(i, &observers[i])
			if err != nil {
				return fmt.Errorf("state of shard %d: %w", i, err)
			}
			differs = differs || now != progress[i]
			progress[i] = now
		}
		if differs && changed != nil {
			changed(progress)
		}
		if progress.Count(Done) == len(progress) {
			return nil
		}
		if err := sleep(ctx, o.Dead/renewals); err != nil {
			return err
		}
	}
}

// watch reads the state of a shard that is observed.
func (s *Store) watch(index int, o *observer) (Report, error) {
	dir, err := s.openWork(index)
	if err != nil {
		return Report{}, err
	}
	defer dir.Close()
	status, err := s.statusIn(dir, index)
	if err != nil {
		return Report{}, err
	}
	state := stateOf(status)
	if state.State != Begun {
		return state, nil
	}
	o.attempts = dir
	dead, err := o.isDead(status.Attempts)
	if dead {
		state.State = Stopped
	}
	return state, err
}

// FindAlive returns the index of a shard that a process is copying. If the last attempt at a shard
// has neither ended nor finished the shard, FindAlive observes its counter, for the time Dead at
// most.
func (s *Store) FindAlive(ctx context.Context, o AttemptOptions) (index int, found bool, err error) {
	o = o.withDefaults()
	observers := make([]observer, len(s.Plan.Shards))
	for {
		begun := 0
		for i := range observers {
			seen := &observers[i]
			seen.opts = o
			number, counter := seen.number, seen.counter
			state, err := s.watch(i, seen)
			if err != nil {
				return 0, false, fmt.Errorf("state of shard %d: %w", i, err)
			}
			if state.State != Begun {
				continue
			}
			begun++
			if number != 0 && (seen.number != number || seen.counter != counter) {
				return i, true, nil
			}
		}
		if begun == 0 {
			return 0, false, nil
		}
		if err := sleep(ctx, o.Dead/renewals); err != nil {
			return 0, false, err
		}
	}
}
