//go:build linux

package engine

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/event"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/fsys/faultfs"
	"github.com/seed65876f4f/sealift/internal/readback"
	"github.com/seed65876f4f/sealift/internal/treetest"
)

// The source reads differently although it has not changed. The copies match their lines, so
// they stay, and one message says that the source differs.
func TestVerifyFullFindsASourceThatReadsDifferently(t *testing.T) {
	t.Parallel()
	for _, size := range []int{100, bigSize} {
		for _, workers := range []int{1, 4} {
			dir := treetest.MemoryDir(t)
			src := filepath.Join(dir, "src")
			write(t, src, "a", treetest.Pattern(size, 1), since)
			write(t, src, "d/b", treetest.Pattern(size, 2), since)
			require.NoError(t, os.Chtimes(filepath.Join(src, "d"), since, since))
			targets := []string{filepath.Join(dir, "1"), filepath.Join(dir, "2")}
			o := verifying(VerifyFull, src, targets...)
			o.Workers = workers
			out := runAndChange(t, o, func() { spoil(t, filepath.Join(src, "d/b")) })
			require.Len(t, out.bad(), 1)
			bad := out.bad()[0]
			require.Equal(t, []any{event.Mismatch, "d/b", ""}, []any{bad.Kind, bad.Path, bad.Target})
			require.Equal(t, failure.StageVerify, stageOf(t, bad))
			require.ErrorContains(t, bad.Err, "the source, read again, differs")
			for i, target := range targets {
				require.Empty(t, aside(t, filepath.Join(target, "d")))
				require.FileExists(t, filepath.Join(target, "d/b"))
				require.Equal(t, []string{"a", "d/b"}, listed(t, target))
				require.EqualValues(t, 1, out.summary.Targets[i].Verified)
			}
			require.EqualValues(t, 1, out.summary.Mismatches)
			require.Zero(t, out.summary.Errors)
			require.FileExists(t, filepath.Join(src, "d/b"), "the run must not move files of the source")
			require.Empty(t, aside(t, filepath.Join(src, "d")))
		}
	}
}

// A change of the source after the copy is reported. The file at the destination stays and is
// listed.
func TestVerifyFullOfASourceThatHasChanged(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(path string) error
		stage  failure.Stage // "": nothing is wrong
		is     error
	}{
		"touched": {change: func(path string) error { return os.Chtimes(path, before, before) }},
		"mode":    {change: func(path string) error { return os.Chmod(path, 0o600) }},
		"other content": {
			change: func(path string) error { return os.WriteFile(path, treetest.Pattern(100, 9), 0o600) },
			stage:  failure.StageCheck,
		},
		"other content and size, same time": {
			change: func(path string) error {
				return errors.Join(os.WriteFile(path, treetest.Pattern(101, 1), 0o600), os.Chtimes(path, since, since))
			},
			stage: failure.StageCheck,
		},
		"renamed over": {
			change: func(path string) error {
				return errors.Join(os.WriteFile(path+"~", treetest.Pattern(100, 9), 0o600), os.Rename(path+"~", path))
			},
			stage: failure.StageCheck,
		},
		"truncated":         {change: func(path string) error { return os.Truncate(path, 0) }, stage: failure.StageCheck},
		"removed":           {change: os.Remove, stage: failure.StageVerify, is: failure.ErrVanished},
		"directory removed": {change: func(path string) error { return os.RemoveAll(filepath.Dir(path)) }, stage: failure.StageVerify, is: failure.ErrVanished},
		"symbolic link": {
			change: func(path string) error { return errors.Join(os.Remove(path), os.Symlink("b", path)) },
			stage:  failure.StageVerify,
		},
		"fifo": {
			change: func(path string) error { return errors.Join(os.Remove(path), unix.Mkfifo(path, 0o600)) },
			stage:  failure.StageVerify, is: errExchanged,
		},
		"directory": {
			change: func(path string) error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o700)) },
			stage:  failure.StageVerify, is: errExchanged,
		},
	} {
		t.Run(name, func(t *testing.T) {
			src, dst := sourceAndDestination(t)
			content := treetest.Pattern(100, 1)
			write(t, src, "d/a", content, since)
			write(t, src, "z", treetest.Pattern(bigSize, 3), since)
			out := runAndChange(t, verifying(VerifyFull, src, dst), func() { require.NoError(t, c.change(filepath.Join(src, "d/a"))) })
			if c.stage == "" {
				require.Empty(t, out.bad())
			} else {
				require.Len(t, out.bad(), 1)
				e := out.bad()[0]
				require.Equal(t, []any{event.Failed, "d/a", ""}, []any{e.Kind, e.Path, e.Target})
				require.Equal(t, c.stage, stageOf(t, e))
				if c.is != nil {
					require.ErrorIs(t, e.Err, c.is)
				}
			}
			require.Zero(t, out.summary.Mismatches)
			require.EqualValues(t, 2, out.summary.Targets[0].Verified)
			require.Equal(t, []string{"d/a", "z"}, listed(t, dst))
			have, err := os.ReadFile(filepath.Join(dst, "d/a"))
			require.NoError(t, err)
			require.Equal(t, content, have)
		})
	}
}

// A source that is written while it is read again has changed, whatever its time.
func TestVerifyFullOfASourceThatChangesMeanwhile(t *testing.T) {
	t.Parallel()
	src, dst := sourceAndDestination(t)
	write(t, src, "a", treetest.Pattern(100, 1), since)
	touchManifests(t) // the clock that stamps files goes on
	drops := 0
	out := runAndFail(t, verifying(VerifyFull, src, dst), func() {}, func(op fsys.Op, _ string) error {
		if op == fsys.OpDropCache {
			if drops++; drops == 2 { // the destination's was the first
				spoil(t, filepath.Join(src, "a"))
			}
		}
		return nil
	})
	require.Len(t, out.bad(), 1)
	require.Equal(t, []any{event.Failed, failure.StageCheck}, []any{out.bad()[0].Kind, stageOf(t, out.bad()[0])})
	require.Equal(t, []string{"a"}, listed(t, dst))
}

// Each file of the source is read once for all destinations. A file that no destination has is
// not read.
func TestVerifyFullReadsEachFileOfTheSourceOnce(t *testing.T) {
	t.Parallel()
	dir := treetest.MemoryDir(t)
	src := filepath.Join(dir, "src")
	targets := threeTargets(dir)
	names := []string{"a", "a/b", "a-b", "b", "c", "z"}
	for i, name := range names {
		if name != "a" {
			write(t, src, name, treetest.Pattern(100, byte(i)), since)
		}
		for j, target := range targets {
			if (i+j)%3 == 0 && name != "a" { // in the way of it
				require.NoError(t, os.MkdirAll(filepath.Join(target, name), 0o700))
			}
		}
	}
	write(t, src, "nowhere", []byte("x"), since)
	for _, target := range targets {
		require.NoError(t, os.MkdirAll(filepath.Join(target, "nowhere"), 0o700))
	}
	c := &counters.Set{}
	var drops atomic.Int64
	sys := faultfs.New(func(op fsys.Op, _ string) error {
		if op == fsys.OpDropCache {
			drops.Add(1)
		}
		return nil
	})
	s := runCounted(t, in(sys, verifying(VerifyFull, src, targets...)), c).summary
	require.Zero(t, s.Errors+s.Mismatches)
	verified := s.Targets[0].Verified + s.Targets[1].Verified + s.Targets[2].Verified
	require.EqualValues(t, 3*5-5, verified)
	require.EqualValues(t, verified+5, drops.Load())
}

// The source's names of one file are read once, and each is settled.
func TestVerifyFullHardLinks(t *testing.T) {
	t.Parallel()
	src, dst := sourceAndDestination(t)
	write(t, src, "a", treetest.Pattern(bigSize, 1), since)
	require.NoError(t, os.Link(filepath.Join(src, "a"), filepath.Join(src, "b")))
	write(t, src, "c", treetest.Pattern(bigSize, 2), since)
	drops := 0
	out := runAndFail(t, verifying(VerifyFull, src, dst), func() { spoil(t, filepath.Join(src, "b")) }, func(op fsys.Op, _ string) error {
		if op == fsys.OpDropCache {
			drops++
		}
		return nil
	})
	require.Equal(t, 4, drops, "two files, at two places")
	require.Len(t, out.bad(), 2)
	require.EqualValues(t, 2, out.summary.Mismatches)
	require.Empty(t, aside(t, dst))
	require.Equal(t, []string{"a", "b", "c"}, listed(t, dst))
}

// A destination with wrong content is reported once, whatever the source contains.
func TestVerifyFullReportsOnce(t *testing.T) {
	t.Parallel()
	for _, source := range []bool{false, true} {
		dir := treetest.MemoryDir(t)
		src := filepath.Join(dir, "src")
		write(t, src, "a", treetest.Pattern(100, 1), since)
		targets := []string{filepath.Join(dir, "1"), filepath.Join(dir, "2")}
		out := runAndChange(t, verifying(VerifyFull, src, targets...), func() {
			spoil(t, filepath.Join(targets[0], "a"))
			if source {
				spoil(t, filepath.Join(src, "a"))
			}
		})
		require.Len(t, out.bad(), 1+btoi(source))
		require.Equal(t, []string{readback.BadPrefix + "a"}, aside(t, targets[0]))
		at := slices.IndexFunc(out.bad(), func(e event.Event) bool { return e.Target == targets[0] })
		require.GreaterOrEqual(t, at, 0)
		require.ErrorContains(t, out.bad()[at].Err, "the device returned other data")
		require.Empty(t, aside(t, targets[1]))
		require.Equal(t, []string{"a"}, listed(t, targets[1]))
	}
}

// A file that is skipped because its time and size are equal is compared when the source is
// read.
func TestVerifyFullReadsSkippedFiles(t *testing.T) {
	t.Parallel()
	src, dst := sourceAndDestination(t)
	write(t, src, "a", treetest.Pattern(bigSize, 1), since)
	write(t, src, "b", treetest.Pattern(bigSize, 2), since)
	mustRun(t, options(src, dst))
	touchManifests(t, filepath.Join(dst, "SHA256SUMS"))
	spoil(t, filepath.Join(src, "a")) // long before this run
	mustRun(t, verifying(VerifyDest, src, dst))
	touchManifests(t, filepath.Join(dst, "SHA256SUMS"))
	out := runReported(t, verifying(VerifyFull, src, dst))
	require.Len(t, out.bad(), 1)
	require.Equal(t, []any{event.Mismatch, "a", ""}, []any{out.bad()[0].Kind, out.bad()[0].Path, out.bad()[0].Target})
	require.Equal(t, []string{"a", "b"}, listed(t, dst))
	require.Empty(t, aside(t, dst))
}

// A skipped file and its source have both changed: neither matches the line of the manifest, so
// the file stays. If the source matches the line, the file is set aside.
func TestVerifyOfASkippedFileThatDiffersFromItsLine(t *testing.T) {
	t.Parallel()
	for _, verify := range []VerifyMode{VerifyDest, VerifyFull} {
		for _, rotten := range []bool{false, true} {
			src, dst := sourceAndDestination(t)
			write(t, src, "a", treetest.Pattern(100, 1), since)
			mustRun(t, options(src, dst))
			spoil(t, filepath.Join(dst, "a"))
			if rotten {
				require.NoError(t, os.WriteFile(filepath.Join(src, "a"), treetest.Pattern(100, 7), 0o600))
				require.NoError(t, os.Chtimes(filepath.Join(src, "a"), since, since))
			}
			out := runReported(t, verifying(verify, src, dst))
			require.Len(t, out.bad(), 1)
			require.Equal(t, []any{event.Mismatch, "a", dst}, []any{out.bad()[0].Kind, out.bad()[0].Path, out.bad()[0].Target})
			if rotten {
				require.ErrorContains(t, out.bad()[0].Err, "the source differs from the line of the manifest, too")
				require.Empty(t, aside(t, dst))
				lines, err := os.ReadFile(filepath.Join(dst, "SHA256SUMS"))
				require.NoError(t, err)
				require.Contains(t, string(lines), "  a\n", "the line stays")
			} else {
				require.Equal(t, []string{readback.BadPrefix + "a"}, aside(t, dst))
				require.NoFileExists(t, filepath.Join(dst, "a"))
			}
		}
	}
}

// A source that cannot be read again leaves what was verified as it is.
func TestVerifyFullOfASourceThatCannotBeRead(t *testing.T) {
	t.Parallel()
	for _, single := range []bool{false, true} {
		src, dst := sourceAndDestination(t)
		write(t, src, "a", treetest.Pattern(100, 1), since)
		o := verifying(VerifyFull, src, dst)
		if single {
			o.Source, o.Targets = filepath.Join(src, "a"), []string{filepath.Join(dst, "a")}
		}
		drops := 0
		out := runAndFail(t, o, func() {}, func(op fsys.Op, _ string) error {
			if op == fsys.OpDropCache {
				if drops++; drops == 2 { // the destination's was the first
					return syscall.EIO
				}
			}
			return nil
		})
		require.Len(t, out.bad(), 1)
		e := out.bad()[0]
		require.Equal(t, []any{event.Failed, "a", "", failure.StageVerify}, []any{e.Kind, e.Path, e.Target, stageOf(t, e)})
		require.EqualValues(t, 1, out.summary.Targets[0].Verified)
		require.FileExists(t, filepath.Join(dst, "a"))
		require.FileExists(t, out.summary.Targets[0].Manifests[0].Path)
	}
}

// If another directory has replaced the source, it is not read instead.
func TestVerifyFullOfAnotherSource(t *testing.T) {
	t.Parallel()
	src, dst := sourceAndDestination(t)
	write(t, src, "a", treetest.Pattern(100, 1), since)
	for _, gone := range []bool{false, true} {
		out := runAndChange(t, verifying(VerifyFull, src, dst), func() {
			require.NoError(t, os.Rename(src, src+"~"))
			if !gone {
				write(t, src, "a", treetest.Pattern(100, 2), since)
			}
		})
		require.Len(t, out.bad(), 1)
		require.Equal(t, event.Failed, out.bad()[0].Kind)
		require.Equal(t, failure.StageVerify, stageOf(t, out.bad()[0]))
		require.EqualValues(t, 1, out.summary.Targets[0].Verified)
		require.Equal(t, []string{"a"}, listed(t, dst))
		require.NoError(t, os.RemoveAll(src))
		require.NoError(t, os.Rename(src+"~", src))
	}
}

// A single file's source is read by its own name, also where the copy has another.
func TestVerifyFullSingleFile(t *testing.T) {
	t.Parallel()
	dir := treetest.MemoryDir(t)
	src := filepath.Join(dir, "src")
	write(t, src, "file", treetest.Pattern(bigSize, 1), since)
	write(t, src, "other", treetest.Pattern(10, 1), since) // not to be taken for it
	for _, rotten := range []bool{false, true} {
		dst := filepath.Join(dir, "dst", "other")
		require.NoError(t, os.MkdirAll(filepath.Dir(dst), 0o700))
		out := runAndChange(t, verifying(VerifyFull, filepath.Join(src, "file"), dst), func() {
			if rotten {
				spoil(t, filepath.Join(src, "file"))
			}
		})
		if !rotten {
			require.Empty(t, out.bad())
			require.EqualValues(t, 1, out.summary.Targets[0].Verified)
			continue
		}
		require.Len(t, out.bad(), 1)
		require.Equal(t, event.Mismatch, out.bad()[0].Kind)
		require.FileExists(t, dst)
		require.FileExists(t, dst+".sha256")
		require.Empty(t, aside(t, filepath.Dir(dst)))
	}
}
