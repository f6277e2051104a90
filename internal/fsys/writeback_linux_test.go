package fsys

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// pagesOf returns the statistics of the page cache for a range, or skips the test.
func pagesOf(t *testing.T, f *File, off, n int64) unix.Cachestat_t {
	t.Helper()
	var st unix.Cachestat_t
	if err := unix.Cachestat(uint(f.fd), &unix.CachestatRange{Off: uint64(off), Len: uint64(n)}, &st, 0); err != nil {
		t.Skip("cachestat: ", err)
	}
	return st
}

func TestWritebackLeavesNothingDirty(t *testing.T) {
	for _, kind := range []string{"ext4", "ext4, 1 KiB", "xfs", "btrfs"} {
		t.Run(kind, func(t *testing.T) {
			d := newDisk(t, kind, t.TempDir())
			require.True(t, d.WritesBehind())
			require.False(t, d.InMemory())
			const half = 4 << 20
			p, err := d.Create(true)
			require.NoError(t, err)
			defer p.Abort()
			for try := 1; ; try++ { // the kernel writes when it likes, too
				require.NoError(t, p.WriteAt(noise(1, 2*half), 0))
				before := pagesOf(t, &p.File, 0, half).Dirty
				require.NoError(t, p.StartWriteback(0, half))
				within, beyond := pagesOf(t, &p.File, 0, half).Dirty, pagesOf(t, &p.File, half, 0).Dirty
				if before != 0 && within == 0 && beyond != 0 {
					break
				}
				require.Less(t, try, 5, "dirty pages: %d before, then %d, and %d beyond", before, within, beyond)
				require.NoError(t, p.Sync())
			}
			require.NoError(t, p.WaitWriteback(0, half))
			st := pagesOf(t, &p.File, 0, half)
			require.Zero(t, st.Dirty+st.Writeback)
			require.NotZero(t, st.Cache, "written, not dropped")
			require.NoError(t, p.WaitWriteback(half, 0)) // to the end
			st = pagesOf(t, &p.File, 0, 0)
			require.Zero(t, st.Dirty+st.Writeback)
			require.NoError(t, p.WriteAt(noise(2, half), 0))
			require.NoError(t, p.Datasync())
			st = pagesOf(t, &p.File, 0, 0)
			require.Zero(t, st.Dirty+st.Writeback)
		})
	}
}

// A write error is returned once: to the caller that waited, not to Sync after it.
func TestWaitWritebackConsumesTheError(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounting needs root")
	}
	small := t.TempDir()
	command(t, "mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", small)
	t.Cleanup(func() { _ = exec.Command("umount", small).Run() })
	d := newDisk(t, "ext4", small) // whose device is full before it is
	p, err := d.Create(true)
	require.NoError(t, err)
	defer p.Abort()
	require.NoError(t, p.WriteAt(noise(1, 24<<20), 0))
	dup, err := p.Dup()
	require.NoError(t, err)
	defer dup.Close()
	err = p.WaitWriteback(0, 0)
	require.True(t, err == unix.EIO || err == unix.ENOSPC, "%v", err)
	require.NoError(t, dup.WaitWriteback(0, 0), "it is the same open file")
}

func TestWritesBehind(t *testing.T) {
	tmp, _ := mountOn(t, "-t", "tmpfs", "tmpfs")
	require.False(t, tmp.WritesBehind())
	require.True(t, tmp.InMemory())
	ram, _ := mountOn(t, "-t", "ramfs", "ramfs")
	require.False(t, ram.WritesBehind())
	require.True(t, ram.InMemory())

	layers := newDisk(t, "ext4", t.TempDir())
	for _, name := range []string{"lower", "upper", "work"} {
		require.NoError(t, layers.Mkdir(name))
	}
	at := func(name string) string { return filepath.Join(layers.path, name) }
	over, path := mountOn(t, "-t", "overlay", "-o",
		"lowerdir="+at("lower")+",upperdir="+at("upper")+",workdir="+at("work"), "overlay")
	require.False(t, over.WritesBehind())
	require.False(t, over.InMemory())

	put(t, filepath.Join(path, "f"), "content")
	f, _, err := over.Open("f")
	require.NoError(t, err)
	defer f.Close()
	_, known := f.Cached(0, 0)
	require.False(t, known, "the pages are those of another file")
}

func TestCached(t *testing.T) {
	d := newDisk(t, "ext4", t.TempDir())
	const half = 4 << 20
	f := d.file(t, "f", noise(1, 2*half))
	pagesOf(t, f, 0, 0)
	require.NoError(t, f.Sync())
	is := func(want bool, off, n int64) {
		t.Helper()
		some, known := f.Cached(off, n)
		require.True(t, known)
		require.Equal(t, want, some)
	}
	is(true, 0, 0)
	f.DropCacheBehind(0, half)
	is(false, 0, half)
	is(true, half, 0)
	is(true, half-1, 2)
	is(true, 0, 0)
	f.DropCacheBehind(half, half)
	is(false, 0, 0)
	d.withoutCachestat(func() {
		_, known := f.Cached(0, 0)
		require.False(t, known)
	})
	const otherUser = 65534
	put(t, filepath.Join(d.path, "theirs"), "x")
	asOtherUser(t, otherUser, func() {
		g, _, err := d.Open("theirs")
		require.NoError(t, err)
		defer g.Close()
		if some, known := g.Cached(0, 0); unixRelease(t) >= 614 {
			require.False(t, known)
			require.False(t, some)
		}
	})
}

// writing is what a test of writing does to a file and to the copy in memory.
type writing struct {
	f    *File
	want []byte
}

func (w *writing) at(t *testing.T, p []byte, off int) {
	t.Helper()
	require.NoError(t, w.f.WriteAt(p, int64(off)), "%d bytes at %d", len(p), off)
	if end := off + len(p); end > len(w.want) {
		w.want = append(w.want, make([]byte, end-len(w.want))...)
	}
	copy(w.want[off:], p)
}

// writeAll writes in every mixture of offsets, lengths and addresses that are
// aligned and that are not.
func (w *writing) writeAll(t *testing.T) {
	t.Helper()
	buf := AlignedBuffer(256<<10 + DirectAlignment)
	seed := uint64(0)
	write := func(skip, size, off int) {
		t.Helper()
		seed++
		p := buf[skip : skip+size]
		copy(p, noise(seed, size))
		w.at(t, p, off)
	}
	for i := range 4 { // as a copier does: blocks, and an end
		write(0, 128<<10, i*128<<10)
	}
	write(0, 128<<10+100, 512<<10)
	for _, size := range []int{0, 1, 511, 512, 4095, 4096, 4097, 3*4096 + 5, 64 << 10, 100_001} {
		for _, off := range []int{0, 1, 512, 4095, 4096, 8192, 8192 + 100, 500_001} {
			for _, skip := range []int{0, 1, 512, off % DirectAlignment} {
				write(skip, size, off)
			}
		}
	}
	write(0, 4096, len(w.want)&^4095)
	write(0, 100, len(w.want))
	write(0, 64<<10, len(w.want)+10_000) // after a hole
}

// check reads back through the cache, past it, and from the device.
func (w *writing) check(t *testing.T) {
	t.Helper()
	info, err := w.f.Stat()
	require.NoError(t, err)
	require.EqualValues(t, len(w.want), info.Size)
	require.True(t, bytes.Equal(w.want, readAll(t, w.f, 128<<10)), "as it is")
	_, err = w.f.SetDirect(false)
	require.NoError(t, err)
	require.True(t, bytes.Equal(w.want, readAll(t, w.f, 128<<10)), "through the cache")
	_, err = w.f.DropCache()
	require.NoError(t, err)
	require.True(t, bytes.Equal(w.want, readAll(t, w.f, 128<<10)), "from the device")
}

// flagged reports whether O_DIRECT is on.
func flagged(t *testing.T, f *File) bool {
	t.Helper()
	flags, err := unix.FcntlInt(uintptr(f.fd), unix.F_GETFL, 0)
	require.NoError(t, err)
	return flags&unix.O_DIRECT != 0
}

func testDirectWriting(t *testing.T, d *Dir, refused bool) {
	t.Helper()
	for _, named := range []bool{false, true} {
		p, err := d.Create(named)
		require.NoError(t, err)
		defer p.Abort()
		_, err = p.SetDirect(true)
		if refused && Unsupported(err) {
			t.Logf("written through the page cache: %v", err)
		} else {
			require.NoError(t, err)
			require.True(t, flagged(t, &p.File))
		}
		direct := p.direct.Load()
		w := writing{f: &p.File}
		w.writeAll(t)
		require.Equal(t, direct, flagged(t, &p.File), "on again after each rest")
		require.Equal(t, direct, p.direct.Load())
		w.check(t)
	}
}

func TestDirectWriting(t *testing.T) {
	for kind := range diskKinds {
		t.Run(kind, func(t *testing.T) {
			testDirectWriting(t, newDisk(t, kind, t.TempDir()).Dir, kind == "ext4, journalled")
		})
	}
	t.Run("tmpfs", func(t *testing.T) {
		d, _ := mountOn(t, "-t", "tmpfs", "tmpfs")
		testDirectWriting(t, d, true) // since Linux 6.6 it takes the flag
	})
}

func TestDirectWritingLeavesNothingInMemory(t *testing.T) {
	for _, kind := range []string{"ext4", "xfs"} {
		t.Run(kind, func(t *testing.T) {
			d := newDisk(t, kind, t.TempDir())
			p, err := d.Create(true)
			require.NoError(t, err)
			defer p.Abort()
			_, err = p.SetDirect(true)
			require.NoError(t, err)
			buf := AlignedBuffer(1<<20 + 100)
			require.NoError(t, p.WriteAt(buf, 0))
			require.Zero(t, pagesOf(t, &p.File, 0, 1<<20).Cache)
			require.NotZero(t, pagesOf(t, &p.File, 1<<20, 0).Dirty, "the rest")
			require.NoError(t, p.WriteAt(buf[1:1+8192], 0), "an address that is not aligned")
			require.EqualValues(t, 8192/os.Getpagesize(), pagesOf(t, &p.File, 0, 1<<20).Dirty)
		})
	}
}

func TestDirectWritingThatIsRefusedGoesThroughTheCache(t *testing.T) {
	for _, refusal := range []error{unix.EINVAL, unix.EIO} {
		calls := 0
		d := newDisk(t, "ext4", t.TempDir())
		d.calls().directWrite = func(int, []byte, int64) (int, error) {
			calls++
			return -1, refusal
		}
		p, err := d.Create(true)
		require.NoError(t, err)
		defer p.Abort()
		_, err = p.SetDirect(true)
		require.NoError(t, err)
		if refusal == unix.EIO {
			require.ErrorIs(t, p.WriteAt(AlignedBuffer(8192), 0), unix.EIO, "no refusal, an error")
			continue
		}
		w := writing{f: &p.File}
		w.writeAll(t)
		require.Equal(t, 1, calls, "asked once")
		require.False(t, flagged(t, &p.File))
		w.check(t)
	}
}

func TestDirectWritingInPieces(t *testing.T) {
	d := newDisk(t, "ext4", t.TempDir())
	d.calls().directWrite = func(fd int, p []byte, off int64) (int, error) {
		return system.directWrite(fd, p[:min(len(p), 8192)], off)
	}
	testDirectWriting(t, d.Dir, false)
}

func TestSplitAligned(t *testing.T) {
	buf := AlignedBuffer(5 * 4096)
	for _, c := range []struct {
		skip, size   int
		off          int64
		rest, direct int
	}{
		{0, 8192, 4096, 0, 8192},
		{0, 8193, 4096, 0, 8192},
		{0, 4096, 1 << 40, 0, 4096},
		{0, 4095, 0, 4095, 0},
		{0, 0, 0, 0, 0},
		{1, 8192, 0, 8192, 0},
		{0, 8192, 1, 8192, 0},
		{1, 8192, 1, 4095, 4096},
		{4095, 8193, 8191, 1, 8192},
		{1, 8190, 1, 8190, 0},
		{512, 8192, 512, 3584, 4096},
	} {
		rest, direct := splitAligned(buf[c.skip:c.skip+c.size], c.off)
		require.Equal(t, []int{c.rest, c.direct}, []int{rest, direct}, "%+v", c)
	}
}

// uncachedKinds are those that know RWF_DONTCACHE in some release.
var uncachedKinds = []string{"ext4", "ext4, 1 KiB", "xfs", "btrfs", "btrfs, zstd"}

func TestUncached(t *testing.T) {
	for _, kind := range uncachedKinds {
		t.Run(kind, func(t *testing.T) {
			d := newDisk(t, kind, t.TempDir())
			p, err := d.Create(true)
			require.NoError(t, err)
			defer p.Abort()
			supported := p.SetUncached(true)
			t.Logf("supported: %v", supported)
			if unixRelease(t) >= 614 && !strings.HasPrefix(kind, "btrfs") {
				require.True(t, supported)
			}
			w := writing{f: &p.File}
			w.writeAll(t)
			w.check(t)
			require.NoError(t, p.Sync())
			require.True(t, dropped(t, &p.File) || strings.HasPrefix(kind, "btrfs"))
			if !supported {
				t.Skip("no RWF_DONTCACHE here")
			}
			require.True(t, p.uncached.Load(), "neither reading nor writing refused")

			// A new file: ext4 lets go of what it writes to new blocks only.
			p, err = d.Create(true)
			require.NoError(t, err)
			defer p.Abort()
			require.True(t, p.SetUncached(true))
			const size = 8 << 20
			buf := AlignedBuffer(128 << 10)
			writeAt := func(off int) {
				t.Helper()
				copy(buf, noise(uint64(off>>17), len(buf)))
				require.NoError(t, p.WriteAt(buf, int64(off)))
			}
			for off := 0; off < size; off += len(buf) {
				writeAt(off)
			}
			require.NoError(t, p.Sync())
			require.Zero(t, pagesOf(t, &p.File, 0, 0).Cache, "written and gone")
			got := readAll(t, &p.File, 128<<10)
			require.Len(t, got, size)
			require.True(t, bytes.Equal(noise(0, 128<<10), got[:128<<10]))
			require.Zero(t, pagesOf(t, &p.File, 0, 0).Cache, "read and gone")

			// Earlier data stays, read and written. The system may evict some pages if it needs
			// memory at that moment.
			require.False(t, p.SetUncached(false))
			n, err := p.ReadAt(buf, 1<<20)
			require.NoError(t, err)
			require.Equal(t, len(buf), n)
			resident := pagesOf(t, &p.File, 1<<20, int64(len(buf))).Cache
			require.EqualValues(t, len(buf)/os.Getpagesize(), resident)
			require.True(t, p.SetUncached(true))
			require.Len(t, readAll(t, &p.File, 128<<10), size)
			require.Greater(t, pagesOf(t, &p.File, 1<<20, int64(len(buf))).Cache, resident/2, "read")
			for off := 0; off < size; off += len(buf) {
				writeAt(off)
			}
			require.NoError(t, p.Sync())
			require.Greater(t, pagesOf(t, &p.File, 1<<20, int64(len(buf))).Cache, resident/2, "written")
			t.Logf("%d pages after overwriting, %d of them resident before", pagesOf(t, &p.File, 0, 0).Cache, resident)
		})
	}
}

func TestUncachedWhereItIsNot(t *testing.T) {
	d, path := mountOn(t, "-t", "ramfs", "ramfs")
	put(t, filepath.Join(path, "f"), "content")
	f, _, err := d.Open("f")
	require.NoError(t, err)
	defer f.Close()
	require.False(t, f.SetUncached(true))
	require.Equal(t, "content", string(readAll(t, f, 4096)))

	p, err := d.Create(true)
	require.NoError(t, err)
	defer p.Abort()
	p.uncached.Store(true) // as where reading is supported and writing is not
	w := writing{f: &p.File}
	w.writeAll(t)
	require.False(t, p.uncached.Load(), "asked once")
	p.uncached.Store(true)
	require.True(t, bytes.Equal(w.want, readAll(t, &p.File, 128<<10)))
	require.False(t, p.uncached.Load(), "asked once")

	put(t, filepath.Join(path, "g"), "x")
	g, err := os.Open(filepath.Join(path, "g"))
	require.NoError(t, err)
	defer g.Close()
	readOnly := File{Object: Object{fd: int(g.Fd())}}
	readOnly.uncached.Store(true)
	err = readOnly.WriteAt([]byte("y"), 0)
	require.True(t, errors.Is(err, unix.EBADF), "%v", err)
	require.Equal(t, "x", content(t, filepath.Join(path, "g")))
}
