package shard

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"sync"
	"time"

	"github.com/seed65876f4f/sealift/internal/fsys"
)

// DefaultDead is the time after which an observer considers an attempt dead if its counter has not
// changed. Caches of network file systems show changes after at most one minute (acdirmax in
// nfs(5)).
const DefaultDead = 2 * time.Minute

// renewals is the number of renewals of the counter within the time Dead.
const renewals = 8

// The files of an attempt, and of a shard.
const (
	counterName   = "counter"
	endedName     = "ended"
	candidateName = "candidate"
	finishedName  = "finished"
	formerName    = "finished-before" // an earlier finish record, in the directory of the attempt that replaces it
)

const maxAttempts = 999_999

// attemptName returns the name of an attempt's directory.
func attemptName(number int) string { return fmt.Sprintf("%06d", number) }

var (
	// ErrRightLost says that an attempt has not renewed its counter in time. It must not commit
	// anything: another attempt may have begun.
	ErrRightLost = errors.New("this task was not able to renew its claim of the shard in time; another task may copy the shard now")

	// ErrSuperseded says that a later attempt has begun.
	ErrSuperseded = errors.New("another task has taken over the shard")
)

// A FinishedError says that a shard is finished.
type FinishedError struct{ Record *Finished }

func (e *FinishedError) Error() string {
	return fmt.Sprintf("shard %d is finished", e.Record.Shard)
}

// AttemptOptions are the options of Begin.
type AttemptOptions struct {
	Again bool                 // begin although the shard is finished
	Dead  time.Duration        // 0 for DefaultDead; the same for all attempts
	Clock func() time.Duration // monotonic; nil for fsys.Elapsed
	// Waiting is called once if another attempt may be alive; nil for nothing.
	Waiting func()
}

func (o AttemptOptions) withDefaults() AttemptOptions {
	if o.Dead == 0 {
		o.Dead = DefaultDead
	}
	if o.Clock == nil {
		o.Clock = fsys.Elapsed
	}
	return o
}

// Attempt is one attempt at a shard. The owner of the attempt with the highest number may commit
// as long as it renews its counter.
type Attempt struct {
	// Dir is the directory of the attempt, for manifest parts and outcomes.
	Dir     *fsys.Dir
	Number  int       // counted from 1
	Earlier []Earlier // the attempts before
	Former  *Finished // the finish record that this attempt replaces, with AttemptOptions.Again; else nil

	store    *Store
	index    int
	opts     AttemptOptions
	attempts *fsys.Dir // the directory of all attempts

	mu struct {
		sync.Mutex
		renewed time.Duration // when the last successful renewal began
		lost    error         // sticky
	}
	renewing sync.Mutex // a renewal is under way
	counter  uint64     // what was written last; guarded by renewing

	finished bool // Finish has made the record
}

// OpenEarlier opens the directory of an earlier attempt.
func (a *Attempt) OpenEarlier(number int) (*fsys.Dir, error) {
	return openDir(a.attempts, attemptName(number))
}

// Earlier is an attempt before the current one.
type Earlier struct {
	Number int
	TempID string // in the names of its temporaries
	// Ended says that its process has stopped writing. Only then its partial files can be
	// continued; otherwise they have to be removed.
	Ended bool
}

// Begin makes the next attempt at a shard. While another attempt is alive, Begin waits. The
// error is a *FinishedError if the shard is finished.
//
// Before the owner decides about any name in a directory, it must remove the temporaries of
// earlier attempts there. See docs/adr/0005-plan-run-merge.md for the reasons.
func (s *Store) Begin(ctx context.Context, index int, o AttemptOptions) (*Attempt, error) {
	o = o.withDefaults()
	attempts, err := s.openWork(index)
	if err != nil {
		return nil, err
	}
	a := &Attempt{store: s, index: index, opts: o, attempts: attempts}
	if err := a.claim(ctx); err != nil {
		a.Close()
		return nil, err
	}
	if err := a.fence(); err != nil {
		return nil, errors.Join(err, a.End())
	}
	return a, nil
}

// openWork opens the directory with the attempts at a shard.
func (s *Store) openWork(index int) (*fsys.Dir, error) {
	if err := s.checkIndex(index); err != nil {
		return nil, err
	}
	work, err := openDir(s.dir, workName)
	if err != nil {
		return nil, err
	}
	defer work.Close()
	return openDir(work, shardName(index))
}

// claim makes the directory of the attempt when no earlier attempt is alive.
func (a *Attempt) claim(ctx context.Context) error {
	watch := observer{attempts: a.attempts, opts: a.opts}
	for {
		last, err := lastAttempt(a.attempts)
		if err != nil {
			return err
		}
		if !a.opts.Again {
			if err := a.checkUnfinished(); err != nil {
				return err
			}
		}
		dead, err := watch.isDead(last)
		if err != nil {
			return err
		}
		if !dead {
			if a.opts.Waiting != nil {
				a.opts.Waiting()
				a.opts.Waiting = nil
			}
			if err := sleep(ctx, a.opts.Dead/renewals); err != nil {
				return err
			}
			continue
		}
		if last == maxAttempts {
			return fmt.Errorf("there were %d attempts at this shard; make a new plan", maxAttempts)
		}
		begun := a.opts.Clock()
		switch err := a.attempts.Mkdir(attemptName(last + 1)); {
		case errors.Is(err, fs.ErrExist):
			continue // another observer was faster
		case err != nil:
			return err
		}
		a.Number = last + 1
		if a.Dir, err = openDir(a.attempts, attemptName(a.Number)); err != nil {
			return err
		}
		a.counter, a.mu.renewed = 1, begun
		// The directory must be on the device before any temporary has the attempt's id in its name.
		// The counter need not be: an attempt without a counter is considered dead after the same
		// time.
		return errors.Join(writeUnsynced(a.Dir, counterName, "1\n"), a.attempts.SyncToDrive())
	}
}

// checkUnfinished returns a *FinishedError if the shard is finished.
func (a *Attempt) checkUnfinished() error {
	record, err := a.store.finished(a.attempts, a.index)
	if record != nil {
		err = &FinishedError{record}
	}
	return err
}

// fence makes it impossible for earlier attempts to finish the shard.
func (a *Attempt) fence() error {
	for n := 1; n < a.Number; n++ {
		e := Earlier{Number: n, TempID: a.store.tempID(a.index, n)}
		dir, err := openDir(a.attempts, attemptName(n))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		err = dir.Remove(candidateName)
		if err == nil {
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
	if !a.opts.Again {
		return a.checkUnfinished()
	}
	err := a.attempts.MoveTo(finishedName, a.Dir, formerName)
	if err == nil {
		a.Former, err = a.store.readFinished(a.Dir, formerName, a.index)
	} else if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, a.attempts.SyncToDrive())
}

// TempID returns the id for fsys.Dir.SetTempID of the destinations.
func (a *Attempt) TempID() string { return a.store.tempID(a.index, a.Number) }

func (s *Store) tempID(index, number int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%d/%d", s.Plan.ID, index, number))
	return hex.EncodeToString(sum[:8])
}

// MayCommit returns nil as long as the attempt may commit. The caller must create the temporary
// file before the call and commit immediately after it. If the attempt loses its right in between,
// its successor therefore finds the temporary and removes it.
func (a *Attempt) MayCommit() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.mu.lost == nil && a.opts.Clock()-a.mu.renewed >= a.opts.Dead/2 {
		a.mu.lost = ErrRightLost
	}
	return a.mu.lost
}

// KeepRenewed renews the counter until ctx ends. It returns early, with an error, if the right to
// commit is lost.
func (a *Attempt) KeepRenewed(ctx context.Context) error {
	for {
		if sleep(ctx, a.opts.Dead/renewals) != nil {
			return nil
		}
		if err := a.Renew(); err != nil { // a later renewal may succeed before the right expires
			if lost := a.MayCommit(); lost != nil {
				if errors.Is(err, lost) {
					return lost
				}
				return errors.Join(lost, err)
			}
		}
	}
}

// Renew renews the counter once. A failed renewal does not end the right at once: the attempt may
// commit as long as MayCommit returns nil.
func (a *Attempt) Renew() error {
	a.renewing.Lock()
	defer a.renewing.Unlock()
	begun := a.opts.Clock()
	a.counter++
	if err := writeFile(a.Dir, counterName, strconv.FormatUint(a.counter, 10)+"\n"); err != nil {
		return err
	}
	if err := a.checkSuccessor(); err != nil {
		return err
	}
	if err := a.MayCommit(); err != nil { // the right must not expire in between
		return err
	}
	a.mu.Lock()
	a.mu.renewed = begun
	a.mu.Unlock()
	return nil
}

// checkSuccessor ends the right to commit if there is a later attempt.
func (a *Attempt) checkSuccessor() error {
	later, err := exists(a.attempts, attemptName(a.Number+1))
	if err == nil && later {
		err = ErrSuperseded
		a.mu.Lock()
		if a.mu.lost == nil {
			a.mu.lost = err
		}
		a.mu.Unlock()
	}
	return err
}

// Finish records that every entry of the shard has an outcome. Everything else that the attempt has
// written must be on the device before the call, except the names of the parts: Finish syncs the
// directory that contains them. The error is ErrSuperseded or ErrRightLost if another attempt has
// to finish the shard.
func (a *Attempt) Finish(record Finished) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("shard %d cannot be recorded as finished: %w", a.index, err)
		}
	}()
	record.Plan, record.Shard, record.Attempt = a.store.Plan.ID, a.index, a.Number
	text, err := record.encode()
	if err != nil {
		return err
	}
	if _, err := a.store.parseFinished(text, a.index); err != nil {
		return err
	}
	if err := writeFile(a.Dir, candidateName, string(text)); err != nil {
		return err
	}
	if err := a.checkSuccessor(); err != nil {
		return err
	}
	if err := a.MayCommit(); err != nil {
		return err
	}
	switch err := a.Dir.Link(candidateName, a.attempts, finishedName); {
	case errors.Is(err, fs.ErrNotExist):
		return ErrSuperseded // a successor has removed the candidate
	case errors.Is(err, fs.ErrExist):
		if !a.isOwn() {
			return ErrSuperseded
		}
	case err != nil:
		return err
	}
	if err := a.attempts.SyncToDrive(); err != nil {
		return err
	}
	a.finished = true
	return nil
}

// isOwn reports whether this attempt made the finish record. NFS can repeat a request whose answer
// was lost, and then report that the name exists.
func (a *Attempt) isOwn() bool {
	mine, err := a.Dir.Lstat(candidateName)
	if err != nil {
		return false
	}
	there, err := a.attempts.Lstat(finishedName)
	return err == nil && mine.ID == there.ID
}

// End records that this process writes nothing more for the shard, and closes the attempt. The
// next attempt can then begin at once and continue partial files. The caller must have ended
// everything that writes for the shard. Without this record, the next attempt has to wait.
func (a *Attempt) End() error {
	defer a.Close()
	if a.finished { // if the file is lost, only an attempt that runs the shard again has to wait
		return writeUnsynced(a.Dir, endedName, "ended\n")
	}
	return writeFile(a.Dir, endedName, "ended\n")
}

// Close frees descriptors. It writes nothing.
func (a *Attempt) Close() {
	if a.Dir != nil {
		a.Dir.Close()
	}
	a.attempts.Close()
}

// writeFile writes a small file into a directory of the plan, atomically and durably.
func writeFile(dir *fsys.Dir, name, text string) error {
	file, err := newFile(dir, []byte(text))
	if err != nil {
		return err
	}
	defer file.Abort()
	if err := file.SyncToDrive(); err != nil {
		return err
	}
	if err := file.CommitReplacing(name); err != nil {
		return err
	}
	return dir.SyncToDrive()
}

// writeUnsynced is writeFile without a sync: after a power cut, the file may be lost or empty.
func writeUnsynced(dir *fsys.Dir, name, text string) error {
	file, err := newFile(dir, []byte(text))
	if err != nil {
		return err
	}
	defer file.Abort()
	return file.CommitReplacing(name)
}

// newFile creates a file without a name in a directory of the plan, and writes text to it.
func newFile(dir *fsys.Dir, text []byte) (*fsys.Pending, error) {
	file, err := dir.Create(false)
	if err != nil {
		return nil, err
	}
	if err := file.WriteAt(text, 0); err != nil {
		file.Abort()
		return nil, err
	}
	return file, nil
}
