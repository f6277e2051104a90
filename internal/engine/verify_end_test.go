package engine

import (
	"context"
	"errors"
	"fmt"
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
	"github.com/seed65876f4f/sealift/internal/event"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/fsys/faultfs"
	"github.com/seed65876f4f/sealift/internal/readback"
	"github.com/seed65876f4f/sealift/internal/resume"
	"github.com/seed65876f4f/sealift/internal/treetest"
)

// Files at a destination that is full are read back and listed. The other destinations are not
// affected.
func TestVerifyOfAFullDestination(t *testing.T) {
	t.Parallel()
	linuxOnly(t, "Windows reports a full disk with another error")
	dir := treetest.MemoryDir(t)
	src := filepath.Join(dir, "src")
	for i := range 6 {
		write(t, src, fmt.Sprint("f", i), treetest.Pattern(100*i+1, byte(i)), since)
	}
	for _, rotten := range []bool{false, true} {
		targets := []string{filepath.Join(dir, fmt.Sprint(rotten, 1)), filepath.Join(dir, fmt.Sprint(rotten, 2))}
		c := &counters.Set{}
		writes, spoilt := 0, false
		sys := faultfs.New(func(op fsys.Op, _ string) error {
			if counters.Phase(c.Phase.Load()) == counters.PhaseVerifying {
				if rotten && !spoilt {
					spoilt = true
					spoil(t, filepath.Join(targets[0], "f1"))
				}
				return nil
			}
			if op == fsys.OpWrite {
				if writes++; writes == 11 { // the first destination's fourth file; four are the journals'
					return syscall.ENOSPC
				}
			}
			return nil
		})
		o := verifying(VerifyDest, src, targets...)
		o.Workers = 1
		o.FS = sys
		out := runCounted(t, o, c)
		require.ErrorIs(t, out.summary.Targets[0].Lost, syscall.ENOSPC)
		require.NoError(t, out.summary.Targets[1].Lost)
		require.EqualValues(t, 1, out.summary.Errors)
		want := []string{"f0", "f1", "f2"}
		if rotten {
			want = []string{"f0", "f2"}
			require.EqualValues(t, 1, out.summary.Mismatches)
			require.Equal(t, []string{readback.BadPrefix + "f1"}, aside(t, targets[0]))
		}
		require.Equal(t, want, listed(t, targets[0]))
		require.EqualValues(t, len(want), out.summary.Targets[0].Verified)
		require.Len(t, listed(t, targets[1]), 6)
		require.EqualValues(t, 6, out.summary.Targets[1].Verified)
	}
}

// A destination that is dropped while it is read back gets no manifest, because not all was
// read. The other destinations are not affected.
func TestADestinationLostWhileItIsReadBack(t *testing.T) {
	t.Parallel()
	linuxOnly(t, "Windows reports a missing disk with another error")
	src, files := littleTree(t)
	for _, op := range []fsys.Op{fsys.OpRead, fsys.OpOpen, fsys.OpDropCache} {
		for nth := range 4 {
			for _, workers := range []int{1, 4} {
				dir := treetest.MemoryDir(t)
				targets := []string{filepath.Join(dir, "1"), filepath.Join(dir, "2")}
				c := &counters.Set{}
				var calls atomic.Int64
				sys := faultfs.New(func(o fsys.Op, _ string) error {
					if o == op && counters.Phase(c.Phase.Load()) == counters.PhaseVerifying && calls.Add(1) == int64(nth+1) {
						return syscall.ENODEV
					}
					return nil
				})
				o := verifying(VerifyDest, src, targets...)
				o.Workers = workers
				o.FS = sys
				out := runCounted(t, o, c)
				lost, kept := 0, 1
				if out.summary.Targets[0].Lost == nil {
					lost, kept = 1, 0
				}
				require.ErrorIs(t, out.summary.Targets[lost].Lost, syscall.ENODEV)
				require.NoError(t, out.summary.Targets[kept].Lost)
				require.NoFileExists(t, filepath.Join(targets[lost], "SHA256SUMS"))
				require.Empty(t, out.summary.Targets[lost].Manifests)
				require.Less(t, out.summary.Targets[lost].Verified, int64(len(files)))
				require.Len(t, listed(t, targets[kept]), len(files))
				require.EqualValues(t, len(files), out.summary.Targets[kept].Verified)
				require.Zero(t, out.summary.Mismatches)
				require.Positive(t, out.summary.Errors)

				out = runReported(t, verifying(VerifyDest, src, targets...))
				require.Empty(t, out.bad())
				require.Len(t, listed(t, targets[lost]), len(files))
				require.NoDirExists(t, filepath.Join(targets[lost], resume.JournalName("")))
			}
		}
	}
}

// Files that could not be synced are neither read back nor listed.
func TestNothingIsReadBackThatIsNotDurable(t *testing.T) {
	t.Parallel()
	linuxOnly(t, "it refuses to flush a file system")
	src, files := littleTree(t)
	dir := treetest.MemoryDir(t)
	targets := []string{filepath.Join(dir, "1"), filepath.Join(dir, "2")}
	failed := false
	sys := faultfs.New(func(op fsys.Op, _ string) error {
		if op == fsys.OpSyncFS && !failed {
			failed = true
			return syscall.EIO
		}
		return nil
	})
	o := verifying(VerifyDest, src, targets...)
	o.Sync = dest.SyncEnd
	o.FS = sys
	out := runReported(t, o)
	require.True(t, failed)
	require.Len(t, out.bad(), 1)
	require.Zero(t, out.summary.Targets[0].Verified)
	require.NoFileExists(t, filepath.Join(targets[0], "SHA256SUMS"))
	require.EqualValues(t, len(files), out.summary.Targets[1].Verified)
	require.Len(t, listed(t, targets[1]), len(files))
}

// A run that is stopped while it reads back leaves no manifest, and leaves the journal for the
// next run.
func TestCancellationWhileReadingBack(t *testing.T) {
	t.Parallel()
	src, files := littleTree(t)
	for _, old := range []bool{false, true} { // an earlier manifest, of which a file was replaced
		total, runs, stopped := int64(1), 0, 0
		for k := int64(0); k <= total; k += int64(1 + 5*btoi(old)) { // 0: to count
			dst := filepath.Join(treetest.MemoryDir(t), "dst")
			if old {
				write(t, dst, "a", []byte("old"), longAgo)
				write(t, dst, "extra", []byte("extra"), longAgo)
				lines := sha("old") + "  a\n" + sha("extra") + "  extra\n"
				require.NoError(t, os.WriteFile(filepath.Join(dst, "SHA256SUMS"), []byte(lines), 0o600))
				touchManifests(t, filepath.Join(dst, "SHA256SUMS"))
			}
			runs++
			ctx, cancel := context.WithCancelCause(t.Context())
			reason := errors.New("the user")
			c := &counters.Set{}
			var calls atomic.Int64
			sys := faultfs.New(func(fsys.Op, string) error {
				if counters.Phase(c.Phase.Load()) == counters.PhaseVerifying && calls.Add(1) == k {
					cancel(reason)
				}
				return nil
			})
			o := verifying(VerifyFull, src, dst)
			o.Workers = 2
			var events []event.Event
			o.Report = func(e event.Event) { events = append(events, e) }
			o.FS = sys
			s, err := Run(ctx, &o, c)
			cancel(nil)
			require.Empty(t, (&runReport{events: events}).bad(), "an interruption is no failure (operation %d)", k)
			require.Equal(t, len(files)+btoi(old), requireWhole(t, dst, withExtra(files)))
			require.Empty(t, aside(t, dst))
			saved, _ := filepath.Glob(filepath.Join(dst, ".sealift-was-*"))
			if k == 0 {
				require.NoError(t, err)
				total = calls.Load()
			} else if err != nil {
				stopped++
				require.ErrorIs(t, err, reason)
				require.Empty(t, s.Targets[0].Manifests)
				require.NoFileExists(t, filepath.Join(dst, "SHA256SUMS"))
				require.DirExists(t, filepath.Join(dst, resume.JournalName("")))
				require.Len(t, saved, btoi(old), "the previous manifest is aside")
			}
			out := runReported(t, verifying(VerifyFull, src, dst))
			require.Empty(t, out.bad())
			require.EqualValues(t, len(files), out.summary.Targets[0].Verified)
			require.Len(t, listed(t, dst), len(files)+btoi(old))
			require.NoDirExists(t, filepath.Join(dst, resume.JournalName("")))
		}
		require.Greater(t, stopped, runs*3/4)
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

func withExtra(files map[string][]byte) map[string][]byte {
	all := map[string][]byte{"extra": []byte("extra")}
	for name, content := range files {
		all[name] = content
	}
	return all
}

// With --fail-fast the first bad file ends the read-back. No manifest lists the rest as read.
func TestFailFastWhileReadingBack(t *testing.T) {
	t.Parallel()
	dir := treetest.MemoryDir(t)
	src := filepath.Join(dir, "src")
	for i := range 40 {
		write(t, src, fmt.Sprintf("f%02d", i), treetest.Pattern(100, byte(i)), since)
	}
	for name, fault := range map[string]error{"mismatch": nil, "error": syscall.EIO} {
		targets := []string{filepath.Join(dir, name, "1"), filepath.Join(dir, name, "2")}
		o := verifying(VerifyDest, src, targets...)
		o.FailFast = true
		drops := 0
		out := runAndFail(t, o, func() {
			if fault == nil {
				spoil(t, filepath.Join(targets[1], "f03"))
			}
		}, func(op fsys.Op, _ string) error {
			if op == fsys.OpDropCache {
				if drops++; drops == 8 {
					return fault
				}
			}
			return nil
		})
		require.Len(t, out.bad(), 1)
		require.Equal(t, []string{"f03", targets[1]}, []string{out.bad()[0].Path, out.bad()[0].Target})
		require.Less(t, drops, 40, "it went on reading: there are 80 files") // those in the queue are read
		for i, target := range targets {
			require.NoFileExists(t, filepath.Join(target, "SHA256SUMS"))
			require.Empty(t, out.summary.Targets[i].Manifests)
			require.Less(t, out.summary.Targets[i].Verified, int64(10))
		}
		mustRun(t, verifying(VerifyDest, src, targets...))
		require.Len(t, listed(t, targets[1]), 40)
	}
}

// The read-back has separate totals and counters, also for each destination. They are equal at
// the end of a run without failures.
func TestProgressOfReadingBack(t *testing.T) {
	t.Parallel()
	dir := treetest.MemoryDir(t)
	src := filepath.Join(dir, "src")
	bytes := int64(0)
	for i := range 20 {
		write(t, src, fmt.Sprintf("d%d/f%d", i%3, i), treetest.Pattern(i*1000, byte(i)), since)
		bytes += int64(i * 1000)
	}
	for mode, readings := range map[VerifyMode]int64{VerifyOff: 0, VerifyDest: 3, VerifyFull: 4} {
		for _, single := range []bool{false, true} {
			source, want, files := src, bytes, int64(20)
			targets := threeTargets(filepath.Join(dir, mode.String()))
			if single {
				source, want, files = filepath.Join(src, "d1/f19"), 19000, 1
				for i := range targets {
					targets[i] += "/file/"
				}
			}
			c := &counters.Set{CountTotals: true}
			var mu sync.Mutex
			phases := []counters.Phase{}
			sys := faultfs.New(func(fsys.Op, string) error {
				mu.Lock()
				defer mu.Unlock()
				p := counters.Phase(c.Phase.Load())
				if len(phases) == 0 || phases[len(phases)-1] != p {
					phases = append(phases, p)
				}
				return nil
			})
			o := verifying(mode, source, targets...)
			o.Workers = 1
			for range 2 { // copied, then skipped
				c.Bytes.Store(0)
				c.Files.Store(0)
				c.TotalBytes.Store(0)
				c.TotalFiles.Store(0)
				c.ScanDone.Store(false)
				c.ReadBack.Bytes.Store(0)
				c.ReadBack.Files.Store(0)
				o.FS = sys
				require.Empty(t, runCounted(t, o, c).bad())
				require.True(t, c.ScanDone.Load() || !single)
				require.Equal(t, want, c.Bytes.Load(), "%s, single %v", mode, single)
				require.Equal(t, files, c.Files.Load())
				if c.ScanDone.Load() { // or the copy was done before
					require.Equal(t, want, c.TotalBytes.Load())
					require.Equal(t, files, c.TotalFiles.Load())
				}
				require.Equal(t, []int64{readings * files, readings * files}, []int64{c.ReadBack.Files.Load(), c.ReadBack.TotalFiles.Load()})
				require.Equal(t, []int64{readings * want, readings * want}, []int64{c.ReadBack.Bytes.Load(), c.ReadBack.TotalBytes.Load()})
				for _, d := range c.Destinations() {
					require.NotZero(t, d.Device)
					n := min(readings, 1)
					require.Equal(t, []int64{n * files, n * files}, []int64{d.ReadBack.Files.Load(), d.ReadBack.TotalFiles.Load()}, d.Name)
					require.Equal(t, []int64{n * want, n * want}, []int64{d.ReadBack.Bytes.Load(), d.ReadBack.TotalBytes.Load()}, d.Name)
				}
				require.Nil(t, c.Current(nil), "no file is under way any more")
				require.Equal(t, counters.PhaseDone, counters.Phase(c.Phase.Load()))
			}
			require.Equal(t, mode != VerifyOff, slices.Contains(phases, counters.PhaseVerifying))
			last := phases[len(phases)-1]
			require.Equal(t, counters.PhaseFlushing, last, "the manifests are written last")
		}
	}
}

// A dry run reads nothing back, and so does a run without hashes.
func TestNothingToReadBack(t *testing.T) {
	t.Parallel()
	src, _ := littleTree(t)
	for name, change := range map[string]func(o *Options){
		"dry run": func(o *Options) { o.DryRun = true },
		"no hash": func(o *Options) { o.Hashes = nil },
		"nothing there": func(o *Options) {
			o.Source = filepath.Join(treetest.MemoryDir(t), "empty")
			require.NoError(t, os.Mkdir(o.Source, 0o700))
		},
	} {
		sys := faultfs.New(func(op fsys.Op, _ string) error {
			if op == fsys.OpDropCache {
				t.Errorf("%s: something is read back", name)
			}
			return nil
		})
		o := verifying(VerifyFull, src, filepath.Join(treetest.MemoryDir(t), strings.ReplaceAll(name, " ", "")))
		change(&o)
		o.FS = sys
		out := runReported(t, o)
		require.Empty(t, out.mismatches(), name)
		require.Zero(t, out.summary.Targets[0].Verified)
	}
}

// The stages that the collector gets are those that users see.
func TestStagesOfReadingBack(t *testing.T) {
	t.Parallel()
	src, dst := sourceAndDestination(t)
	write(t, src, "a", treetest.Pattern(100, 1), since)
	out := runAndChange(t, verifying(VerifyDest, src, dst), func() { require.NoError(t, os.Remove(filepath.Join(dst, "a"))) })
	require.Len(t, out.bad(), 1)
	require.Equal(t, failure.StageVerify, stageOf(t, out.bad()[0]))
	require.ErrorContains(t, out.bad()[0].Err, "not there any more")
}
