package lookup

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Each line is found by its path, also where all paths have one hash.
func TestFind(t *testing.T) {
	paths := []string{"b", "a", strings.Repeat("long/", 1000), "", "a"}
	text := strings.Join(paths, "\n")
	for name, hash := range map[string]func([]byte) uint64{"random": nil, "colliding": func([]byte) uint64 { return 1<<63 | 7 }} {
		f := New(strings.NewReader(text), int64(len(text)), hash)
		var entries []Entry
		offset := int64(0)
		for _, path := range paths {
			entries = append(entries, f.Entry([]byte(path), offset))
			offset += int64(len(path)) + 1
		}
		slices.Sort(entries)
		var line []byte
		for _, path := range append(paths, "c") {
			found := 0
			first, end := f.Find(entries, []byte(path))
			for _, e := range entries[first:end] {
				var err error
				line, err = f.ReadLine(line, f.Offset(e), len(text))
				require.NoError(t, err, name)
				if string(line) == path {
					found++
				}
			}
			want := 0
			for _, p := range paths {
				if p == path {
					want++
				}
			}
			require.Equal(t, want, found, "%s: %.20q", name, path)
		}
	}
}

func TestReadLine(t *testing.T) {
	text := "first\n" + strings.Repeat("x", 2000) + "\nlast"
	f := New(strings.NewReader(text), int64(len(text)), nil)
	read := func(offset int64, maxLine int) string {
		line, err := f.ReadLine(bytes.Repeat([]byte("old"), 100), offset, maxLine)
		require.NoError(t, err)
		return string(line)
	}
	require.Equal(t, "first", read(0, 10))
	require.Equal(t, "rst", read(2, 10))
	require.Equal(t, strings.Repeat("x", 2000), read(6, 4000))
	require.Equal(t, "last", read(2007, 10))
	require.Equal(t, "", read(int64(len(text)), 10))
	cut := read(6, 1000)
	require.GreaterOrEqual(t, len(cut), 1000)
	require.Less(t, len(cut), 2000)

	f.Cut(9) // what is behind that may be gone, or other bytes
	f.src = strings.NewReader(text[:9])
	require.Equal(t, "xxx", read(6, 4000))
	f.src = strings.NewReader(text[:8])
	_, err := f.ReadLine(nil, 6, 4000)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
}

// counting counts the reads of what it reads.
type counting struct {
	io.ReaderAt
	reads int
}

func (c *counting) ReadAt(p []byte, off int64) (int, error) {
	c.reads++
	return c.ReaderAt.ReadAt(p, off)
}

// A Window returns the lines that File.ReadLine returns, in any order, with few reads where
// they are asked for in the order of the file.
func TestWindow(t *testing.T) {
	var text strings.Builder
	var offsets []int64
	for i := range 2000 {
		offsets = append(offsets, int64(text.Len()))
		text.WriteString(strings.Repeat("x", i%100*(1+i%900/899*300)) + "\n") // some are longer than a window
	}
	offsets = append(offsets, int64(text.Len()))
	text.WriteString("the last has no line feed")
	src := &counting{ReaderAt: strings.NewReader(text.String())}
	f := New(src, int64(text.Len()), nil)
	window := f.Window()
	check := func(offset int64, maxLine int) {
		want, err := f.ReadLine(nil, offset, maxLine)
		require.NoError(t, err)
		src.reads = 0
		have, err := window.ReadLine([]byte("old"), offset, maxLine)
		require.NoError(t, err)
		require.Equal(t, string(want), string(have), offset)
	}
	reads := 0
	for _, offset := range offsets {
		check(offset, 1<<20)
		reads += src.reads
	}
	require.Less(t, reads, 100, "%d lines", len(offsets))
	for i := range offsets { // to and fro
		check(offsets[i*7919%len(offsets)], 1<<20)
	}

	f.src = strings.NewReader("short")
	_, err := f.Window().ReadLine(nil, offsets[100], 10)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
}

func TestSet(t *testing.T) {
	var s Set
	require.False(t, s.Has(""))
	for _, text := range []string{"b", "a", "", "b"} {
		s.Add(text)
		require.True(t, s.Has(text))
		require.False(t, s.Has("c"))
	}
	require.True(t, s.Has("a"))
	require.Equal(t, 4, s.Len())
}

// BenchmarkFind finds paths in any order, as a walk does.
func BenchmarkFind(b *testing.B) {
	f := New(strings.NewReader(""), 20<<20, nil)
	var entries []Entry
	var paths [][]byte
	for i := range 200_000 {
		paths = append(paths, fmt.Appendf(nil, "directory-%d/file-%d", i/1000, i))
		entries = append(entries, f.Entry(paths[i], int64(i)*100))
	}
	slices.Sort(entries)
	b.ResetTimer()
	for i := range b.N {
		f.Find(entries, paths[i%len(paths)])
	}
}
