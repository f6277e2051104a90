//go:build linux

package engine

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/fsys/faultfs"
	"github.com/seed65876f4f/sealift/internal/metadata"
	"github.com/seed65876f4f/sealift/internal/readback"
	"github.com/seed65876f4f/sealift/internal/treetest"
)

func await(c chan struct{}) {
	select {
	case <-c:
	case <-time.After(2 * time.Second):
	}
}

func reach(c chan struct{}) {
	select {
	case <-c:
	default:
		close(c)
	}
}

// Two workers find two bad files of one directory at the same time. The directory keeps its
// time.
func TestTwoBadFilesInOneDirectoryAndItsTime(t *testing.T) {
	t.Parallel()
	src, dst := sourceAndDestination(t)
	write(t, src, "d/a", treetest.Pattern(100, 1), since)
	write(t, src, "d/b", treetest.Pattern(100, 2), since)
	require.NoError(t, os.Chtimes(filepath.Join(src, "d"), before, before))
	c := &counters.Set{}
	var mu sync.Mutex
	drops, renames, times := 0, 0, 0
	first, second, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
	spoilt := false
	sys := faultfs.New(func(op fsys.Op, name string) error {
		if counters.Phase(c.Phase.Load()) != counters.PhaseVerifying {
			return nil
		}
		mu.Lock()
		if !spoilt {
			spoilt = true
			spoil(t, filepath.Join(dst, "d/a"))
			spoil(t, filepath.Join(dst, "d/b"))
		}
		var wait, reached chan struct{}
		switch op {
		case fsys.OpDropCache:
			if drops++; drops == 2 {
				wait = first // the second file is read when the first was moved
			}
		case fsys.OpRename:
			if renames++; renames == 2 {
				reached = second
			}
		case fsys.OpTimes:
			if times++; times == 1 {
				reached, wait = first, second
			} else {
				wait = done
			}
		case fsys.OpSync:
			reached = done
		}
		mu.Unlock()
		if reached != nil {
			mu.Lock()
			reach(reached)
			mu.Unlock()
		}
		if wait != nil {
			await(wait)
		}
		return nil
	})
	o := verifying(VerifyDest, src, dst)
	o.Workers = 2
	o.FS = sys
	out := runCounted(t, o, c)
	require.Len(t, out.bad(), 2)
	info, err := os.Stat(filepath.Join(dst, "d"))
	require.NoError(t, err)
	require.True(t, info.ModTime().Equal(before), "the directory's time is %v", info.ModTime())
}

// Two workers find two bad files of one read-only directory at the same time. The directory
// keeps its mode.
func TestTwoBadFilesInAReadOnlyDirectory(t *testing.T) {
	dir := treetest.MemoryDir(t)
	src, dst := filepath.Join(dir, "src"), filepath.Join(dir, "dst")
	asOrdinaryUser(t, dir, func() {
		write(t, src, "ro/a", treetest.Pattern(100, 1), since)
		write(t, src, "ro/b", treetest.Pattern(100, 2), since)
		require.NoError(t, os.Chmod(filepath.Join(src, "ro"), 0o555))
		c := &counters.Set{}
		var mu sync.Mutex
		drops, firsts := 0, 0
		widened, looked, back := make(chan struct{}), make(chan struct{}), make(chan struct{})
		spoilt, other := false, ""
		sys := faultfs.New(func(op fsys.Op, name string) error {
			if counters.Phase(c.Phase.Load()) != counters.PhaseVerifying {
				return nil
			}
			mu.Lock()
			if !spoilt {
				spoilt = true
				spoil(t, filepath.Join(dst, "ro/a"))
				spoil(t, filepath.Join(dst, "ro/b"))
			}
			var wait, reached chan struct{}
			switch op {
			case fsys.OpDropCache:
				if drops++; drops == 2 {
					wait = widened // the first has made the directory writable
				}
			case fsys.OpRename:
				switch firsts++; {
				case firsts == 1:
					other = name
				case firsts == 2 && name == other:
					reached, wait = widened, looked // until the second worker has read the mode
				case name != other && firsts == 3:
					reached, wait = looked, back // until the first worker has restored the mode
				}
			case fsys.OpTimes:
				reached = back
			}
			if reached != nil {
				reach(reached)
			}
			mu.Unlock()
			if wait != nil {
				await(wait)
			}
			return nil
		})
		o := verifying(VerifyDest, src, dst)
		o.Workers = 2
		o.FS = sys
		out := runCounted(t, o, c)
		require.Len(t, out.bad(), 2)
		info, err := os.Stat(filepath.Join(dst, "ro"))
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o555), info.Mode().Perm())
	})
}

// The bytes counted at the end equal the total, also where one read serves several names, or a
// file is not read back at all.
func TestProgressEndsAtItsTotal(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(src, dst string){
		"hard links": func(src, _ string) { require.NoError(t, os.Link(filepath.Join(src, "a"), filepath.Join(src, "b"))) },
		"a conflict": func(_, dst string) { write(t, dst, "a", treetest.Pattern(5, 1), since.Add(time.Hour)) },
		"a manifest in the source": func(src, _ string) {
			write(t, src, "SHA256SUMS", []byte(sumLines(map[string][]byte{"a": treetest.Pattern(bigSize, 1)})), since)
		},
	} {
		t.Run(name, func(t *testing.T) {
			src, dst := sourceAndDestination(t)
			write(t, src, "a", treetest.Pattern(bigSize, 1), since)
			prepare(src, dst)
			for range 20 { // until the scan is done before the copy
				c := &counters.Set{CountTotals: true}
				runCounted(t, verifying(VerifyDest, src, dst), c)
				if c.ScanDone.Load() {
					require.Equal(t, c.TotalBytes.Load(), c.Bytes.Load())
					require.Equal(t, c.ReadBack.TotalBytes.Load(), c.ReadBack.Bytes.Load())
					return
				}
			}
			t.Skip("the scan was never done in time")
		})
	}
}

// A file that the second read of the source has shown to be wrong counts neither as verified
// nor as cached.
func TestCachedIsNeverMoreThanVerified(t *testing.T) {
	t.Parallel()
	src, dst := sourceAndDestination(t)
	write(t, src, "a", treetest.Pattern(100, 1), since)
	write(t, src, "b", treetest.Pattern(100, 2), since)
	s := runAndChange(t, verifying(VerifyFull, src, dst), func() { spoil(t, filepath.Join(src, "b")) }).summary.Targets[0]
	require.LessOrEqual(t, s.Cached, s.Verified)
}

// A source that reads differently moves no file at a destination that was dropped during the
// read-back.
func TestADroppedDestinationIsNotWrittenTo(t *testing.T) {
	t.Parallel()
	dir := treetest.MemoryDir(t)
	src := filepath.Join(dir, "src")
	targets := []string{filepath.Join(dir, "1"), filepath.Join(dir, "2")}
	write(t, src, "a", treetest.Pattern(100, 1), since)
	write(t, src, "b", treetest.Pattern(100, 2), since)
	drops := 0
	out := runAndFail(t, verifying(VerifyFull, src, targets...), func() {}, func(op fsys.Op, _ string) error {
		if op == fsys.OpDropCache {
			if drops++; drops == 1 {
				spoil(t, filepath.Join(src, "b"))
				return syscall.ENODEV
			}
		}
		return nil
	})
	require.Error(t, out.summary.Targets[0].Lost)
	require.GreaterOrEqual(t, out.summary.Targets[0].Verified, int64(0))
	require.FileExists(t, filepath.Join(targets[0], "b"), "nothing is known of it, and the device is gone:\n%s", out)
}

// A destination that was full is read back too: read errors are reported, and the other files
// are listed.
func TestAReadErrorAtAFullDestinationIsReported(t *testing.T) {
	t.Parallel()
	dir := treetest.MemoryDir(t)
	src := filepath.Join(dir, "src")
	for _, name := range []string{"a", "b", "c", "d"} {
		write(t, src, name, treetest.Pattern(100, name[0]), since)
	}
	targets := []string{filepath.Join(dir, "1"), filepath.Join(dir, "2")}
	c := &counters.Set{}
	writes, drops := 0, 0
	sys := faultfs.New(func(op fsys.Op, _ string) error {
		switch {
		case op == fsys.OpWrite && counters.Phase(c.Phase.Load()) == counters.PhaseCopying:
			if writes++; writes == 7 { // "d" at the first destination
				return syscall.ENOSPC
			}
		case op == fsys.OpDropCache:
			if drops++; drops == 1 { // "a" at the first destination
				return syscall.EIO
			}
		}
		return nil
	})
	o := verifying(VerifyDest, src, targets...)
	o.Workers = 1
	o.FS = sys
	out := runCounted(t, o, c)
	require.ErrorIs(t, out.summary.Targets[0].Lost, syscall.ENOSPC)
	reported := false
	for _, e := range out.bad() {
		reported = reported || e.Path == "a" && e.Target == targets[0]
	}
	require.FileExists(t, filepath.Join(targets[0], readback.BadPrefix+"a"))
	if !reported {
		t.Errorf("no report about a:\n%s", out)
	}
	if have := strings.Join(listed(t, targets[0]), " "); have != "b c" {
		t.Errorf("only b and c are complete and readable, but the manifest lists %q", have)
	}
}

// A source that has changed is one failure, not one for each destination.
func TestAChangedSourceIsReportedOnce(t *testing.T) {
	t.Parallel()
	dir := treetest.MemoryDir(t)
	src := filepath.Join(dir, "src")
	write(t, src, "a", treetest.Pattern(100, 1), since)
	out := runAndChange(t, verifying(VerifyFull, src, threeTargets(dir)...), func() { write(t, src, "a", treetest.Pattern(100, 2), time.Now()) })
	require.Len(t, out.bad(), 1, "%s", out)
	require.EqualValues(t, 1, out.summary.Errors)
}

// Without times kept, a source that was edited after its copy is one that has
// changed, not one that reads differently.
func TestAChangedSourceWhereTimesAreNotKept(t *testing.T) {
	t.Parallel()
	src, dst := sourceAndDestination(t)
	write(t, src, "a", treetest.Pattern(100, 1), since)
	o := verifying(VerifyFull, src, dst)
	o.Preserve = metadata.PreserveNone
	out := runAndChange(t, o, func() { write(t, src, "a", treetest.Pattern(100, 2), time.Now()) })
	require.Zero(t, out.summary.Mismatches, "%s", out)
	require.FileExists(t, filepath.Join(dst, "a"))
}

// Events of a single file that gets another name have its path in the source.
func TestThePathOfASingleFilesEvents(t *testing.T) {
	t.Parallel()
	for _, full := range []bool{false, true} {
		src, dst := sourceAndDestination(t)
		write(t, src, "file", treetest.Pattern(100, 1), since)
		out := runAndChange(t, verifying(VerifyFull, filepath.Join(src, "file"), filepath.Join(dst, "other")), func() {
			if full {
				spoil(t, filepath.Join(src, "file"))
			} else {
				spoil(t, filepath.Join(dst, "other"))
			}
		})
		require.Len(t, out.bad(), 1)
		require.Equal(t, "file", out.bad()[0].Path)
	}
}

// A bad file never takes the name of an earlier one, whatever fails.
func TestABadFileNeverReplacesAnEarlierOne(t *testing.T) {
	t.Parallel()
	src, dst := sourceAndDestination(t)
	write(t, src, "a", treetest.Pattern(100, 1), since)
	write(t, dst, readback.BadPrefix+"a", []byte("yesterday's"), since)
	runAndFail(t, verifying(VerifyDest, src, dst), func() { spoil(t, filepath.Join(dst, "a")) }, func(op fsys.Op, name string) error {
		if op == fsys.OpStat && strings.HasPrefix(name, readback.BadPrefix) {
			return syscall.EIO
		}
		return nil
	})
	content, err := os.ReadFile(filepath.Join(dst, readback.BadPrefix+"a"))
	require.NoError(t, err)
	require.Equal(t, "yesterday's", string(content))
}
