//go:build linux

package engine

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/event"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/fsys/faultfs"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/treetest"
)

// fastTree has files of all the lengths that are moved in different ways.
func fastTree(t *testing.T, root string) (files map[string][]byte) {
	t.Helper()
	files = map[string][]byte{}
	for i, size := range []int{0, 1, sweepBlock - 1, sweepBlock, sweepBlock + 1, bigSize, 50 * sweepBlock} {
		name := fmt.Sprintf("d%d/%d", i%2, size)
		files[name] = treetest.Pattern(size, byte(i))
		write(t, root, name, files[name], since)
	}
	files["holes"] = slices.Concat(make([]byte, 3*sweepBlock), files["d1/20603"], make([]byte, 20*sweepBlock))
	require.Len(t, files["d1/20603"], bigSize)
	write(t, root, "holes", nil, since)
	f, err := os.OpenFile(filepath.Join(root, "holes"), os.O_RDWR, 0)
	require.NoError(t, err)
	_, err = f.WriteAt(files["d1/20603"], 3*sweepBlock)
	require.NoError(t, err)
	require.NoError(t, f.Truncate(int64(len(files["holes"]))))
	require.NoError(t, f.Close())
	require.NoError(t, os.Chtimes(filepath.Join(root, "holes"), since, since))
	return files
}

// attempts counts the fast paths that were tried, and makes them fail.
type attempts struct {
	mu             sync.Mutex
	clones, ranges int
	fs             *fsys.FS
}

func refusing(clone, ranges func(nth int) error) *attempts {
	a := &attempts{}
	answer := func(n *int, f func(int) error) error {
		*n++
		if f == nil {
			return nil
		}
		return f(*n)
	}
	a.fs = faultfs.New(func(op fsys.Op, _ string) error {
		a.mu.Lock()
		defer a.mu.Unlock()
		switch op {
		case fsys.OpClone:
			return answer(&a.clones, clone)
		case fsys.OpCopyRange:
			return answer(&a.ranges, ranges)
		}
		return nil
	})
	return a
}

func always(err error) func(int) error { return func(int) error { return err } }

// After a refused fast path the copy has the right content and digests. The refusal of a pair
// of devices is remembered for the tree, that of a file is not.
func TestRefusedFastPaths(t *testing.T) {
	t.Parallel()
	dir := treetest.MemoryDir(t)
	src := filepath.Join(dir, "src")
	files := fastTree(t, src)
	const cloned, ranged = 7, 4 // files that have content, and those that are longer than a block
	for _, hashes := range [][]hash.Algorithm{nil, {hash.SHA256, hash.BLAKE3}} {
		for _, c := range []struct {
			err  error
			pair bool
		}{
			{syscall.EXDEV, true}, {syscall.ENOSYS, true}, {syscall.EOPNOTSUPP, true},
			{syscall.EINVAL, false}, {syscall.EPERM, false}, {syscall.ETXTBSY, false},
		} {
			for _, targets := range [][]string{{"one"}, {"one", "two"}} {
				t.Run(fmt.Sprint(hashes, c.err, len(targets)), func(t *testing.T) {
					o := options(src)
					for _, name := range targets {
						o.Targets = append(o.Targets, filepath.Join(dir, name))
						defer treetest.Remove(t, filepath.Join(dir, name))
					}
					o.Hashes, o.Workers = hashes, 1
					a := refusing(always(c.err), always(c.err))
					s := requireCopied(t, in(a.fs, o), files)
					size := int64(0)
					for _, content := range files {
						size += int64(len(content))
					}
					require.Equal(t, size, s.Bytes)
					wantClones, wantRanges := cloned*len(targets), ranged
					if c.pair {
						wantClones, wantRanges = 1, 1
					}
					if hashes != nil || len(targets) > 1 {
						wantRanges = 0 // the program has to read the bytes
					}
					require.Equal(t, wantClones, a.clones)
					require.Equal(t, wantRanges, a.ranges)
				})
			}
		}
	}
}

// The options decide which fast paths are tried.
func TestFastPathsAreAskedFor(t *testing.T) {
	t.Parallel()
	dir := treetest.MemoryDir(t)
	src := filepath.Join(dir, "src")
	files := fastTree(t, src)
	for name, c := range map[string]struct {
		change         func(o *Options)
		clones, ranges bool
	}{
		"auto":           {func(*Options) {}, true, true},
		"with a hash":    {func(o *Options) { o.Hashes = []hash.Algorithm{hash.SHA256} }, true, false},
		"never":          {func(o *Options) { o.Reflink = ReflinkNever }, false, false},
		"sparse: never":  {func(o *Options) { o.Sparse = SparseNever }, false, false},
		"sparse: always": {func(o *Options) { o.Sparse = SparseAlways }, false, false},
		"limited":        {func(o *Options) { o.BytesPerSecond = 1 << 30 }, true, false},
		"never, limited": {func(o *Options) { o.Reflink, o.BytesPerSecond = ReflinkNever, 1<<30 }, false, false},
		"dry run":        {func(o *Options) { o.DryRun = true }, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			o := options(src, filepath.Join(dir, "dst"))
			defer treetest.Remove(t, o.Targets[0])
			o.Hashes = nil
			c.change(&o)
			a := refusing(always(syscall.EINVAL), nil)
			out := watched(t, in(a.fs, o))
			require.False(t, out.anything(), "%s", out)
			if !o.DryRun {
				requireContent(t, o, files)
			}
			require.Equal(t, c.clones, a.clones > 0)
			require.Equal(t, c.ranges, a.ranges > 0)
		})
	}
}

// With --reflink=always each file that cannot be cloned fails. A file without content needs no
// clone.
func TestReflinkAlways(t *testing.T) {
	t.Parallel()
	dir := treetest.MemoryDir(t)
	src := filepath.Join(dir, "src")
	files := fastTree(t, src)
	for _, refusal := range []error{syscall.EXDEV, syscall.EINVAL} {
		o := options(src, filepath.Join(dir, "dst"))
		o.Reflink = ReflinkAlways
		a := refusing(always(refusal), nil)
		out := watched(t, in(a.fs, o))
		require.NoError(t, out.err)
		require.EqualValues(t, len(files)-1, out.summary.Errors)
		require.Equal(t, len(files)-1, a.clones)
		require.Zero(t, a.ranges)
		require.Nil(t, out.summary.Targets[0].Lost)
		for _, e := range out.events {
			if e.Kind == event.Failed {
				require.ErrorIs(t, e.Err, refusal)
				require.ErrorContains(t, e.Err, "cannot share blocks with the source")
			}
		}
		require.Equal(t, 1, requireWhole(t, o.Targets[0], files))
		treetest.Remove(t, o.Targets[0])
	}
}

// An error that is no refusal fails the file at one destination, or drops that destination,
// also after some bytes were copied. The other destination is complete, and the next run
// completes both.
func TestFastPathsThatFail(t *testing.T) {
	t.Parallel()
	dir := treetest.MemoryDir(t)
	src := filepath.Join(dir, "src")
	large := 17<<20 + 5
	files := map[string][]byte{"large": treetest.Pattern(large, 1), "small": treetest.Pattern(100, 2)}
	for name, content := range files {
		write(t, src, name, content, since)
	}
	for _, c := range []struct {
		op   fsys.Op
		nth  int
		err  error
		lost bool
	}{
		{fsys.OpClone, 1, syscall.EIO, false},
		{fsys.OpClone, 1, syscall.ENOSPC, true},
		{fsys.OpCopyRange, 1, syscall.EIO, false},
		{fsys.OpCopyRange, 2, syscall.EIO, false},
		{fsys.OpCopyRange, 1, syscall.ENOSPC, true},
		{fsys.OpCopyRange, 3, syscall.ENOSPC, true},
		{fsys.OpCopyRange, 2, syscall.EDQUOT, true},
		{fsys.OpPreallocate, 1, syscall.EIO, false},
		{fsys.OpPreallocate, 1, syscall.ENOSPC, true},
	} {
		t.Run(fmt.Sprint(c.op, c.nth, c.err), func(t *testing.T) {
			o := options(src, filepath.Join(dir, "one"))
			o.Workers, o.BlockSize, o.Hashes = 1, largeBlock, nil
			if c.op != fsys.OpCopyRange { // which is for one alone
				o.Targets = append(o.Targets, filepath.Join(dir, "two"))
			}
			for _, target := range o.Targets {
				defer treetest.Remove(t, target)
			}
			if c.op == fsys.OpPreallocate {
				o.Sparse = SparseNever
			}
			inj := &injector{fail: operation{c.op, c.nth - 1}, err: c.err}
			out := watched(t, in(inj.fs(), o))
			require.True(t, inj.hit)
			require.NoError(t, out.err)
			require.EqualValues(t, 1, out.summary.Errors, "%s", out)
			require.Equal(t, c.lost, out.summary.Targets[0].Lost != nil)
			for _, e := range out.events {
				if e.Kind == event.Failed || e.Kind == event.DestinationLost {
					require.Equal(t, o.Targets[0], e.Target)
					require.ErrorIs(t, e.Err, c.err)
				}
			}
			require.Less(t, requireWhole(t, o.Targets[0], files), len(files))
			if len(o.Targets) > 1 {
				require.Equal(t, len(files), requireWhole(t, o.Targets[1], files))
			}
			requireCopied(t, o, files)
		})
	}
}

// A read error while the system copies is a failure of the source at all destinations.
func TestRangesOfASourceThatCannotBeRead(t *testing.T) {
	t.Parallel()
	dir := treetest.MemoryDir(t)
	src := filepath.Join(dir, "src")
	write(t, src, "large", treetest.Pattern(20<<20, 1), since)
	write(t, src, "small", []byte("small"), since)
	o := options(src, filepath.Join(dir, "dst"))
	o.Workers, o.Hashes = 1, nil
	var ranges atomic.Int64
	sys := faultfs.New(func(op fsys.Op, _ string) error {
		if op == fsys.OpCopyRange {
			ranges.Add(1)
		}
		if ranges.Load() >= 2 && (op == fsys.OpCopyRange || op == fsys.OpRead) {
			return syscall.ENOSPC // from a destination, this error would drop it
		}
		return nil
	})
	o.FS = sys
	out := watched(t, o)
	require.EqualValues(t, 2, ranges.Load())
	require.Nil(t, out.summary.Targets[0].Lost)
	failed := 0
	for _, e := range out.events {
		if e.Kind == event.Failed {
			failed++
			require.Empty(t, e.Target, "%v", e.Err)
		}
	}
	require.Positive(t, failed)
	require.NoFileExists(t, filepath.Join(o.Targets[0], "large"))
	require.Empty(t, temporaries(t, o.Targets[0]))
}

// The source becomes shorter before or during the copy by the system. The destination gets the
// new content.
func TestASourceThatShrinksBeforeTheSystemCopiesIt(t *testing.T) {
	t.Parallel()
	for _, nth := range []int{1, 2} {
		for _, to := range []int64{0, 9 << 20} {
			dir := treetest.MemoryDir(t)
			src := filepath.Join(dir, "src")
			content := treetest.Pattern(20<<20+3, 1)
			write(t, src, "large", content, since)
			o := options(src, filepath.Join(dir, "dst"))
			o.Workers, o.Hashes = 1, nil
			ranges := 0
			sys := faultfs.New(func(op fsys.Op, _ string) error {
				if op == fsys.OpCopyRange {
					if ranges++; ranges == nth {
						return os.Truncate(filepath.Join(src, "large"), to)
					}
				}
				return nil
			})
			c := &counters.Set{}
			o.FS = sys
			s, err := Run(t.Context(), &o, c)
			require.NoError(t, err)
			require.Zero(t, s.Errors)
			require.Equal(t, to, c.Bytes.Load(), "what was read in vain does not count")
			requireContent(t, o, map[string][]byte{"large": content[:to]})
		}
	}
}

// Every operation of a copy by the system fails once, in the short form every fifth. The
// failure is reported, no partial file has a final name, and the next run completes the copy.
func TestFaultsWhereTheSystemCopies(t *testing.T) {
	t.Run("ranges", func(t *testing.T) { sweepFast(t, treetest.MemoryDir(t), nil) })
	t.Run("clones", func(t *testing.T) {
		disk := cloneDisk(t, "xfs")
		sweepFast(t, disk, []hash.Algorithm{hash.SHA256})
		sweepFast(t, disk, nil)
	})
}

func sweepFast(t *testing.T, dir string, hashes []hash.Algorithm) {
	t.Helper()
	src, dst := filepath.Join(dir, "src"), filepath.Join(dir, "dst")
	require.NoError(t, os.RemoveAll(src))
	files := fastTree(t, src)
	o := stopClock(options(src, dst))
	o.Workers, o.Hashes = 1, hashes
	var clean injector
	requireCopied(t, in(clean.fs(), o), files)
	require.Positive(t, clean.counts[fsys.OpClone])
	treetest.Remove(t, dst)
	stride := int(sweepStride(5))
	for offset, op := range []fsys.Op{
		fsys.OpClone, fsys.OpCopyRange, fsys.OpCreate, fsys.OpStat, fsys.OpRead, fsys.OpTruncate, fsys.OpCloseFile, fsys.OpLink,
	} {
		for nth := offset % stride; nth < clean.counts[op]; nth += stride {
			inj := &injector{fail: operation{op, nth}, err: syscall.EIO}
			out := watched(t, in(inj.fs(), o))
			require.Empty(t, out.panicked)
			requireWhole(t, dst, files)
			if inj.hit && excuse(inj.stack) == "" {
				require.True(t, out.anything(), "%s %q is silent\n%s", inj.fail, inj.name, ourFrames(inj.stack))
			}
			if !out.anything() {
				requireContent(t, o, files)
			}
			requireCopied(t, o, files)
			treetest.Remove(t, dst)
		}
	}
}
