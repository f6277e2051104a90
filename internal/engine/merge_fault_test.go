package engine

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/fsys"
)

// faulty is what the faults of a sweep have reached.
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
	stride := sweepStride(5)
	for n := 1 + rand.Int64N(stride); ; n += stride {
		c := splitCopy(t, 3, SyncEnd)
		f := &faulty{}
		c.options.FS = &fsys.FS{Fault: f.from(n)}
		s, _, err := c.merge(func(*MergeOptions) { f.armed.Store(true) })
		if f.calls.Load() < n {
			require.NoError(t, err)
			require.True(t, s.Merged)
			c.requireMerged()
			return
		}
		c.options.FS = nil
		s, events, err := c.merge(nil)
		require.NoError(t, err, "operation %d: %+v", n, *f.at.Load())
		require.Empty(t, badOf(events), "operation %d: %+v", n, *f.at.Load())
		t.Logf("operation %d: %v %q, already %t", n, f.at.Load().Op, f.at.Load().Name, s.Already)
		c.requireMerged()
		require.NoError(t, os.RemoveAll(filepath.Dir(c.src)))
	}
}
