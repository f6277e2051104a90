package shard

import (
	"context"
	"errors"
	"io/fs"
	"strconv"
	"time"

	"github.com/seed65876f4f/sealift/internal/fsys"
)

// observer decides whether an attempt of another process is dead.
type observer struct {
	attempts *fsys.Dir      // the directory of all attempts
	opts     AttemptOptions // of the observer

	number  int    // of the attempt that is observed
	counter string // as read
	since   time.Duration
}

// isDead reports whether attempt number last is dead: there is none, its process has ended, or
// the observer has read the same counter for the time Dead.
func (o *observer) isDead(last int) (bool, error) {
	if last == 0 {
		return true, nil
	}
	dir, err := openDir(o.attempts, attemptName(last))
	if err != nil {
		return false, err
	}
	defer dir.Close()
	if ended, err := exists(dir, endedName); ended || err != nil {
		return ended, err
	}
	counter, err := readPrivate(dir, counterName, smallFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // it was killed before it wrote one
		return false, err
	}
	now := o.opts.Clock()
	if last != o.number || string(counter) != o.counter {
		o.number, o.counter, o.since = last, string(counter), now
	}
	return now-o.since >= o.opts.Dead, nil
}

// lastAttempt returns the highest number of an attempt, 0 if there is none.
func lastAttempt(attempts *fsys.Dir) (int, error) {
	listing, err := attempts.List()
	if err != nil {
		return 0, err
	}
	last := 0
	for i := range listing.Len() {
		if n, err := strconv.Atoi(listing.Name(i)); err == nil && n > 0 && n <= maxAttempts && attemptName(n) == listing.Name(i) {
			last = max(last, n)
		}
	}
	return last, nil
}

func exists(dir *fsys.Dir, name string) (bool, error) {
	_, err := dir.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// smallFile is the largest size of a counter or record that is read, in bytes.
const smallFile = 1 << 20

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
