package shard

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// State is the progress of a shard.
type State uint8

// The states of a shard.
const (
	NotBegun State = iota
	Begun          // an attempt has begun; its process is at work, or was killed
	Stopped        // the last attempt has stopped in order
	Done           // it is finished
)

// String returns the state as JSON has it.
func (s State) String() string {
	return [...]string{"not begun", "in progress", "stopped", "finished"}[s]
}

// Report is the state of one shard, with its record if it is finished.
type Report struct {
	State    State
	Attempts int
	Finished *Finished // nil if it is not finished
}

// Clean reports that no attempt at the shard has left temporaries at a destination: there was only one,
// and it has finished the shard.
func (r Report) Clean() bool {
	f := r.Finished
	return f != nil && r.Attempts == 1 && f.Attempt == 1 && !f.Failed()
}

// Progress has the state of each shard.
type Progress []Report

// Status reads the state of a shard.
func (s *Store) Status(index int) (r Report, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("state of shard %d: %w", index, err)
		}
	}()
	work, err := s.openWork(index)
	if err != nil {
		return r, err
	}
	defer work.Close()
	if r.Attempts, err = lastAttempt(work); err != nil || r.Attempts == 0 {
		return r, err
	}
	if r.Finished, _, err = s.lastRecord(work, index); err != nil {
		return r, err
	}
	r.State = Begun
	if r.Finished != nil {
		r.State = Done
		return r, nil
	}
	attempt, err := openDir(work, attemptName(r.Attempts))
	if err != nil {
		return r, err
	}
	defer attempt.Close()
	ended, err := exists(attempt, endedName)
	if ended {
		r.State = Stopped
	}
	return r, err
}

// Progress reads the states of all shards.
func (s *Store) Progress(ctx context.Context) (Progress, error) {
	p := make(Progress, len(s.Plan.Shards))
	for i := range p {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		var err error
		if p[i], err = s.Status(i); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// Wait waits until all shards are finished, or ctx ends. It calls changed with the states at
// the beginning, and whenever they have changed. It returns the last ones.
func (s *Store) Wait(ctx context.Context, poll time.Duration, changed func(Progress)) (Progress, error) {
	for before := ""; ; {
		p, err := s.Progress(ctx)
		if err != nil {
			return nil, err
		}
		if now := p.String(); now != before {
			before = now
			changed(p)
		}
		if len(p.Unfinished()) == 0 {
			return p, nil
		}
		if err := sleep(ctx, poll); err != nil {
			return nil, err
		}
	}
}

// String returns the number of shards in each state: "1 finished, 2 not begun".
func (p Progress) String() string {
	var parts []string
	for _, state := range []State{Done, Begun, Stopped, NotBegun} {
		if n := p.Count(state); n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, state))
		}
	}
	return strings.Join(parts, ", ")
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
	return p.where(func(s Report) bool { return s.Finished == nil })
}

// Failed returns the indexes of the finished shards with failures or mismatches. They can be
// run again.
func (p Progress) Failed() []int {
	return p.where(func(s Report) bool { return s.Finished != nil && s.Finished.Failed() })
}

// ToRun returns the indexes of the shards that are unfinished or failed.
func (p Progress) ToRun() []int {
	return p.where(func(s Report) bool { return s.Finished == nil || s.Finished.Failed() })
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
