package shard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"github.com/seed65876f4f/sealift/internal/fsys"
)

// An attempt is a directory that mkdir has numbered. The highest number counts. These rules make
// each lower attempt harmless, also if its process was stopped and goes on:
//
//  1. An attempt removes the candidates of lower attempts, and then reads the finish records.
//  2. In each directory of a destination it removes their temporaries before it decides there.
//  3. A file that replaces another one, or that finishes a shard, first has a name that a higher
//     attempt removes. Then its process checks that there is no higher attempt (Current), and then renames or links.

// The files of a shard, and of an attempt.
const (
	lockName       = "lock"
	finishedPrefix = "finished-" // a number follows; no record is removed
	candidateName  = "candidate" // a record that is not linked yet
	endedName      = "ended"     // the process of the attempt writes nothing more
	partName       = "part"
)

// maxAttempts is the largest number of an attempt. It fits into the name of a temporary.
const maxAttempts = 999_999

func attemptName(number int) string { return fmt.Sprintf("%06d", number) }

// ErrSuperseded says that a higher attempt has begun.
var ErrSuperseded = errors.New("another task has begun this shard again")

// A FinishedError says that a shard is finished without failures.
type FinishedError struct{ Record *Finished }

func (e *FinishedError) Error() string { return fmt.Sprintf("shard %d is finished", e.Record.Shard) }

// Finished is the record of a finished shard.
type Finished struct {
	Plan    string `json:"plan"` // these three are set by Finish
	Shard   int    `json:"shard"`
	Attempt int    `json:"attempt"`

	// The numbers of entries that have this outcome at one destination or more.
	Failures   int64 `json:"failures"`
	Mismatches int64 `json:"mismatches"`
	Conflicts  int64 `json:"conflicts"`

	Counts     json.RawMessage `json:"counts"` // what the task has counted, for the merge
	PartSize   int64           `json:"part_size"`
	PartSHA256 string          `json:"part_sha256"`
}

// Failed reports whether the shard can be run again.
func (f *Finished) Failed() bool { return f.Failures+f.Mismatches > 0 }

// AttemptOptions are the options of Begin.
type AttemptOptions struct {
	Patience time.Duration        // how long a held lock is waited for; 0 for DefaultPatience
	Poll     time.Duration        // how often it is tried; 0 for a second
	Clock    func() time.Duration // monotonic; nil for fsys.Elapsed
	Waiting  func()               // called once if the lock is held; nil for nothing
	Warn     func(error)          // called once if the lock call fails; nil for nothing
}

// DefaultPatience is how long a task waits for the lock of its shard. The lock decides nothing: a
// file server may have lost the end of the process that holds it.
const DefaultPatience = 2 * time.Minute

func (o AttemptOptions) withDefaults() AttemptOptions {
	if o.Patience == 0 {
		o.Patience = DefaultPatience
	}
	if o.Poll == 0 {
		o.Poll = time.Second
	}
	if o.Clock == nil {
		o.Clock = fsys.Elapsed
	}
	return o
}

// Attempt is one attempt at a shard.
type Attempt struct {
	Dir     *fsys.Dir // directory of the attempt, which has its logs
	Number  int       // counted from 1
	Earlier []Earlier // the attempts before
	Former  *Finished // the finish record with failures after which this attempt runs the shard again, or nil

	store    *Store
	index    int
	opts     AttemptOptions
	work     *fsys.Dir // directory of all attempts at the shard
	lock     *fsys.Lock
	record   int  // number of the record that this attempt makes
	finished bool // Finish has made it
}

// Earlier is an attempt before the current one.
type Earlier struct {
	Number int
	TempID string // the id in the names of its temporaries
	Ended  bool   // its process writes nothing more; only then its partial files can be continued
}

// Begin makes the next attempt at a shard. While another process has the lock of the shard, Begin
// waits, but not for ever. The error is a *FinishedError if the shard is finished without failures.
func (s *Store) Begin(ctx context.Context, index int, o AttemptOptions) (*Attempt, error) {
	work, err := s.openWork(index)
	if err != nil {
		return nil, err
	}
	a := &Attempt{store: s, index: index, opts: o.withDefaults(), work: work}
	if err = a.wait(ctx); err == nil {
		err = a.claim()
	}
	if err != nil {
		a.Close()
		return nil, err
	}
	if err := a.fence(); err != nil {
		return nil, errors.Join(err, a.End())
	}
	return a, nil
}

// wait waits for the lock of the shard. The lock saves work and decides nothing, so it is not
// waited for longer than the patience, and an error does not end the attempt.
func (a *Attempt) wait(ctx context.Context) error {
	begun := a.opts.Clock()
	for {
		lock, err := a.work.Lock(lockName)
		if err == nil {
			a.lock = lock
			return a.readRecord()
		}
		if !errors.Is(err, fsys.ErrLocked) {
			if a.opts.Warn != nil {
				a.opts.Warn(fmt.Errorf("the lock of a shard does not work in the directory of the plan, so two tasks may copy one shard at the same time: %w", err))
			}
			return a.readRecord()
		}
		if err := a.readRecord(); err != nil {
			return err
		}
		if a.opts.Clock()-begun >= a.opts.Patience {
			return nil
		}
		if a.opts.Waiting != nil {
			a.opts.Waiting()
			a.opts.Waiting = nil
		}
		if err := sleep(ctx, a.opts.Poll); err != nil {
			return err
		}
	}
}

// readRecord reads the last finish record. The error is a *FinishedError if it has no failures.
func (a *Attempt) readRecord() error {
	record, number, err := a.store.lastRecord(a.work, a.index)
	if err == nil && record != nil && !record.Failed() {
		err = &FinishedError{record}
	}
	a.Former, a.record = record, number+1
	return err
}

// claim makes the directory of the attempt.
func (a *Attempt) claim() error {
	for {
		last, err := lastAttempt(a.work)
		if err != nil {
			return err
		}
		if last == maxAttempts {
			return fmt.Errorf("there were %d attempts at this shard; make a new plan", maxAttempts)
		}
		switch err := a.work.Mkdir(attemptName(last + 1)); {
		case errors.Is(err, fs.ErrExist):
			continue // another process was faster
		case err != nil:
			return err
		}
		a.Number = last + 1
		if a.Dir, err = openDir(a.work, attemptName(a.Number)); err != nil {
			return err
		}
		return a.work.SyncToDrive() // it is durable before any temporary has the attempt in its name
	}
}

// fence removes what lower attempts could finish the shard with, and then reads the records again.
func (a *Attempt) fence() error {
	for n := 1; n < a.Number; n++ {
		e := Earlier{Number: n, TempID: a.store.tempID(a.index, n)}
		dir, err := openDir(a.work, attemptName(n))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if err = dir.Remove(candidateName); err == nil {
			err = dir.SyncToDrive()
		} else if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		if err == nil {
			e.Ended, err = exists(dir, endedName)
		}
		dir.Close()
		if err != nil {
			return err
		}
		a.Earlier = append(a.Earlier, e)
	}
	return a.readRecord()
}

// OpenEarlier opens the directory of an earlier attempt.
func (a *Attempt) OpenEarlier(number int) (*fsys.Dir, error) {
	return openDir(a.work, attemptName(number))
}

// planDigits is how many digits of the id of a plan are in the names of its temporaries.
const planDigits = 6

// tempID returns the id of an attempt in the names of its temporaries: 16 hexadecimal digits that
// begin with those of the plan.
func (s *Store) tempID(index, number int) string {
	return fmt.Sprintf("%s%05x%05x", s.Plan.ID[:planDigits], index, number)
}

// TempID returns the id for fsys.Dir.SetTempID of the destinations.
func (a *Attempt) TempID() string { return a.store.tempID(a.index, a.Number) }

// Precedes reports whether a lower attempt at the same shard has made the temporary of that name.
func (a *Attempt) Precedes(name string) bool {
	id, ok := fsys.TempID(name)
	own := a.TempID()
	return ok && strings.HasPrefix(id, own[:planDigits+5]) && id < own
}

// Current returns ErrSuperseded if a higher attempt has begun. Before it replaces or removes a name,
// the caller makes a temporary, and then calls Current.
func (a *Attempt) Current() error {
	later, err := exists(a.work, attemptName(a.Number+1))
	if err == nil && later {
		err = ErrSuperseded
	}
	return err
}

// Finish records that every entry of the shard has an outcome. Everything else that the attempt has
// written must be on the device before the call, except the name of the part. The error is
// ErrSuperseded if another attempt has to finish the shard, and that of Ended if the plan has ended.
func (a *Attempt) Finish(record Finished) (err error) {
	if err := a.store.Ended(); err != nil { // without this attempt
		return err
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("shard %d cannot be recorded as finished: %w", a.index, err)
		}
	}()
	record.Plan, record.Shard, record.Attempt = a.store.Plan.ID, a.index, a.Number
	text, err := json.Marshal(record)
	if err != nil {
		return err
	}
	if err := writeFile(a.Dir, candidateName, string(text)+"\n", (*fsys.Pending).CommitReplacing); err != nil {
		return err
	}
	if err := a.Current(); err != nil {
		return err
	}
	name := finishedPrefix + strconv.Itoa(a.record)
	switch err := a.Dir.Link(candidateName, a.work, name); {
	case errors.Is(err, fs.ErrNotExist):
		return ErrSuperseded // a higher attempt has removed the candidate
	case errors.Is(err, fs.ErrExist) && a.isOwn(name): // NFS has repeated a request whose answer was lost
	case errors.Is(err, fs.ErrExist):
		return ErrSuperseded
	case err != nil:
		return err
	}
	if err := a.work.SyncToDrive(); err != nil {
		return err
	}
	a.finished = true
	return nil
}

// isOwn reports whether this attempt made the finish record of that name.
func (a *Attempt) isOwn(name string) bool {
	mine, err := a.Dir.Lstat(candidateName)
	if err != nil {
		return false
	}
	there, err := a.work.Lstat(name)
	return err == nil && mine.ID == there.ID
}

// End records that this process writes nothing more for the shard, and closes the attempt. The
// caller must have ended everything that writes for it. Without this record, the next attempt
// begins partial files again.
func (a *Attempt) End() error {
	defer a.Close()
	if a.finished {
		return nil // there is nothing to continue
	}
	return writeFile(a.Dir, endedName, "ended\n", (*fsys.Pending).CommitReplacing)
}

// Close frees the lock and the descriptors. It writes nothing.
func (a *Attempt) Close() {
	if a.Dir != nil {
		a.Dir.Close()
	}
	if a.lock != nil {
		a.lock.Unlock()
	}
	a.work.Close()
}

// lastAttempt returns the highest number of an attempt, 0 if there is none.
func lastAttempt(work *fsys.Dir) (int, error) {
	return highest(work, func(name string) (int, bool) {
		n, err := strconv.Atoi(name)
		return n, err == nil && attemptName(n) == name
	})
}

// lastRecord returns the finish record with the highest number, and that number. The record is nil
// if the shard is not finished.
func (s *Store) lastRecord(work *fsys.Dir, index int) (*Finished, int, error) {
	last, err := highest(work, func(name string) (int, bool) {
		n, err := strconv.Atoi(strings.TrimPrefix(name, finishedPrefix))
		return n, err == nil && finishedPrefix+strconv.Itoa(n) == name
	})
	if err != nil || last == 0 {
		return nil, 0, err
	}
	text, err := readPrivate(work, finishedPrefix+strconv.Itoa(last), smallFile)
	f := &Finished{}
	if err == nil {
		err = json.Unmarshal(text, f)
	}
	if err == nil && (f.Plan != s.Plan.ID || f.Shard != index || f.Attempt < 1 || f.Attempt > maxAttempts || min(f.Failures, f.Mismatches, f.Conflicts, f.PartSize) < 0) {
		err = errors.New("it is not of this shard")
	}
	if err != nil {
		return nil, 0, fmt.Errorf("record of shard %d: %w", index, err)
	}
	return f, last, nil
}

// highest returns the highest number that the names in dir have, 0 if there is none.
func highest(dir *fsys.Dir, number func(name string) (int, bool)) (last int, err error) {
	listing, err := dir.List()
	if err != nil {
		return 0, err
	}
	for i := range listing.Len() {
		if n, ok := number(listing.Name(i)); ok {
			last = max(last, n)
		}
	}
	return last, nil
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
