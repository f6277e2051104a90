package catalog

import (
	"context"
	"errors"
	"time"

	"github.com/seed65876f4f/sealift/internal/fsys"
)

// fileLockName is the file that a process locks while it changes manifests in its directory.
var fileLockName = fsys.SharedTempName("lock")

const (
	lockWait  = time.Minute           // after this, the holder is probably stopped
	lockPause = 10 * time.Millisecond // between two attempts
)

// lock lets the processes that change manifests in one directory take turns, so that each one
// merges the lines of the others. Without the lock, one process could rename its manifest
// over another one that it has not read. The returned function ends the turn. If the lock is
// not available for a minute, lock does without it: the caller still fails if it sees another
// manifest. The error is the cause of ctx's end during the wait.
func lock(ctx context.Context, home *fsys.Dir) (unlock func(), err error) {
	for begin := time.Now(); ; {
		l, err := home.Lock(fileLockName)
		if err == nil {
			return func() { removeLock(home, l) }, nil
		}
		if !errors.Is(err, fsys.ErrLocked) || time.Since(begin) > lockWait {
			return func() {}, nil
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(lockPause):
		}
	}
}

// removeLeftLock removes the file of a lock that a killed process has left, because a repeated run that
// finds nothing to change takes no lock.
func removeLeftLock(home *fsys.Dir) {
	if _, err := home.Lstat(fileLockName); err != nil {
		return
	}
	if l, err := home.Lock(fileLockName); err == nil {
		removeLock(home, l)
	}
}

// removeLock ends a lock. A file that is left does no harm: the lock ends with its descriptor.
func removeLock(home *fsys.Dir, l *fsys.Lock) {
	_ = home.Remove(fileLockName)
	l.Unlock()
}
