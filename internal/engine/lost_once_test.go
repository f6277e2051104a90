package engine

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/dest"
	"github.com/seed65876f4f/sealift/internal/event"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/fsys/faultfs"
)

// failingAt makes all operations of the kinds fail below a directory.
func failingAt(dir string, err error, when func() bool, kinds ...fsys.Op) faultfs.Injector {
	return faultfs.OnOp(faultfs.When(func(c fsys.Call) bool {
		return strings.HasPrefix(c.Path, dir) && when()
	}, faultfs.Fail(err)), kinds...)
}

var writing = []fsys.Op{
	fsys.OpCreate, fsys.OpMkdir, fsys.OpLink, fsys.OpRename, fsys.OpRemove, fsys.OpWrite, fsys.OpSync, fsys.OpSyncFS,
	fsys.OpChmod, fsys.OpTimes, fsys.OpTruncate,
}

// A destination whose device fails while the run opens it is dropped, with the step that failed.
func TestADestinationThatFailsWhenItIsOpened(t *testing.T) {
	t.Parallel()
	src, dst := sourceAndDestination(t)
	write(t, src, "file", []byte("content"), since)
	for _, mode := range []dest.SyncMode{dest.SyncNone, dest.SyncEnd} {
		dropped := 0
		for nth := int64(0); nth < 40; nth++ {
			target := fmt.Sprint(dst, mode, nth)
			if nth%2 == 0 {
				write(t, target, "existing", nil, since)
			}
			var calls atomic.Int64
			o := sweepOptions(src, []string{target}, mode)
			o.FS = &fsys.FS{Fault: failingAt(target, syscall.EIO, func() bool { return calls.Add(1) > nth },
				append([]fsys.Op{fsys.OpOpen, fsys.OpOpenDir, fsys.OpStat, fsys.OpList}, writing...)...)}
			out := watched(t, o)
			if out.err != nil && out.summary == nil { // refused
				continue
			}
			if lost := out.summary.Targets[0].Lost; lost != nil {
				dropped++
				require.NotEqual(t, syscall.EIO.Error(), lost.Error(), "operation %d", nth)
			}
		}
		require.Greater(t, dropped, 10)
	}
}

// A destination that becomes read-only is reported once.
func TestADestinationThatBecomesReadOnly(t *testing.T) {
	t.Parallel()
	linuxOnly(t, "Windows reports a read-only disk with another error")
	for _, mode := range []dest.SyncMode{dest.SyncEnd, dest.SyncFile} {
		src, dst := sourceAndDestination(t)
		for i := range 50 {
			write(t, src, fmt.Sprint(i), []byte("x"), since)
		}
		o := sweepOptions(src, []string{dst}, mode)
		var made atomic.Int64
		readOnly := func() bool { return made.Load() > 10 }
		count := faultfs.OnOp(func(fsys.Call) error { made.Add(1); return nil }, fsys.OpCreate)
		o.FS = &fsys.FS{Fault: faultfs.All(count, failingAt(dst, syscall.EROFS, readOnly, writing...))}
		out := watched(t, o)
		require.ErrorIs(t, out.summary.Targets[0].Lost, syscall.EROFS)
		require.Equal(t, 1, out.messages(syscall.EROFS.Error())-out.warnings(syscall.EROFS), "%s", out)
	}
}

// warnings counts the warnings with a cause.
func (o *runReport) warnings(cause error) (n int) {
	for _, e := range o.events {
		if e.Kind == event.Warning && strings.Contains(e.Err.Error(), cause.Error()) {
			n++
		}
	}
	return n
}

// A device that fails while workers read it back is reported once, not for each file that a worker
// has open.
func TestADeviceThatFailsWhileItIsReadBack(t *testing.T) {
	t.Parallel()
	linuxOnly(t, "Windows reports a failing disk with another error")
	src, dst := sourceAndDestination(t)
	for i := range 50 {
		write(t, src, fmt.Sprint(i), []byte("x"), since)
	}
	o := verifying(VerifyDest, src, dst)
	o.Workers = 4
	c := &counters.Set{}
	var reading sync.WaitGroup
	reading.Add(o.Workers)
	var reads atomic.Int64
	o.FS = &fsys.FS{Fault: func(call fsys.Call) error {
		if counters.Phase(c.Phase.Load()) != counters.PhaseVerifying || !strings.HasPrefix(call.Path, dst) {
			return nil
		}
		if call.Op == fsys.OpRead && reads.Add(1) <= int64(o.Workers) {
			reading.Done()
			reading.Wait() // all workers have a file open
			return syscall.EIO
		}
		if reads.Load() >= int64(o.Workers) && slices.Contains(writing, call.Op) {
			return syscall.EROFS
		}
		return nil
	}}
	out := runCounted(t, o, c)
	require.ErrorIs(t, out.summary.Targets[0].Lost, syscall.EIO)
	require.Len(t, out.bad(), 2, "%s", out) // and that there is no manifest
}
