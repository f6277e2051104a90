package fsys

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

func TestAlignedBuffer(t *testing.T) {
	for _, size := range []int{0, 1, 4095, 4096, 4097, 128 << 10, 1 << 20} {
		b := AlignedBuffer(size)
		require.Len(t, b, size)
		require.Equal(t, size, cap(b))
		require.Zero(t, uintptr(unsafe.Pointer(unsafe.SliceData(b)))%DirectAlignment)
		for i := range b {
			b[i] = 1
		}
	}
}

// A file that answers reads as none of the file systems at hand does.
type oddFile struct {
	data []byte
	most int // bytes of one answer
	fail int // the read that fails, from 1
	size int // said to be
	log  []int64
}

func (f *oddFile) pread(p []byte, off int64) (int, error) {
	f.log = append(f.log, off)
	if len(f.log) == f.fail {
		return 0, errBoom
	}
	return copy(p[:min(len(p), f.most)], f.data[min(int(off), len(f.data)):]), nil
}

var errBoom = errors.New("boom")

func TestReadAlignedNeverContinuesBetweenTwoSectors(t *testing.T) {
	const most = 1 << 30
	data := noise(1, 3*4096+100)
	for _, c := range []struct {
		name  string
		file  oddFile
		room  int
		want  int
		err   error
		reads []int64
	}{
		{"empty", oddFile{data: nil, most: most}, 8192, 0, nil, []int64{0}},
		{"one full sector", oddFile{data: data[:4096], most: most, size: 4096}, 8192, 4096, nil, []int64{0, 4096}},
		{"full buffer", oddFile{data: data, most: most, size: len(data)}, 8192, 8192, nil, []int64{0}},
		{"end between two", oddFile{data: data, most: most, size: len(data)}, 16384, len(data), nil, []int64{0}},
		{"answered by sectors", oddFile{data: data, most: 4096, size: len(data)}, 16384, len(data), nil,
			[]int64{0, 4096, 8192, 12288}},
		{"answered in pieces", oddFile{data: data, most: 6000, size: len(data)}, 16384, len(data), nil,
			[]int64{0, 4096, 8192}},
		{"stuck", oddFile{data: data, most: 1000, size: len(data)}, 16384, 1000, errNoProgress, []int64{0, 0}},
		{"shorter than said", oddFile{data: data, most: most, size: 1 << 20}, 16384, len(data), errNoProgress, []int64{0, 12288}},
		{"fails", oddFile{data: data, most: 4096, size: len(data), fail: 2}, 16384, 4096, errBoom, []int64{0, 4096}},
	} {
		t.Run(c.name, func(t *testing.T) {
			buf := make([]byte, c.room)
			n, err := readAligned(buf, 0, c.file.pread, func() (int64, error) { return int64(c.file.size), nil })
			require.Equal(t, c.err, err)
			require.Equal(t, c.want, n)
			require.True(t, bytes.Equal(c.file.data[:n], buf[:n]), "content")
			require.Equal(t, c.reads, c.file.log)
		})
	}
	f := oddFile{data: data, most: most}
	_, err := readAligned(make([]byte, 16384), 0, f.pread, func() (int64, error) { return 0, errBoom })
	require.Equal(t, errBoom, err)
}

var directSizes = []int{0, 1, 100, 4095, 4096, 4097, 8192, 3*4096 + 1, 128 << 10, 1<<20 + 1}

// testDirect reads files with various ends past the page cache, just written and after a
// sync.
func testDirect(t *testing.T, d *Dir, path string) {
	for i, size := range directSizes {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			want := noise(uint64(i), size)
			put(t, filepath.Join(path, "direct"), string(want))
			f, _, err := d.Open("direct")
			require.NoError(t, err)
			defer f.Close()
			for _, synced := range []bool{false, true} {
				if synced {
					require.NoError(t, f.Sync())
				}
				_, err = f.SetDirect(true)
				if Unsupported(err) {
					t.Logf("read through the page cache: %v", err)
				} else {
					require.NoError(t, err)
				}
				for _, block := range []int{4096, 8192, 128 << 10, 2 << 20} {
					require.True(t, bytes.Equal(want, readAll(t, f, block)), "in blocks of %d", block)
				}
				_, err = f.SetDirect(false)
				if !Unsupported(err) {
					require.NoError(t, err)
				}
				buf := make([]byte, size+3) // any buffer will do again
				n, err := f.ReadAt(buf[1:], 0)
				require.NoError(t, err)
				require.True(t, bytes.Equal(want, buf[1:1+n]))
			}
		})
	}
}

func TestDirect(t *testing.T) {
	d, path := tempRoot(t)
	testDirect(t, d, path)
}

func TestDropCacheAnywhere(t *testing.T) {
	d, path := ownRoot(t)
	put(t, filepath.Join(path, "f"), "content")
	f, _, err := d.Open("f")
	require.NoError(t, err)
	defer f.Close()
	fromDevice, err := f.DropCache()
	require.NoError(t, err)
	require.True(t, !fromDevice || f.DeviceBacked() && d.DeviceBacked())
	f.DropCacheBehind(0, 7)
	f.DropCacheBehind(0, 0)
	require.Equal(t, "content", string(readAll(t, f, 4096)))
	failAll(&f.Object, errBoom, OpDropCache)
	_, err = f.DropCache()
	require.ErrorIs(t, err, errBoom)
}
