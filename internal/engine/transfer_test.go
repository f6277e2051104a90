//go:build linux

package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
)

// mover is as much of a run as transfer needs.
func mover(block, queue int, memory int64, sparse SparseMode) *run {
	o := &Options{BlockSize: block, QueueSize: queue, Memory: memory, Sparse: sparse}
	return &run{opts: o, counters: &Counters{}, pool: newPool(block, memory)}
}

// openDir opens dir for as long as the test takes.
func openDir(t testing.TB, dir string) *fsys.Dir {
	t.Helper()
	d, err := fsys.OpenRoot(dir)
	require.NoError(t, err)
	t.Cleanup(func() { d.Close() })
	return d
}

func sinks(t require.TestingT, d *fsys.Dir, n int) []*sink {
	list := make([]*sink, n)
	for i := range list {
		p, err := d.Create(false)
		require.NoError(t, err)
		list[i] = &sink{file: p}
	}
	return list
}

// written returns what a sink's file holds and gives the file up.
func written(t require.TestingT, s *sink) []byte {
	defer s.file.Abort()
	info, err := s.file.Stat()
	require.NoError(t, err)
	b := make([]byte, info.Size)
	n, err := s.file.ReadAt(b, 0)
	require.NoError(t, err)
	return b[:n]
}

func blocksOf(t require.TestingT, s *sink) int64 {
	info, err := s.file.Stat()
	require.NoError(t, err)
	return info.Blocks * 512
}

// A sink is a byte slice in which what is not written is zero, sparse or not.
func TestSinkAgainstAByteSlice(t *testing.T) {
	d := openDir(t, memoryDir(t))
	rapid.Check(t, func(t *rapid.T) {
		s := sinks(t, d, 1)[0]
		s.sparse = rapid.Bool().Draw(t, "sparse")
		var model []byte
		off := int64(0)
		for range rapid.IntRange(0, 6).Draw(t, "writes") {
			off += int64(rapid.SampledFrom([]int{0, 0, 1, 100, 4095, 4096, 10_000}).Draw(t, "gap"))
			var data []byte
			for range rapid.IntRange(0, 5).Draw(t, "runs") {
				n := rapid.SampledFrom([]int{1, 7, 4095, 4096, 4097, 8192, 70_000}).Draw(t, "length")
				if rapid.Bool().Draw(t, "zero") {
					data = append(data, make([]byte, n)...)
				} else {
					data = append(data, pattern(n, byte(n))...)
				}
			}
			s.write(data, off)
			require.NoError(t, s.err)
			if end := off + int64(len(data)); len(data) > 0 && end > int64(len(model)) {
				model = append(model, make([]byte, end-int64(len(model)))...)
			}
			copy(model[min(off, int64(len(model))):], data)
			off += int64(len(data))
		}
		size := max(off, int64(len(model)))
		model = append(model, make([]byte, size-int64(len(model)))...)
		s.finish(size)
		require.NoError(t, s.err)
		require.True(t, bytes.Equal(model, written(t, s)))
	})
}

func TestSparseSinkMakesHoles(t *testing.T) {
	d := openDir(t, memoryDir(t))
	data := make([]byte, 1<<20)
	copy(data[512<<10:], pattern(5000, 1))
	dense, sparse := sinks(t, d, 1)[0], sinks(t, d, 1)[0]
	sparse.sparse = true
	for _, s := range []*sink{dense, sparse} {
		s.write(data, 0)
		s.finish(int64(len(data)))
		require.NoError(t, s.err)
	}
	if blocksOf(t, dense) < 1<<20 {
		t.Skip("this file system does not account for zeros")
	}
	require.LessOrEqual(t, blocksOf(t, sparse), int64(16<<10))
	require.Equal(t, data, written(t, sparse))
	require.Equal(t, data, written(t, dense))
}

func TestASinkKeepsItsFirstError(t *testing.T) {
	s := sinks(t, openDir(t, memoryDir(t)), 1)[0]
	defer s.file.Abort()
	errs := []error{syscall.ENOSPC, syscall.EIO}
	writes := 0
	hook(t, func(op fsys.Op, _ string) error {
		if op == fsys.OpWrite {
			writes++
			return errs[writes-1]
		}
		return nil
	})
	s.write([]byte("x"), 0)
	s.write([]byte("y"), 1)
	s.finish(10)
	require.Equal(t, 1, writes)
	require.ErrorIs(t, s.err, syscall.ENOSPC)
}

func TestIsZero(t *testing.T) {
	for _, n := range []int{0, 1, 4096, len(zeros) - 1, len(zeros), len(zeros) + 1, 3*len(zeros) + 5} {
		p := make([]byte, n)
		require.True(t, isZero(p))
		for _, i := range []int{0, n / 2, n - 1} {
			if n > 0 {
				p[i] = 1
				require.False(t, isZero(p), "%d of %d", i, n)
				p[i] = 0
			}
		}
	}
}

// A file of data and holes, in every sparse mode, on whatever file systems there
// are.
func TestTransferWithHoles(t *testing.T) {
	defer goleak.VerifyNone(t)
	for _, dir := range []string{memoryDir(t), t.TempDir()} {
		rapid.Check(t, func(t *rapid.T) {
			const unit = 4096
			path := filepath.Join(dir, "src")
			f, err := os.Create(path)
			require.NoError(t, err)
			size := int64(0)
			for range rapid.IntRange(0, 6).Draw(t, "stretches") {
				n := int64(rapid.IntRange(1, 5).Draw(t, "units") * unit)
				if rapid.Bool().Draw(t, "data") {
					_, err = f.WriteAt(pattern(int(n), byte(size/unit)), size)
					require.NoError(t, err)
				}
				size += n
			}
			size += int64(rapid.SampledFrom([]int{0, 1, 100}).Draw(t, "tail"))
			require.NoError(t, errors.Join(f.Truncate(size), f.Close()))
			want, err := os.ReadFile(path)
			require.NoError(t, err)
			d, err := fsys.OpenRoot(dir)
			require.NoError(t, err)
			defer d.Close()
			src, info, err := d.Open("src")
			require.NoError(t, err)
			defer src.Close()

			mode := rapid.SampledFrom([]SparseMode{SparseAuto, SparseAlways, SparseNever}).Draw(t, "mode")
			r := mover(rapid.SampledFrom([]int{unit, 3 * unit, 5000, 1 << 20}).Draw(t, "block"), 2, 1, mode)
			set := hash.NewSet([]hash.Algorithm{hash.SHA256, hash.MD5})
			out := sinks(t, d, 2)
			for _, s := range out {
				s.sparse = mode == SparseAlways
			}
			n, err := r.transfer(context.Background(), src, info, set, out)
			require.NoError(t, err)
			require.Equal(t, size, n)
			require.Equal(t, size, r.counters.Bytes.Load())
			require.Zero(t, r.pool.out.Load())
			ref := hash.NewSet([]hash.Algorithm{hash.SHA256, hash.MD5})
			ref.Write(want)
			require.Equal(t, ref.Digests(), set.Digests())
			for _, s := range out {
				s.finish(size)
				require.NoError(t, s.err)
				if mode == SparseAuto {
					require.LessOrEqual(t, blocksOf(t, s), info.Blocks*512)
				}
				require.Equal(t, len(want), len(written(t, s)))
			}
		})
	}
}

// A terabyte of nothing is copied as nothing; without a hash that takes no time.
func TestTransferOfAHugeHole(t *testing.T) {
	dir := memoryDir(t)
	path := filepath.Join(dir, "huge")
	require.NoError(t, os.WriteFile(path, []byte("x"), 0o600))
	const size int64 = 1 << 40
	if err := os.Truncate(path, size); err != nil {
		t.Skipf("no such large files here: %v", err)
	}
	d := openDir(t, dir)
	src, info, err := d.Open("huge")
	require.NoError(t, err)
	defer src.Close()
	r := mover(4096, 2, 1<<20, SparseAuto)
	out := sinks(t, d, 1)
	defer out[0].file.Abort()
	n, err := r.transfer(context.Background(), src, info, hash.NewSet(nil), out)
	require.NoError(t, err)
	require.Equal(t, size, n)
	out[0].finish(size)
	require.NoError(t, out[0].err)
	require.LessOrEqual(t, blocksOf(t, out[0]), int64(8192))
}

// Whatever fails, and whenever the run is stopped, all blocks come home.
func TestTransferGivesAllBlocksBack(t *testing.T) {
	dir := memoryDir(t)
	write(t, dir, "inline", pattern(3000, 1), since)
	write(t, dir, "big", pattern(bigSize, 2), since)
	d := openDir(t, dir)
	for _, name := range []string{"inline", "big", "/proc/self/status"} {
		for _, fault := range []error{nil, syscall.EIO} { // nil: the context ends
			for k := int64(1); ; k++ {
				from := d
				if filepath.IsAbs(name) {
					from = openDir(t, filepath.Dir(name))
				}
				src, info, err := from.Open(filepath.Base(name))
				require.NoError(t, err)
				r := mover(sweepBlock, 1, 2*sweepBlock, SparseAuto)
				ctx, cancel := context.WithCancel(context.Background())
				out := sinks(t, d, 3)
				var calls atomic.Int64
				unhook := hook(t, func(fsys.Op, string) error {
					if calls.Add(1) == k {
						if fault == nil {
							cancel()
						}
						return fault
					}
					return nil
				})
				_, err = r.transfer(ctx, src, info, hash.NewSet([]hash.Algorithm{hash.SHA256}), out)
				unhook()
				reached := calls.Load() >= k
				cancel()
				require.Zero(t, r.pool.out.Load(), "%s, %v at operation %d", name, fault, k)
				failed := 0
				for _, s := range out {
					if s.err != nil {
						failed++
						require.ErrorIs(t, s.err, syscall.EIO)
					}
					s.file.Abort()
				}
				switch {
				case !reached:
					require.NoError(t, err)
				case fault != nil:
					require.True(t, errors.Is(err, fault) != (failed == 1), "%v, %d sinks", err, failed)
				case err != nil:
					require.ErrorIs(t, err, context.Canceled)
				}
				src.Close()
				goleak.VerifyNone(t)
				if !reached {
					break
				}
			}
		}
	}
}

func TestPoolHandsOutNoMoreThanItsCeiling(t *testing.T) {
	for _, c := range []struct {
		size   int
		memory int64
		want   int64
	}{{100, 1000, 10}, {100, 1099, 10}, {100, 50, 1}, {100, 0, 1}} {
		p := newPool(c.size, c.memory)
		var blocks []*block
		for range c.want {
			b, err := p.get(t.Context())
			require.NoError(t, err)
			require.Len(t, b.buf, c.size)
			blocks = append(blocks, b)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := p.get(ctx)
		require.ErrorIs(t, err, context.Canceled, "one more than %d", c.want)
		require.Equal(t, c.want, p.out.Load())
		for _, b := range blocks {
			b.refs.Store(3)
			b.release()
			b.release()
		}
		require.Equal(t, c.want, p.out.Load(), "before the last release")
		for _, b := range blocks {
			b.release()
		}
		require.Zero(t, p.out.Load())
	}
}

func TestPoolFromManyGoroutines(t *testing.T) {
	p := newPool(64, 64*3)
	var most atomic.Int64
	var group sync.WaitGroup
	for range 16 {
		group.Go(func() {
			for i := range 500 {
				b, err := p.get(context.Background())
				if err != nil {
					t.Error(err)
					return
				}
				n := p.out.Load()
				for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
				}
				b.buf[0] = byte(i) // one writer: the race detector looks
				b.release()
			}
		})
	}
	group.Wait()
	require.LessOrEqual(t, most.Load(), int64(3))
	require.Zero(t, p.out.Load())
}

// mutations are what somebody does to a file while it is read.
var mutations = map[string]func(path string, n int) error{
	"append": func(path string, _ int) error {
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			return err
		}
		_, err = f.WriteString("more")
		return errors.Join(err, f.Close())
	},
	"truncate": func(path string, n int) error { return os.Truncate(path, int64(50-n)) },
	"touch": func(path string, n int) error {
		return os.Chtimes(path, time.Unix(int64(n), 0), time.Unix(int64(n), 0))
	},
	"overwrite": func(path string, n int) error {
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		_, err = f.WriteAt([]byte{byte(n)}, 3)
		return errors.Join(err, f.Close())
	},
}

// A file that changes while it is read is read again, three times at most, then
// reported; what it replaces stays.
func TestASourceThatChangesWhileItIsRead(t *testing.T) {
	for name, mutate := range mutations {
		for _, size := range []int{100, bigSize} {
			for _, times := range []int{1, 2, 3, 99} {
				for _, old := range []string{"", "same size", "other"} {
					t.Run(fmt.Sprint(name, size, " x", times, " ", old), func(t *testing.T) {
						defer goleak.VerifyNone(t)
						dir := memoryDir(t)
						src, dst := filepath.Join(dir, "src"), filepath.Join(dir, "dst")
						path := filepath.Join(src, "file")
						write(t, src, "file", pattern(size, 1), since)
						var stood []byte
						policy := PolicyAlways
						switch old {
						case "same size":
							stood, policy = pattern(size, 2), PolicyChecksum
							stood[0] = pattern(1, 1)[0]
						case "other":
							stood = []byte("old")
						}
						if stood != nil {
							write(t, dst, "file", stood, longAgo)
						}
						// One mutation in each reading: between the first look and the last.
						var mu sync.Mutex
						reading, done, tick := true, 0, 0
						unhook := hook(t, func(op fsys.Op, _ string) error {
							mu.Lock()
							defer mu.Unlock()
							switch {
							case op == fsys.OpWrite: // the file is being moved
								reading = true
							case op == fsys.OpStat && reading && tick > 0 && done < times:
								reading = false
								done++
								return mutate(path, done)
							case op == fsys.OpRead:
								tick++
							}
							return nil
						})
						o := options(src, dst)
						o.Policy, o.Workers = policy, 1
						var errs []error
						o.Report = func(e Event) {
							if e.Err != nil {
								errs = append(errs, e.Err)
							}
						}
						s, err := Run(t.Context(), &o, &Counters{})
						unhook()
						require.NoError(t, err)
						require.Positive(t, done)
						now, err := os.ReadFile(path)
						require.NoError(t, err)
						have, err := os.ReadFile(filepath.Join(dst, "file"))
						if s.Errors == 0 {
							require.Less(t, done, 4)
							require.NoError(t, err)
							require.Equal(t, string(now), string(have), "what is there is the file's last state")
							return
						}
						require.GreaterOrEqual(t, done, 3)
						require.Len(t, errs, 1)
						require.ErrorIs(t, errs[0], errChanged)
						if stood == nil {
							require.ErrorIs(t, err, os.ErrNotExist)
						} else {
							require.Equal(t, string(stood), string(have))
						}
						_, err = os.ReadFile(filepath.Join(dst, "SHA256SUMS"))
						require.ErrorIs(t, err, os.ErrNotExist, "what was not committed is not listed, and an empty list is none")
					})
				}
			}
		}
	}
}

// A size of 0 says nothing in /proc; what says so is read to its end.
func TestASourceOfNoSizeButContent(t *testing.T) {
	dir := memoryDir(t)
	for _, block := range []int{4096, 16} { // inline, and longer than one block
		dst := filepath.Join(dir, fmt.Sprint("dst", block))
		o := options("/proc/self/cmdline", dst)
		o.BlockSize, o.Preserve, o.Targets = block, PreserveNone, []string{dst, dst + "-2"}
		s, err := Run(t.Context(), &o, &Counters{})
		require.NoError(t, err)
		require.Zero(t, s.Errors)
		want, err := os.ReadFile("/proc/self/cmdline")
		require.NoError(t, err)
		require.Greater(t, len(want), 16)
		for _, target := range o.Targets {
			have, err := os.ReadFile(target)
			require.NoError(t, err)
			require.Equal(t, string(want), string(have))
			sums, err := os.ReadFile(target + ".sha256")
			require.NoError(t, err)
			require.Equal(t, sha(string(want)), readManifest(t, string(sums))[filepath.Base(target)])
		}
		require.EqualValues(t, len(want), s.Bytes)
	}
}

func TestASourceThatVanishes(t *testing.T) {
	dir := memoryDir(t)
	src, dst := filepath.Join(dir, "src"), filepath.Join(dir, "dst")
	write(t, src, "gone", []byte("x"), since)
	write(t, src, "here", []byte("y"), since)
	write(t, src, "exchanged", []byte("z"), since)
	hook(t, func(op fsys.Op, name string) error {
		switch {
		case op == fsys.OpOpen && name == "gone":
			return os.Remove(filepath.Join(src, "gone"))
		case op == fsys.OpOpen && name == "exchanged":
			os.Remove(filepath.Join(src, "exchanged"))
			return os.Symlink("/etc/passwd", filepath.Join(src, "exchanged"))
		}
		return nil
	})
	o := options(src, dst)
	o.Workers = 1
	errs := map[string]error{}
	o.Report = func(e Event) {
		if e.Err != nil {
			errs[e.Path] = e.Err
		}
	}
	s, err := Run(t.Context(), &o, &Counters{})
	require.NoError(t, err)
	require.EqualValues(t, 2, s.Errors)
	require.ErrorIs(t, errs["gone"], errVanished)
	require.ErrorIs(t, errs["exchanged"], errExchanged)
	require.NoFileExists(t, filepath.Join(dst, "gone"))
	require.NoFileExists(t, filepath.Join(dst, "exchanged"))
	require.FileExists(t, filepath.Join(dst, "here"))
}

// Names of one file are met by several workers at once; one destination fails.
func TestHardLinksInParallel(t *testing.T) {
	defer goleak.VerifyNone(t)
	dir := memoryDir(t)
	src := filepath.Join(dir, "src")
	const names = 60
	for i := range names {
		path := filepath.Join(src, fmt.Sprintf("d%d", i%7), fmt.Sprintf("name%02d", i))
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		if i < 3 {
			write(t, filepath.Dir(path), filepath.Base(path), pattern(bigSize, byte(i)), since)
			continue
		}
		require.NoError(t, os.Link(filepath.Join(src, fmt.Sprintf("d%d/name%02d", i%3, i%3)), path))
	}
	source := look(t, src)
	for round := range 15 {
		base := filepath.Join(dir, fmt.Sprint(round))
		o := options(src, threeTargets(base)...)
		o.Workers = 8
		var links atomic.Int64
		unhook := hook(t, func(op fsys.Op, _ string) error {
			if op == fsys.OpLink && links.Add(1) == int64(10*round) {
				return syscall.ENOSPC // one destination is full
			}
			return nil
		})
		s, err := Run(t.Context(), &o, &Counters{})
		unhook()
		require.NoError(t, err)
		whole := 0
		for i, target := range o.Targets {
			if s.Targets[i].Lost != nil {
				continue
			}
			whole++
			have := look(t, target)
			for path, n := range source {
				if n.mode.IsRegular() {
					require.Equal(t, n.links, have[path].links, path)
					require.True(t, n.content == have[path].content, path)
				}
			}
			require.Len(t, readManifest(t, have["SHA256SUMS"].content), names)
		}
		if round == 0 {
			require.Equal(t, 3, whole)
			require.EqualValues(t, 3, s.Files)
			require.EqualValues(t, names-3, s.HardLinks)
		} else {
			require.Equal(t, 2, whole)
			require.EqualValues(t, 1, s.Errors)
		}
		removeTree(t, base)
	}
}

// More names than the file system allows for one file: the rest are copies.
func TestHardLinksThatAreRefused(t *testing.T) {
	dir := memoryDir(t)
	src, dst := filepath.Join(dir, "src"), filepath.Join(dir, "dst")
	write(t, src, "a", pattern(100, 1), since)
	for _, name := range []string{"b", "c", "d"} {
		require.NoError(t, os.Link(filepath.Join(src, "a"), filepath.Join(src, name)))
	}
	hook(t, func(op fsys.Op, name string) error {
		if op == fsys.OpLink && name == "c" && !fileExists(filepath.Join(dst, "c-refused")) {
			write(t, dst, "c-refused", nil, since)
			return syscall.EMLINK
		}
		return nil
	})
	o := options(src, dst)
	o.Workers = 1
	s, err := Run(t.Context(), &o, &Counters{})
	require.NoError(t, err)
	require.Zero(t, s.Errors)
	require.EqualValues(t, 1, s.Warnings)
	require.EqualValues(t, 2, s.Files)
	require.EqualValues(t, 2, s.HardLinks)
	have := look(t, dst)
	for _, name := range []string{"a", "b", "c", "d"} {
		require.EqualValues(t, 2, have[name].links, name)
	}
}

func fileExists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
