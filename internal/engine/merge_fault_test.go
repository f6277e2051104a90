package engine

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/dest"
	"github.com/seed65876f4f/sealift/internal/event"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/fsys/faultfs"
)

// faulty counts the operations of a run and records the first one that failed.
type faulty struct {
	armed atomic.Bool // calls count
	calls atomic.Int64
	at    atomic.Pointer[fsys.Call] // the first call that failed
}

// from fails the n-th operation, and all later ones as after a kill.
func (f *faulty) from(n int64) func(fsys.Call) error {
	return func(c fsys.Call) error {
		if !f.armed.Load() || f.calls.Add(1) < n {
			return nil
		}
		f.at.CompareAndSwap(nil, &c)
		return syscall.EIO
	}
}

// A merge that is killed before any of its operations is completed by the next one.
func TestAKilledMergeRunsAgain(t *testing.T) {
	stride := sweepStride(17)
	for n, ended := 1+rand.Int64N(stride), false; !ended; n += stride {
		if !t.Run(fmt.Sprint("before operation ", n), func(t *testing.T) { ended = !killMerge(t, n) }) {
			return
		}
	}
}

// killMerge kills a merge before its n-th operation and completes it. It returns false if the
// merge has fewer operations.
func killMerge(t *testing.T, n int64) (killed bool) {
	c := splitCopy(t, 3, dest.SyncEnd)
	f := &faulty{}
	c.options.FS = &fsys.FS{Fault: f.from(n)}
	s, _, err := c.merge(func(*MergeOptions) { f.armed.Store(true) })
	killed = f.calls.Load() >= n
	if killed {
		t.Logf("%v %q", f.at.Load().Op, f.at.Load().Name)
		c.options.FS = nil
		var events []event.Event
		s, events, err = c.merge(nil)
		require.Empty(t, badOf(events))
	}
	require.NoError(t, err)
	require.True(t, s.Merged || s.Already)
	c.requireMerged()
	return killed
}

// The power is cut before any operation of a merge, and any part of the unflushed changes is lost.
// The next merge completes the copy.
func TestAMergeAfterAPowerCut(t *testing.T) {
	stride := sweepStride(19)
	linuxOnly(t, "it renames directories that are open")
	for n := 1 + rand.Int64N(stride); ; n += stride {
		c := planLittle(t, 3, dest.SyncEnd)
		c.options.numbersChange = true // Lose makes every directory anew
		for i := range 3 {
			c.run(nil, i)
		}
		disk, err := faultfs.NewDisk(c.base, true)
		require.NoError(t, err)
		var armed atomic.Bool
		cut := disk.CutAt(n)
		c.options.FS = &fsys.FS{Disk: disk, Fault: func(call fsys.Call) error {
			if !armed.Load() {
				return nil
			}
			return cut(call)
		}}
		_, _, err = c.merge(func(*MergeOptions) { armed.Store(true) })
		c.options.FS = nil
		if disk.Calls() < n {
			require.NoError(t, err)
		}
		seed := rand.Uint64()
		coin := rand.New(rand.NewPCG(seed, 0))
		after := c.base + "-after"
		require.NoError(t, disk.Lose(after, func() bool { return coin.IntN(2) == 0 }))
		require.NoError(t, os.RemoveAll(c.base))
		require.NoError(t, os.Rename(after, c.base))
		s, events, err := c.merge(nil)
		require.NoError(t, err, "operation %d, seed %d", n, seed)
		t.Logf("operation %d, seed %d, already %t", n, seed, s.Already)
		require.Empty(t, badOf(events), "operation %d, seed %d", n, seed)
		c.requireMerged()
		require.NoError(t, os.RemoveAll(filepath.Dir(c.src)))
		if disk.Calls() < n {
			return
		}
	}
}
