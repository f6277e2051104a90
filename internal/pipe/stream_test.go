//go:build linux

package pipe

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/fsys/faultfs"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/treetest"
)

// A sink is a byte slice in which what is not written is zero, sparse or not.
func TestSinkAgainstAByteSlice(t *testing.T) {
	d := openDir(t, treetest.MemoryDir(t))
	rapid.Check(t, func(t *rapid.T) {
		s := sinks(t, d, 1)[0]
		s.Sparse = rapid.Bool().Draw(t, "sparse")
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
					data = append(data, treetest.Pattern(n, byte(n))...)
				}
			}
			s.Write(data, off)
			require.NoError(t, s.Err)
			if end := off + int64(len(data)); len(data) > 0 && end > int64(len(model)) {
				model = append(model, make([]byte, end-int64(len(model)))...)
			}
			copy(model[min(off, int64(len(model))):], data)
			off += int64(len(data))
		}
		size := max(off, int64(len(model)))
		model = append(model, make([]byte, size-int64(len(model)))...)
		s.Finish(size)
		require.NoError(t, s.Err)
		require.True(t, bytes.Equal(model, written(t, s)))
	})
}

func TestSparseSinkMakesHoles(t *testing.T) {
	d := openDir(t, treetest.MemoryDir(t))
	data := make([]byte, 1<<20)
	copy(data[512<<10:], treetest.Pattern(5000, 1))
	dense, sparse := sinks(t, d, 1)[0], sinks(t, d, 1)[0]
	sparse.Sparse = true
	for _, s := range []*Sink{dense, sparse} {
		s.Write(data, 0)
		s.Finish(int64(len(data)))
		require.NoError(t, s.Err)
	}
	if blocksOf(t, dense) < 1<<20 {
		t.Skip("this file system does not account for zeros")
	}
	require.LessOrEqual(t, blocksOf(t, sparse), int64(16<<10))
	require.Equal(t, data, written(t, sparse))
	require.Equal(t, data, written(t, dense))
}

func TestASinkKeepsItsFirstError(t *testing.T) {
	t.Parallel()
	sys := new(fsys.FS)
	s := sinks(t, openDirOf(t, sys, treetest.MemoryDir(t)), 1)[0]
	defer s.File.Abort()
	errs := []error{syscall.ENOSPC, syscall.EIO}
	writes := 0
	hook(sys, func(op fsys.Op, _ string) error {
		if op == fsys.OpWrite {
			writes++
			return errs[writes-1]
		}
		return nil
	})
	s.Write([]byte("x"), 0)
	s.Write([]byte("y"), 1)
	s.Finish(10)
	require.Equal(t, 1, writes)
	require.ErrorIs(t, s.Err, syscall.ENOSPC)
}

func TestIsZeroFindsASingleByte(t *testing.T) {
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
	for _, dir := range []string{treetest.MemoryDir(t), t.TempDir()} {
		rapid.Check(t, func(t *rapid.T) {
			const unit = 4096
			path := filepath.Join(dir, "src")
			f, err := os.Create(path)
			require.NoError(t, err)
			size := int64(0)
			for range rapid.IntRange(0, 6).Draw(t, "stretches") {
				n := int64(rapid.IntRange(1, 5).Draw(t, "units") * unit)
				if rapid.Bool().Draw(t, "data") {
					_, err = f.WriteAt(treetest.Pattern(int(n), byte(size/unit)), size)
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

			mode := rapid.SampledFrom([]string{"auto", "always", "never"}).Draw(t, "mode")
			r := mover(rapid.SampledFrom([]int{unit, 3 * unit, 5000, 1 << 20}).Draw(t, "block"), 2, 1, mode == "auto")
			set := hash.NewSet([]hash.Algorithm{hash.SHA256, hash.MD5})
			out := sinks(t, d, 2)
			for _, s := range out {
				s.Sparse = mode == "always"
			}
			n, err := r.Move(context.Background(), src, info, set, out, MoveOptions{})
			require.NoError(t, err)
			require.Equal(t, size, n)
			require.Equal(t, size, r.Bytes.Load())
			require.Zero(t, r.Pool.Out())
			ref := hash.NewSet([]hash.Algorithm{hash.SHA256, hash.MD5})
			ref.Write(want)
			require.Equal(t, ref.Digests(), set.Digests())
			for _, s := range out {
				s.Finish(size)
				require.NoError(t, s.Err)
				if mode == "auto" {
					require.LessOrEqual(t, blocksOf(t, s), info.Blocks*512)
				}
				require.Equal(t, len(want), len(written(t, s)))
			}
		})
	}
}

// Where the system does not tell where holes are, a file that has some is read as a
// whole, and its zeros become holes.
func TestTransferWithoutReportedHoles(t *testing.T) {
	t.Parallel()
	dir := treetest.MemoryDir(t)
	const hole, size = 1 << 20, 3 << 20
	content := make([]byte, size)
	copy(content[2*hole:], treetest.Pattern(hole, 1))
	silent := &fsys.FS{Fault: faultfs.OnOp(faultfs.Fail(errors.ErrUnsupported), fsys.OpHoles)}
	d := openDirOf(t, silent, dir)
	f, err := os.Create(filepath.Join(dir, "src"))
	require.NoError(t, err)
	_, err = f.WriteAt(content[2*hole:], 2*hole)
	require.NoError(t, errors.Join(err, f.Close()))
	src, info, err := d.Open("src")
	require.NoError(t, err)
	defer src.Close()
	p := mover(256<<10, 2, 4, true)
	set := hash.NewSet([]hash.Algorithm{hash.SHA256})
	out := sinks(t, d, 1)
	_, err = p.Move(t.Context(), src, info, set, out, MoveOptions{})
	require.NoError(t, err)
	out[0].Finish(size)
	require.NoError(t, out[0].Err)
	require.LessOrEqual(t, blocksOf(t, out[0]), info.Blocks*512)
	require.True(t, bytes.Equal(content, written(t, out[0])))
	ref := hash.NewSet([]hash.Algorithm{hash.SHA256})
	ref.Write(content)
	require.Equal(t, ref.Digests(), set.Digests())
}

// A terabyte of nothing is copied as nothing; without a hash that takes no time.
func TestTransferOfAHugeHole(t *testing.T) {
	dir := treetest.MemoryDir(t)
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
	r := mover(4096, 2, 1<<20, true)
	out := sinks(t, d, 1)
	defer out[0].File.Abort()
	n, err := r.Move(context.Background(), src, info, hash.NewSet(nil), out, MoveOptions{})
	require.NoError(t, err)
	require.Equal(t, size, n)
	out[0].Finish(size)
	require.NoError(t, out[0].Err)
	require.LessOrEqual(t, blocksOf(t, out[0]), int64(8192))
}

// After any failure and any stop, all blocks are released.
func TestTransferGivesAllBlocksBack(t *testing.T) {
	dir := treetest.MemoryDir(t)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "inline"), treetest.Pattern(3000, 1), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "big"), treetest.Pattern(testBig, 2), 0o600))
	sys := new(fsys.FS)
	d := openDirOf(t, sys, dir)
	for _, name := range []string{"inline", "big", "/proc/self/status"} {
		for _, fault := range []error{nil, syscall.EIO} { // nil: the context ends
			for k := int64(1); ; k++ {
				from := d
				if filepath.IsAbs(name) {
					from = openDirOf(t, sys, filepath.Dir(name))
				}
				src, info, err := from.Open(filepath.Base(name))
				require.NoError(t, err)
				r := mover(testBlock, 1, 2*testBlock, true)
				ctx, cancel := context.WithCancel(context.Background())
				out := sinks(t, d, 3)
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
				_, err = r.Move(ctx, src, info, hash.NewSet([]hash.Algorithm{hash.SHA256}), out, MoveOptions{})
				unhook()
				reached := calls.Load() >= k
				cancel()
				require.Zero(t, r.Pool.Out(), "%s, %v at operation %d", name, fault, k)
				failed := 0
				for _, s := range out {
					if s.Err != nil {
						failed++
						require.ErrorIs(t, s.Err, syscall.EIO)
					}
					s.File.Abort()
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
		p := NewPool(c.size, c.memory)
		var blocks []*Block
		for range c.want {
			b, err := p.Get(t.Context())
			require.NoError(t, err)
			require.Len(t, b.Buf, c.size)
			blocks = append(blocks, b)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := p.Get(ctx)
		require.ErrorIs(t, err, context.Canceled, "one more than %d", c.want)
		require.Equal(t, c.want, p.out.Load())
		for _, b := range blocks {
			b.refs.Store(3)
			b.Release()
			b.Release()
		}
		require.Equal(t, c.want, p.out.Load(), "before the last release")
		for _, b := range blocks {
			b.Release()
		}
		require.Zero(t, p.out.Load())
	}
}

func TestPoolFromManyGoroutines(t *testing.T) {
	p := NewPool(64, 64*3)
	var most atomic.Int64
	var group sync.WaitGroup
	for range 16 {
		group.Go(func() {
			for i := range 500 {
				b, err := p.Get(context.Background())
				if err != nil {
					t.Error(err)
					return
				}
				n := p.out.Load()
				for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
				}
				b.Buf[0] = byte(i) // one writer: the race detector looks
				b.Release()
			}
		})
	}
	group.Wait()
	require.LessOrEqual(t, most.Load(), int64(3))
	require.Zero(t, p.out.Load())
}
