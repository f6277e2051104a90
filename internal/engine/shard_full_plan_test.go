package engine

import (
	"context"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/dest"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/fsys/faultfs"
)

// A task whose attempt cannot be recorded, because the disk of the plan is full or fails, ends with
// exit code 1. Exit code 2 would end the tasks of all shards on Kubernetes.
func TestATaskOfAPlanOnAFullDisk(t *testing.T) {
	t.Parallel()
	src, base := newShardSource(t)
	want := wholeManifest(t, src)
	for _, cause := range []syscall.Errno{syscall.ENOSPC, syscall.EIO} {
		c := planCopy(t, sweepOptions(src, []string{base + cause.Error()}, dest.SyncNone), 1, nil)
		full := &fsys.FS{Fault: faultfs.When(func(call fsys.Call) bool {
			return (call.Op == fsys.OpCreate || call.Op == fsys.OpMkdir) && strings.HasPrefix(call.Path, c.path)
		}, faultfs.Fail(cause))}
		out := c.run(context.Background(), full, 0)
		require.ErrorIs(t, out.err, cause)
		require.Equal(t, 1, out.exitCode(), "%s", out)
		require.ErrorContains(t, out.err, "cannot be recorded in the plan")
		out = c.run(context.Background(), nil, 0)
		require.NoError(t, out.err)
		require.Empty(t, out.bad())
		c.requireComplete(want)
	}
}

// If the log of a task cannot be written, the message says that the log is in the plan, and has no
// free space of the destination.
func TestATaskWhoseLogCannotBeWritten(t *testing.T) {
	t.Parallel()
	src, base := newShardSource(t)
	want := wholeManifest(t, src)
	logDir := filepath.Join("work", "00000", "000001") + filepath.FromSlash("/./")
	for _, cause := range []syscall.Errno{syscall.ENOSPC, syscall.EIO} {
		c := planCopy(t, sweepOptions(src, []string{base + cause.Error()}, dest.SyncEnd), 1, nil)
		var begun atomic.Bool
		full := &fsys.FS{Fault: func(call fsys.Call) error {
			begun.Store(begun.Load() || call.Op == fsys.OpRead && strings.HasPrefix(call.Path, src))
			// The log is written through the directory of the attempt, which is opened once more for it.
			if begun.Load() && call.Op == fsys.OpWrite && strings.Contains(call.Path, logDir) {
				return cause
			}
			return nil
		}}
		out := c.run(context.Background(), full, 0)
		require.Equal(t, 1, out.exitCode(), "%s", out)
		require.Contains(t, out.String(), "the log of the task, in the plan, cannot be written: "+cause.Error())
		require.NotContains(t, out.String(), " free)")
		out = c.run(context.Background(), nil, 0)
		require.NoError(t, out.err)
		require.Empty(t, out.bad())
		c.requireComplete(want)
	}
}
