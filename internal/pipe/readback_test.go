//go:build linux

package pipe

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/treetest"
)

var allCaches = []CacheMode{CacheAuto, CacheDrop, CacheDirect}

// The digest and the size are right in every mode, for every size around the
// edges of pages and blocks, on the file systems at hand.
func TestReadBackDigestsInEveryMode(t *testing.T) {
	defer goleak.VerifyNone(t)
	for _, dir := range []string{treetest.MemoryDir(t), t.TempDir()} {
		d := openDir(t, dir)
		for i, size := range []int{0, 1, 4095, 4096, 4097, 128<<10 - 1, 128 << 10, 128<<10 + 1, 1<<20 + 5, dropUnit + 4097} {
			content := treetest.Pattern(size, byte(i))
			require.NoError(t, os.WriteFile(filepath.Join(dir, "f"), content, 0o600))
			want := digestsOf(content)
			for _, block := range []int{1 << 20, 128 << 10, 4096, 5000, 4095, 1} {
				if size/block > 500 {
					continue
				}
				for _, cache := range allCaches {
					src, info, err := d.Open("f")
					require.NoError(t, err)
					p := mover(block, 2, int64(3*block), true)
					set := freshSet()
					n, fromDevice, err := p.ReadBack(t.Context(), src, info, set, cache, nil)
					src.Close()
					what := fmt.Sprintf("%d bytes in %s, blocks of %d, %s", size, dir, block, cache)
					require.NoError(t, err, what)
					require.EqualValues(t, size, n, what)
					require.Equal(t, want, set.Digests(), what)
					require.EqualValues(t, size, p.Bytes.Load(), what)
					require.Zero(t, p.Pool.Out(), what)
					if cache == CacheAuto || !d.DeviceBacked() {
						require.False(t, fromDevice, what)
					}
				}
			}
		}
	}
}

// For a disk, ReadBack reports that data came from the device and not from memory, with and
// without bypassing the cache.
func TestReadBackReportsTheDevice(t *testing.T) {
	dir := t.TempDir()
	d := openDir(t, dir)
	if !d.DeviceBacked() {
		t.Skip("temporary files are not on a disk")
	}
	for _, size := range []int{4096, 100_000} {
		content := treetest.Pattern(size, 1)
		require.NoError(t, os.WriteFile(filepath.Join(dir, "f"), content, 0o600))
		for _, cache := range []CacheMode{CacheDrop, CacheDirect} {
			src, info, err := d.Open("f")
			require.NoError(t, err)
			set := freshSet()
			_, fromDevice, err := mover(4096, 2, 1<<20, false).ReadBack(t.Context(), src, info, set, cache, nil)
			src.Close()
			require.NoError(t, err)
			require.True(t, fromDevice, "%d bytes, %s", size, cache)
			require.Equal(t, digestsOf(content), set.Digests())
		}
	}
}

// A mapped file stays in memory; it is read past the cache then.
func TestReadBackOfAMappedFile(t *testing.T) {
	for _, dir := range []string{treetest.MemoryDir(t), t.TempDir()} {
		d := openDir(t, dir)
		content := treetest.Pattern(200_001, 1)
		path := filepath.Join(dir, "f")
		require.NoError(t, os.WriteFile(path, content, 0o600))
		f, err := os.Open(path)
		require.NoError(t, err)
		defer f.Close()
		mapped, err := syscall.Mmap(int(f.Fd()), 0, len(content), syscall.PROT_READ, syscall.MAP_SHARED)
		require.NoError(t, err)
		defer func() { require.NoError(t, syscall.Munmap(mapped)) }()
		for _, block := range []int{4096, 5000, 1 << 20} {
			for _, cache := range allCaches {
				require.Equal(t, content, mapped) // all of it is in memory now
				src, info, err := d.Open("f")
				require.NoError(t, err)
				set := freshSet()
				n, fromDevice, err := mover(block, 2, 1<<20, false).ReadBack(t.Context(), src, info, set, cache, nil)
				src.Close()
				require.NoError(t, err)
				require.EqualValues(t, len(content), n)
				require.Equal(t, digestsOf(content), set.Digests())
				if cache == CacheAuto || !d.DeviceBacked() || block%fsys.DirectAlignment != 0 {
					require.False(t, fromDevice, "%s, block %d", cache, block)
				}
			}
		}
	}
}

// A file has another size than before. The digest is that of the bytes that were read,
// and their number is returned, so the caller can compare it with the expected size.
func TestReadBackOfAFileOfAnotherSize(t *testing.T) {
	defer goleak.VerifyNone(t)
	for _, dir := range []string{treetest.MemoryDir(t), t.TempDir()} {
		d := openDir(t, dir)
		for _, size := range []int{0, 1, 100, 4096, 5000, 20_000, 64 << 10} {
			content := treetest.Pattern(size, 3)
			require.NoError(t, os.WriteFile(filepath.Join(dir, "f"), content, 0o600))
			for _, said := range []int64{0, 1, 99, 4096, 5000, 8192, 19_999, 30_000, 1 << 20} {
				for _, block := range []int{4096, 12 << 10, 5000} {
					for _, cache := range allCaches {
						src, info, err := d.Open("f")
						require.NoError(t, err)
						info.Size = said
						p := mover(block, 2, 1<<20, false)
						set := freshSet()
						n, _, err := p.ReadBack(t.Context(), src, info, set, cache, nil)
						src.Close()
						what := fmt.Sprintf("%d bytes, said to be %d, in %s, blocks of %d, %s", size, said, dir, block, cache)
						require.NoError(t, err, what)
						require.LessOrEqual(t, n, int64(size), what)
						if said == 0 || said >= int64(size) {
							require.EqualValues(t, size, n, what)
						} else {
							require.GreaterOrEqual(t, n, said, what)
						}
						require.Equal(t, digestsOf(content[:n]), set.Digests(), what)
						require.Equal(t, n, p.Bytes.Load(), what)
						require.Zero(t, p.Pool.Out(), what)
					}
				}
			}
		}
	}
}

// The digest does not depend on how many files are under way, nor on when
// another core falls idle.
func TestDigestAloneAndAmongMany(t *testing.T) {
	defer goleak.VerifyNone(t)
	dir := treetest.MemoryDir(t)
	sys := new(fsys.FS)
	d := openDirOf(t, sys, dir)
	cores := int64(runtime.GOMAXPROCS(0))
	contents := map[string][]byte{}
	for i, size := range []int{0, 1, testBlock, testBlock + 1, sequentialBlocks * testBlock, sequentialBlocks*testBlock + 1, 50*testBlock + 7, 200 * testBlock} {
		name := fmt.Sprint("f", i)
		contents[name] = treetest.Pattern(size, byte(i))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), contents[name], 0o600))
	}
	digest := func(p *Pipe, name string) {
		src, info, err := d.Open(name)
		require.NoError(t, err)
		defer src.Close()
		set := freshSet()
		n, err := p.Move(context.Background(), src, info, set, nil, MoveOptions{})
		require.NoError(t, err)
		require.EqualValues(t, len(contents[name]), n)
		require.Equal(t, digestsOf(contents[name]), set.Digests(), name)
	}
	for _, others := range []int64{0, cores, -cores} { // idle cores; none; idle from the start
		for _, blocks := range []int64{1, 2, 100} {
			p := mover(testBlock, 2, blocks*testBlock, false)
			p.files.Add(others)
			for name := range contents {
				digest(p, name)
			}
			require.Equal(t, others, p.files.Load())
			require.Zero(t, p.Pool.Out())
		}
	}
	p := mover(testBlock, 2, 7*testBlock, false)
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for name := range contents {
				digest(p, name)
			}
		})
	}
	group.Wait()
	require.Zero(t, p.Pool.Out())
	require.Zero(t, p.files.Load())

	// A core falls idle in the middle of a file: the lanes take over there.
	p = mover(testBlock, 2, 7*testBlock, false)
	p.files.Add(cores)
	reads, lanes := 0, 0
	hook(sys, func(op fsys.Op, _ string) error {
		if op == fsys.OpRead {
			if reads++; reads == 20 {
				p.files.Add(-cores)
			}
			lanes = max(lanes, runtime.NumGoroutine())
		}
		return nil
	})
	before := runtime.NumGoroutine()
	digest(p, "f7")
	if cores > 1 {
		require.Greater(t, lanes, before, "or this tests nothing")
	}
}

// After any failure and any stop, all blocks are released and no goroutine stays. An error
// is returned, and nothing is read after it.
func TestReadBackGivesAllBlocksBack(t *testing.T) {
	for _, dir := range []string{treetest.MemoryDir(t), t.TempDir()} {
		for name, size := range map[string]int{"inline": 3000, "big": 40 * testBlock} {
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), treetest.Pattern(size, 1), 0o600))
			sys := new(fsys.FS)
			d := openDirOf(t, sys, dir)
			for _, cache := range allCaches {
				for _, fault := range []error{nil, syscall.EIO} { // nil: the context ends
					for k := int64(1); ; k++ {
						src, info, err := d.Open(name)
						require.NoError(t, err)
						p := mover(testBlock, 1, 2*testBlock, false)
						ctx, cancel := context.WithCancel(context.Background())
						var calls atomic.Int64
						unhook := hook(sys, func(fsys.Op, string) error {
							if calls.Add(1) == k {
								if fault == nil {
									cancel()
								}
								return fault
							}
							return nil
						})
						n, _, err := p.ReadBack(ctx, src, info, freshSet(), cache, nil)
						unhook()
						cancel()
						src.Close()
						require.Zero(t, p.Pool.Out())
						require.Zero(t, p.files.Load())
						goleak.VerifyNone(t)
						if calls.Load() < k {
							require.NoError(t, err)
							require.EqualValues(t, size, n)
							break
						}
						require.Equal(t, k, calls.Load(), "it went on reading")
						switch {
						case fault != nil:
							require.ErrorIs(t, err, fault, "%s, %s, operation %d", name, cache, k)
						case err != nil:
							require.ErrorIs(t, err, context.Canceled)
							require.Less(t, n, int64(size)+1)
						default: // it was complete
							require.EqualValues(t, size, n)
						}
					}
				}
			}
		}
	}
}

// A context that has ended already reads nothing.
func TestReadBackWithAnEndedContextReadsNothing(t *testing.T) {
	dir := treetest.MemoryDir(t)
	d := openDir(t, dir)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for _, size := range []int{100, 20 * testBlock} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "f"), treetest.Pattern(size, 1), 0o600))
		for _, cache := range allCaches {
			src, info, err := d.Open("f")
			require.NoError(t, err)
			p := mover(testBlock, 1, testBlock, false)
			busy, err := p.Pool.Get(t.Context()) // the only one: no other goroutine can get it
			require.NoError(t, err)
			_, _, err = p.ReadBack(ctx, src, info, freshSet(), cache, nil)
			require.ErrorIs(t, err, context.Canceled)
			require.Zero(t, p.Bytes.Load())
			busy.Release()
			require.Zero(t, p.Pool.Out())
			src.Close()
		}
	}
}
