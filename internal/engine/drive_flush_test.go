package engine

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/dest"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/fsys/faultfs"
	"github.com/seed65876f4f/sealift/internal/resume"
	"github.com/seed65876f4f/sealift/internal/treetest"
)

// Where each file is synced separately, the drive's cache is flushed after the file has its
// name and before the manifest has one.
func TestDrivesAreFlushedBeforeTheManifest(t *testing.T) {
	t.Parallel()
	for _, fails := range []bool{false, true} {
		dir := t.TempDir()
		write(t, dir, "src", treetest.Pattern(100_000, 1), since)
		o := sweepOptions(filepath.Join(dir, "src"), []string{filepath.Join(dir, "dst")}, dest.SyncEnd)
		var mu sync.Mutex
		var seen []string
		sys := faultfs.New(func(op fsys.Op, name string) error {
			mu.Lock()
			defer mu.Unlock()
			switch op {
			case fsys.OpSyncDrive:
				seen = append(seen, "drive")
				if fails {
					return syscall.EIO
				}
			case fsys.OpLink, fsys.OpRename:
				seen = append(seen, name)
			}
			return nil
		})
		o.FS = sys
		out := watched(t, o)
		drive := slices.Index(seen, "drive")
		require.Greater(t, drive, slices.Index(seen, "dst"), "%q", seen)
		manifest := slices.Index(seen, "dst.sha256")
		if fails {
			require.Equal(t, -1, manifest, "%q", seen)
			require.EqualValues(t, 1, out.summary.Errors, "%s", out)
			_, err := os.Lstat(filepath.Join(dir, "dst.sha256"))
			require.ErrorIs(t, err, os.ErrNotExist)
			continue
		}
		require.NoError(t, out.err)
		require.Zero(t, out.summary.Errors, "%s", out)
		require.Greater(t, manifest, drive, "%q", seen)
	}
}

// A checkpoint lists files as durable only after the drive's cache was flushed.
func TestDrivesAreFlushedBeforeACheckpoint(t *testing.T) {
	t.Parallel()
	for _, fails := range []bool{false, true} {
		dir := t.TempDir()
		write(t, dir, "src", treetest.Pattern(100_000, 1), since)
		o := sweepOptions(filepath.Join(dir, "src"), []string{filepath.Join(dir, "dst")}, dest.SyncEnd)
		ctx, cancel := context.WithCancel(t.Context())
		var flushed atomic.Bool
		sys := faultfs.New(func(op fsys.Op, name string) error {
			switch {
			case (op == fsys.OpLink || op == fsys.OpRename) && name == "dst":
				cancel()
			case op == fsys.OpSyncDrive:
				flushed.Store(true)
				if fails {
					return syscall.EIO
				}
			}
			return nil
		})
		o.FS = sys
		_, err := Run(ctx, &o, &counters.Set{})
		require.ErrorIs(t, err, context.Canceled)
		require.True(t, flushed.Load())
		names, err := filepath.Glob(filepath.Join(dir, resume.JournalName("dst"), "log.*"))
		require.NoError(t, err)
		require.Len(t, names, 1)
		log, err := os.ReadFile(names[0])
		require.NoError(t, err)
		require.Contains(t, string(log), " f ")
		require.Equal(t, !fails, strings.Contains(string(log), " c "), "%s", log)
	}
}
