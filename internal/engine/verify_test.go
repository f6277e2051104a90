//go:build linux

package engine

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/dest"
	"github.com/seed65876f4f/sealift/internal/event"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/fsys/faultfs"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/treetest"
)

// A file whose read-back differs from what was written is reported, moved aside and not
// listed. The other files are listed.
func TestVerifyFindsContentThatWasNotWritten(t *testing.T) {
	t.Parallel()
	dir := treetest.MemoryDir(t)
	src := filepath.Join(dir, "src")
	for _, name := range []string{"a", "d/b", "d/c", "z"} {
		write(t, src, name, treetest.Pattern(bigSize, name[len(name)-1]), since)
	}
	require.NoError(t, os.Chtimes(filepath.Join(src, "d"), since, since))
	for _, sync := range []dest.SyncMode{dest.SyncEnd, dest.SyncFile, dest.SyncNone} {
		targets := []string{filepath.Join(dir, "one"+sync.String()), filepath.Join(dir, "two"+sync.String())}
		o := verifying(VerifyDest, src, targets...)
		o.Sync = sync
		out := runAndChange(t, o, func() { spoil(t, filepath.Join(targets[1], "d/b")) })
		bad := out.bad()
		require.Len(t, bad, 1)
		require.Equal(t, event.Mismatch, bad[0].Kind)
		require.Equal(t, failure.StageVerify, stageOf(t, bad[0]))
		require.Equal(t, "d/b", bad[0].Path)
		require.Equal(t, targets[1], bad[0].Target)
		require.ErrorContains(t, bad[0].Err, ".sealift-bad-b")
		s := out.summary
		require.EqualValues(t, 1, s.Mismatches)
		require.Zero(t, s.Errors)
		for i, want := range []int64{4, 3} {
			require.Equal(t, want, s.Targets[i].Verified)
			require.Equal(t, want, s.Targets[i].Cached, "there is no device behind memory")
			require.EqualValues(t, want, s.Targets[i].Manifests[0].Lines)
		}
		require.Equal(t, []string{"a", "d/b", "d/c", "z"}, listed(t, targets[0]))
		require.Equal(t, []string{"a", "d/c", "z"}, listed(t, targets[1]))
		two := look(t, targets[1])
		require.NotContains(t, two, "d/b")
		require.Len(t, two["d/.sealift-bad-b"].content, bigSize)
		require.True(t, two["d"].mtime.Equal(since), "the directory's time stays")
		require.NoDirExists(t, filepath.Join(targets[1], ".sealift-journal"))

		again := runReported(t, verifying(VerifyDest, src, targets...)) // mends it
		require.Empty(t, again.bad())
		require.EqualValues(t, 4, again.summary.Targets[1].Verified)
		require.Equal(t, []string{"a", "d/b", "d/c", "z"}, listed(t, targets[1]))
	}
}

// The read-back of a correct copy reports nothing, whatever the tree.
func TestVerifyOfACorrectCopy(t *testing.T) {
	t.Parallel()
	src, files := littleTree(t)
	for _, mode := range []VerifyMode{VerifyDest, VerifyFull} {
		for _, workers := range []int{1, 8} {
			o := verifying(mode, src, threeTargets(filepath.Join(treetest.MemoryDir(t), "x"))...)
			o.Workers, o.Memory = workers, 1
			for range 2 { // the second run skips everything
				out := runReported(t, o)
				require.Empty(t, out.bad())
				for i, target := range out.summary.Targets {
					require.EqualValues(t, len(files), target.Verified)
					require.Equal(t, target.Verified, target.Cached)
					require.Len(t, listed(t, o.Targets[i]), len(files))
				}
			}
		}
	}
}

// A file with several names is read once. If it is bad, each name is reported, moved and
// removed from the manifest.
func TestVerifyHardLinks(t *testing.T) {
	t.Parallel()
	dir := treetest.MemoryDir(t)
	src := filepath.Join(dir, "src")
	write(t, src, "a", treetest.Pattern(bigSize, 1), since)
	write(t, src, "d/other", treetest.Pattern(100, 2), since)
	require.NoError(t, os.Link(filepath.Join(src, "a"), filepath.Join(src, "d/b")))
	require.NoError(t, os.Link(filepath.Join(src, "a"), filepath.Join(src, "z")))
	for _, rotten := range []bool{false, true} {
		for _, workers := range []int{1, 4} {
			dst := filepath.Join(dir, fmt.Sprint("dst", rotten, workers))
			c := &counters.Set{}
			var mu sync.Mutex
			dropped := 0
			spoilt := false
			sys := faultfs.New(func(op fsys.Op, _ string) error {
				mu.Lock()
				defer mu.Unlock()
				if counters.Phase(c.Phase.Load()) != counters.PhaseVerifying {
					return nil
				}
				if rotten && !spoilt {
					spoilt = true
					spoil(t, filepath.Join(dst, "d/b"))
				}
				if op == fsys.OpDropCache {
					dropped++
				}
				return nil
			})
			o := verifying(VerifyDest, src, dst)
			o.Workers = workers
			o.FS = sys
			out := runCounted(t, o, c)
			require.Equal(t, 2, dropped, "files read")
			if !rotten {
				require.Empty(t, out.bad())
				require.EqualValues(t, 4, out.summary.Targets[0].Verified)
				continue
			}
			var paths []string
			for _, e := range out.bad() {
				require.Equal(t, event.Mismatch, e.Kind)
				paths = append(paths, e.Path)
			}
			require.Equal(t, []string{"a", "d/b", "z"}, paths)
			require.EqualValues(t, 3, out.summary.Mismatches)
			require.EqualValues(t, 1, out.summary.Targets[0].Verified)
			require.Equal(t, []string{"d/other"}, listed(t, dst))
			have := look(t, dst)
			for _, name := range []string{".sealift-bad-a", "d/.sealift-bad-b", ".sealift-bad-z"} {
				require.EqualValues(t, 3, have[name].links, name)
			}
		}
	}
}

// A file that an earlier manifest lists is skipped by the copy and read back nevertheless. If
// it is bad, its line is removed from the manifests of all kinds.
func TestVerifyReadsSkippedFiles(t *testing.T) {
	t.Parallel()
	src, dst := sourceAndDestination(t)
	write(t, src, "a", treetest.Pattern(bigSize, 1), since)
	write(t, src, "b", treetest.Pattern(100, 2), since)
	o := options(src, dst)
	o.Hashes = []hash.Algorithm{hash.SHA256, hash.MD5, hash.SHA512}
	mustRun(t, o)
	manifests := []string{filepath.Join(dst, "SHA256SUMS"), filepath.Join(dst, "MD5SUMS"), filepath.Join(dst, "SHA512SUMS")}
	touchManifests(t, manifests...)
	stamp, err := os.Stat(manifests[2])
	require.NoError(t, err)

	c := &counters.Set{}
	var once sync.Once
	var opened atomic.Int64
	sys := faultfs.New(func(op fsys.Op, name string) error {
		switch {
		case counters.Phase(c.Phase.Load()) == counters.PhaseVerifying:
			once.Do(func() { spoil(t, filepath.Join(dst, "a")) })
		case op == fsys.OpOpen && name == "a":
			opened.Add(1)
		}
		return nil
	})
	o = verifying(VerifyDest, src, dst)
	o.Hashes = []hash.Algorithm{hash.SHA256, hash.MD5} // SHA512SUMS is of an earlier run
	o.FS = sys
	out := runCounted(t, o, c)
	require.LessOrEqual(t, opened.Load(), int64(2), "at the source, and for its metadata: it was not compared")
	bad := out.bad()
	require.Len(t, bad, 1)
	require.Equal(t, []any{event.Mismatch, "a"}, []any{bad[0].Kind, bad[0].Path})
	require.EqualValues(t, 2, out.summary.Skipped)
	require.EqualValues(t, 1, out.summary.Targets[0].Verified)
	require.Equal(t, []string{"b"}, listed(t, dst))
	for i, path := range manifests {
		content, err := os.ReadFile(path)
		require.NoError(t, err)
		want := []string{"b"}
		if i == 2 {
			want = []string{"a", "b"}
		}
		require.Equal(t, want, slices.Sorted(maps.Keys(readManifest(t, string(content)))), path)
	}
	now, err := os.Stat(manifests[2])
	require.NoError(t, err)
	require.True(t, now.ModTime().Equal(stamp.ModTime()), "it is not this run's")
}

// A file that cannot be read back is a failure of that file at that destination.
func TestVerifyReadError(t *testing.T) {
	t.Parallel()
	dir := treetest.MemoryDir(t)
	src := filepath.Join(dir, "src")
	for i, name := range []string{"a", "d/big", "d/small", "z"} {
		write(t, src, name, treetest.Pattern([]int{50, bigSize, 60, 70}[i], byte(i)), since)
	}
	for _, victim := range []string{"d/big", "d/small"} {
		for _, op := range []fsys.Op{fsys.OpRead, fsys.OpDropCache} {
			targets := []string{filepath.Join(dir, victim+string(op), "1"), filepath.Join(dir, victim+string(op), "2")}
			c := &counters.Set{}
			opened, reads := "", 0
			sys := faultfs.New(func(o fsys.Op, name string) error {
				if counters.Phase(c.Phase.Load()) != counters.PhaseVerifying {
					return nil
				}
				if o == fsys.OpOpen {
					if opened == name {
						opened += " at the second destination"
					} else {
						opened, reads = name, 0
					}
				}
				if o == op && opened == filepath.Base(victim) {
					if reads++; reads == 2 || op != fsys.OpRead || victim == "d/small" {
						return syscall.EIO
					}
				}
				return nil
			})
			o := verifying(VerifyDest, src, targets...)
			o.Workers = 1
			o.FS = sys
			out := runCounted(t, o, c)
			bad := out.bad()
			require.Len(t, bad, 1)
			require.Equal(t, []any{event.Failed, victim, targets[0]}, []any{bad[0].Kind, bad[0].Path, bad[0].Target})
			require.Equal(t, failure.StageVerify, stageOf(t, bad[0]))
			require.ErrorIs(t, bad[0].Err, syscall.EIO)
			require.ErrorContains(t, bad[0].Err, ".sealift-bad-"+filepath.Base(victim))
			require.EqualValues(t, 1, out.summary.Errors)
			require.Zero(t, out.summary.Mismatches)
			require.EqualValues(t, 3, out.summary.Targets[0].Verified)
			require.EqualValues(t, 4, out.summary.Targets[1].Verified)
			require.Len(t, listed(t, targets[0]), 3)
			require.NotContains(t, listed(t, targets[0]), victim)
			require.Len(t, listed(t, targets[1]), 4)
			require.NoFileExists(t, filepath.Join(targets[0], victim))
			require.FileExists(t, filepath.Join(targets[0], "d", ".sealift-bad-"+filepath.Base(victim)))
		}
	}
}

// Another process replaces a name after the copy. The read-back reports it, and does not
// follow, open or remove the new entry.
func TestVerifyOfFilesThatAnotherProcessReplaced(t *testing.T) {
	t.Parallel()
	dir := treetest.MemoryDir(t)
	src, outside := filepath.Join(dir, "src"), filepath.Join(dir, "outside")
	content := treetest.Pattern(300, 1)
	write(t, src, "d/a", content, since)
	write(t, src, "z", content, since)
	write(t, outside, "a", content, since)
	for name, c := range map[string]struct {
		take  func(path string) error
		kind  event.Kind
		stays bool // the entry that took the name stays
		equal bool // the right content: nothing is wrong with it
	}{
		"removed": {take: os.Remove, kind: event.Failed},
		"directory removed": {
			take: func(path string) error { return os.RemoveAll(filepath.Dir(path)) }, kind: event.Failed,
		},
		"other content": {take: func(path string) error { return os.WriteFile(path+"~", []byte("mine"), 0o600) }, kind: event.Mismatch},
		"same content":  {take: func(path string) error { return os.WriteFile(path+"~", content, 0o600) }, equal: true, stays: true},
		"longer":        {take: func(path string) error { return os.WriteFile(path, append(bytes.Clone(content), 'x'), 0o600) }, kind: event.Mismatch},
		"shorter":       {take: func(path string) error { return os.Truncate(path, 299) }, kind: event.Mismatch},
		"empty":         {take: func(path string) error { return os.Truncate(path, 0) }, kind: event.Mismatch},
		"symbolic link": {take: func(path string) error { return os.Symlink(filepath.Join(outside, "a"), path+"~") }, kind: event.Failed, stays: true},
		"fifo":          {take: func(path string) error { return unix.Mkfifo(path+"~", 0o600) }, kind: event.Failed, stays: true},
		"directory":     {take: func(path string) error { _ = os.Remove(path); return os.Mkdir(path, 0o700) }, kind: event.Failed, stays: true},
		"directory is a link": {
			take: func(path string) error {
				d := filepath.Dir(path)
				require.NoError(t, os.RemoveAll(d))
				return os.Symlink(outside, d)
			}, kind: event.Failed, stays: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			dst := filepath.Join(dir, name)
			path := filepath.Join(dst, "d/a")
			out := runAndChange(t, verifying(VerifyDest, src, dst), func() {
				require.NoError(t, c.take(path))
				if fileExists(path + "~") {
					require.NoError(t, os.Rename(path+"~", path))
				}
			})
			if c.equal {
				require.Empty(t, out.bad())
				require.EqualValues(t, 2, out.summary.Targets[0].Verified)
				return
			}
			bad := out.bad()
			require.Len(t, bad, 1)
			require.Equal(t, []any{c.kind, "d/a", dst}, []any{bad[0].Kind, bad[0].Path, bad[0].Target})
			require.Equal(t, failure.StageVerify, stageOf(t, bad[0]))
			require.EqualValues(t, 1, out.summary.Errors+out.summary.Mismatches)
			require.EqualValues(t, 1, out.summary.Targets[0].Verified)
			require.Equal(t, []string{"z"}, listed(t, dst))
			require.Equal(t, c.stays, fileExists(path))
			if c.kind == event.Mismatch {
				require.FileExists(t, filepath.Join(dst, "d/.sealift-bad-a"))
			}
			kept, err := os.ReadFile(filepath.Join(outside, "a"))
			require.NoError(t, err)
			require.Equal(t, content, kept)
		})
	}
}

// Two destinations on different devices are flushed, and later read back, at the same time: the first
// operation at each waits until that at the other begins. With one worker, each device has a worker.
func TestTwoDevicesAreFlushedAndReadBackAtTheSameTime(t *testing.T) {
	t.Parallel()
	for phase, ops := range map[counters.Phase][]fsys.Op{
		counters.PhaseFlushing: {fsys.OpSyncFS, fsys.OpSync}, counters.PhaseVerifying: {fsys.OpDropCache},
	} {
		t.Run(phase.String(), func(t *testing.T) { twoDevicesMeet(t, phase, ops) })
	}
}

// twoDevicesMeet copies to two devices. The first of the operations in a phase waits for the second one.
func twoDevicesMeet(t *testing.T, phase counters.Phase, ops []fsys.Op) {
	one, two := treetest.MemoryDir(t), t.TempDir()
	var stats [2]unix.Stat_t
	for i, dir := range []string{one, two} {
		require.NoError(t, unix.Stat(dir, &stats[i]))
	}
	if stats[0].Dev == stats[1].Dev {
		t.Skip("both temporary directories are on one device")
	}
	src := filepath.Join(one, "src")
	write(t, src, "a", treetest.Pattern(bigSize, 1), since)
	c := &counters.Set{}
	var waiting atomic.Int64
	both := make(chan struct{})
	sys := faultfs.New(func(op fsys.Op, _ string) error {
		if !slices.Contains(ops, op) || counters.Phase(c.Phase.Load()) != phase {
			return nil
		}
		if waiting.Add(1) == 2 {
			close(both)
		}
		select {
		case <-both:
			return nil
		case <-time.After(20 * time.Second):
			return syscall.ETIMEDOUT
		}
	})
	o := verifying(VerifyDest, src, filepath.Join(one, "dst"), filepath.Join(two, "dst"))
	o.FS, o.Workers, o.Sync = sys, 1, dest.SyncEnd
	out := runCounted(t, o, c)
	require.Empty(t, out.bad())
	require.GreaterOrEqual(t, waiting.Load(), int64(2))
	for _, target := range out.summary.Targets {
		require.EqualValues(t, 1, target.Verified)
	}
}
