//go:build linux

package engine_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/dest"
	"github.com/seed65876f4f/sealift/internal/engine"
	"github.com/seed65876f4f/sealift/internal/event"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/fsys/faultfs"
	"github.com/seed65876f4f/sealift/internal/policy"
	"github.com/seed65876f4f/sealift/internal/treetest"
)

// A run ends anywhere, and the source and the remains of the run are changed in any way. The
// next complete run leaves the source's tree and a correct manifest of it.
func TestPropertyResume(t *testing.T) {
	top := treetest.MemoryDir(t)
	checkNew(t, 12, func(t *rapid.T) {
		c := newTrial(t, top)
		defer c.remove()
		c.options.Sync = rapid.SampledFrom([]dest.SyncMode{dest.SyncEnd, dest.SyncEnd, dest.SyncFile, dest.SyncNone}).Draw(t, "sync")
		c.options.Policy = rapid.SampledFrom([]policy.Policy{policy.Default, policy.Checksum, policy.Always}).Draw(t, "policy")
		tree := c.tree(2)
		if rapid.IntRange(0, 7).Draw(t, "large") == 0 { // one that is continued in its middle
			c.options.BlockSize, c.options.Memory = 128<<10, 4<<20
			tree["large"] = treetest.File(string(treetest.Pattern(21<<20+5, 3)), c.mtime())
		}
		require.NoError(t, treetest.Make(c.source, tree))
		unfinished := true // so that what is at the destination is no conflict, however new
		for range rapid.IntRange(1, 3).Draw(t, "interruptions") {
			c.interrupt(rapid.Bool().Draw(t, "unplugged"))
			for _, target := range c.options.Targets {
				logs, err := filepath.Glob(filepath.Join(target, ".sealift-journal", "log.*"))
				require.NoError(t, err)
				unfinished = unfinished && len(logs) > 0 && !c.settled(target)
			}
			for range rapid.IntRange(0, 2).Draw(t, "mutations") {
				switch {
				case c.options.Policy != policy.Default:
					c.mutate(c.options.Policy == policy.Always)
				case unfinished:
					c.rewrite()
				}
			}
			for range rapid.IntRange(0, 2).Draw(t, "damages") {
				c.damage()
			}
		}
		require.Zero(t, c.finish().Errors)
		c.compare(false)
		c.checkManifests()
		summary := c.finish()
		entries, err := os.ReadDir(c.source)
		require.NoError(t, err)
		require.Equal(t, len(entries) == 0, summary.Warnings > 0, "an empty source has a warning")
		if c.options.Policy != policy.Always {
			require.Zero(t, summary.Files, "files copied by a further run")
		}
		c.compare(false)
		c.checkManifests()
	})
}

// atDestinations are the operations that only a destination sees.
var atDestinations = map[fsys.Op]bool{
	fsys.OpCreate: true, fsys.OpWrite: true, fsys.OpTruncate: true, fsys.OpChown: true, fsys.OpChmod: true,
	fsys.OpTimes: true, fsys.OpSetXattr: true, fsys.OpMkdir: true, fsys.OpSymlink: true, fsys.OpMknod: true,
	fsys.OpLink: true, fsys.OpRename: true, fsys.OpRemove: true, fsys.OpSync: true, fsys.OpSyncFS: true,
	fsys.OpWriteback: true, fsys.OpDropCache: true, fsys.OpCloseFile: true, fsys.OpLock: true,
	fsys.OpClone: true, fsys.OpCopyRange: true, fsys.OpPreallocate: true, fsys.OpSyncDrive: true,
}

// interrupt runs up to an operation. The run is stopped there, or the disks of all
// destinations are unplugged.
func (c *trial) interrupt(unplugged bool) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	last := int64(rapid.IntRange(20, 600).Draw(c.T, "last operation"))
	gone := rapid.SampledFrom([]error{unix.EIO, unix.ENODEV, unix.ENOSPC}).Draw(c.T, "error")
	var count atomic.Int64
	sys := faultfs.New(func(op fsys.Op, _ string) error {
		switch over := count.Add(1) > last; {
		case over && unplugged && atDestinations[op]:
			return gone
		case over && !unplugged:
			cancel()
		}
		return nil
	})
	o := c.options
	o.FS = sys
	_, err := engine.Run(ctx, &o, &counters.Set{})
	if unplugged {
		require.NoError(c, ctx.Err())
	} else if err != nil {
		require.ErrorIs(c, err, context.Canceled)
	}
}

// rewrite gives a file of the source another content and any time.
func (c *trial) rewrite() {
	var files []string
	require.NoError(c, filepath.WalkDir(c.source, func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			files = append(files, p)
		}
		return err
	}))
	if len(files) == 0 {
		return
	}
	p := rapid.SampledFrom(files).Draw(c.T, "rewritten")
	require.NoError(c, overwrite(p, noise(c.size(), 7)))
	when := time.Unix(rapid.SampledFrom([]int64{5, 1e9, 5e9}).Draw(c.T, "when"), 5)
	require.NoError(c, os.Chtimes(p, when, when))
}

// finish runs to the end, with nothing but warnings about journals.
func (c *trial) finish() *engine.Summary {
	var reports []string
	o := c.options
	o.Report = func(e event.Event) {
		switch e.Kind {
		case event.Copied, event.Skipped, event.Warning:
		default:
			reports = append(reports, fmt.Sprint(e.Kind, " ", e.Path, " ", e.Target, ": ", e.Err))
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	summary, err := engine.Run(ctx, &o, &counters.Set{})
	require.NoError(c, err)
	require.Empty(c, reports)
	return summary
}

// settled reports whether a run was interrupted after its manifest: later changes of the files
// are a user's.
func (c *trial) settled(target string) bool {
	for _, a := range c.options.Hashes {
		if _, err := os.Lstat(filepath.Join(target, strings.ToUpper(string(a))+"SUMS")); err == nil {
			return true
		}
	}
	return false
}

// damage does one thing to a destination that a power cut can do, or a user.
func (c *trial) damage() {
	target := rapid.SampledFrom(c.options.Targets).Draw(c.T, "damaged")
	var files, temps, logs []string
	err := filepath.WalkDir(target, func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case strings.HasPrefix(d.Name(), "log."):
			logs = append(logs, p)
		case !d.Type().IsRegular() || filepath.Base(filepath.Dir(p)) == ".sealift-journal" || strings.HasSuffix(p, "SUMS"):
		case strings.HasPrefix(d.Name(), fsys.Reserved):
			temps = append(temps, p)
		default:
			files = append(files, p)
		}
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) || len(logs) == 0 || c.settled(target) {
		return // nothing of an interrupted run is known here: a user's changes would be conflicts
	}
	require.NoError(c, err)
	among := func(names []string, do func(p string, info fs.FileInfo)) {
		if len(names) == 0 {
			return
		}
		p := rapid.SampledFrom(names).Draw(c.T, "file")
		info, err := os.Stat(p)
		require.NoError(c, err)
		do(p, info)
	}
	switch rapid.IntRange(0, 6).Draw(c.T, "damage") {
	case 0, 1: // zeros, and nothing else shows it
		among(files, func(p string, info fs.FileInfo) {
			require.NoError(c, overwrite(p, make([]byte, info.Size())))
			require.NoError(c, os.Chtimes(p, info.ModTime(), info.ModTime()))
		})
	case 2: // edited, and newer than any source
		among(files, func(p string, info fs.FileInfo) {
			require.NoError(c, overwrite(p, noise(info.Size()+1, 9)))
			require.NoError(c, os.Chtimes(p, time.Unix(5e9, 0), time.Unix(5e9, 0)))
		})
	case 3: // truncated
		among(files, func(p string, info fs.FileInfo) { require.NoError(c, overwrite(p, nil)) })
	case 4: // gone
		among(append(files, temps...), func(p string, _ fs.FileInfo) {
			dir := filepath.Dir(p)
			info, err := os.Stat(dir)
			require.NoError(c, err)
			require.NoError(c, errors.Join(os.Chmod(dir, 0o700), os.Remove(p), os.Chmod(dir, info.Mode())))
		})
	case 5: // a torn end of the log
		among(logs, func(p string, info fs.FileInfo) {
			content := readAll(c, p)
			header := strings.Index(content, "\n") + 1
			left := header + rapid.IntRange(0, len(content)-header).Draw(c.T, "left")
			require.NoError(c, os.Truncate(p, int64(left)))
		})
	case 6: // one wrong byte in it
		among(logs, func(p string, _ fs.FileInfo) {
			content := []byte(readAll(c, p))
			header := strings.Index(string(content), "\n") + 1
			if header < len(content) {
				content[rapid.IntRange(header, len(content)-1).Draw(c.T, "wrong")] ^= 1
				require.NoError(c, os.WriteFile(p, content, 0o600))
			}
		})
	}
}
