package journal

import (
	"bytes"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
)

func TestFormat(t *testing.T) {
	var log bytes.Buffer
	w, err := Create(&log, Header{ID: "00000000000000ff", Begun: fsys.Time{Sec: -1, Nsec: 5}, Options: "sha256", Source: "/a b\n"})
	require.NoError(t, err)
	require.Equal(t, int64(log.Len()), w.Size(), "the header is written at once")
	require.NoError(t, w.File(&File{Path: "d/n\\", Size: 7, Mtime: fsys.Time{Sec: 1}, Ctime: fsys.Time{Sec: 2}, Digests: hash.Digests{{0xab}, {1, 2}}}))
	require.NoError(t, w.File(&File{Path: "é\r"}))
	require.NoError(t, w.Partial(&Partial{Path: "l", Temp: ".sealift-1.tmp", Offset: 1, Size: 2, States: [][]byte{{0xff}, nil}}))
	require.NoError(t, w.Partial(&Partial{Path: "l", Temp: ".sealift-1.tmp", Offset: 1, Size: 2}))
	require.NoError(t, w.Done("l"))
	require.NoError(t, w.Checkpoint(70, fsys.Time{Sec: 3}))
	require.NoError(t, w.Flush())
	require.Equal(t, int64(log.Len()), w.Size())
	want := []string{
		`sealift-journal 1 00000000000000ff -1.000000005 sha256 /a b\n`,
		`f 7 1.000000000 2.000000000 ab,0102 d/n\\`,
		`f 0 0.000000000 0.000000000 - é\r`,
		`p 1 2 0.000000000 0.000000000 .sealift-1.tmp _w,- l`,
		`p 1 2 0.000000000 0.000000000 .sealift-1.tmp . l`,
		`d l`,
		`c 70 3.000000000`,
	}
	for i, rest := range want {
		id := "00000000000000ff"
		if i == 0 {
			id = ""
		}
		want[i] = string(appendSum(nil, bitwise(id+rest))) + " " + rest + "\n"
	}
	require.Equal(t, strings.Join(want, ""), log.String())
}

// bitwise is CRC-32C as its definition says it.
func bitwise(text string) uint32 {
	sum := ^uint32(0)
	for _, b := range []byte(text) {
		sum ^= uint32(b)
		for range 8 {
			sum = sum>>1 ^ 0x82f63b78*(sum&1)
		}
	}
	return ^sum
}

func TestBitwise(t *testing.T) {
	require.Equal(t, uint32(0xe3069283), bitwise("123456789")) // the check value of CRC-32C
}

func TestNewID(t *testing.T) {
	a, b := NewID(), NewID()
	require.True(t, validID(a))
	require.True(t, validID(b))
	require.NotEqual(t, a, b)
}

func TestUnfitHeaders(t *testing.T) {
	for what, change := range map[string]func(h *Header){
		"no id":           func(h *Header) { h.ID = "" },
		"upper case":      func(h *Header) { h.ID = "0123456789ABCDEF" },
		"short id":        func(h *Header) { h.ID = h.ID[1:] },
		"time":            func(h *Header) { h.Begun.Nsec = 1e9 },
		"no options":      func(h *Header) { h.Options = "" },
		"two words":       func(h *Header) { h.Options = "a b" },
		"not ASCII":       func(h *Header) { h.Options = "é" },
		"lines":           func(h *Header) { h.Options = "a\nb" },
		"no source":       func(h *Header) { h.Source = "" },
		"long source":     func(h *Header) { h.Source = strings.Repeat("s", MaxPath+1) },
		"endless options": func(h *Header) { h.Options = strings.Repeat("o", maxLine) },
	} {
		h := testHeader
		change(&h)
		var log bytes.Buffer
		_, err := Create(&log, h)
		require.ErrorIs(t, err, ErrUnfit, what)
		require.Zero(t, log.Len(), what)
	}
}

// The Writer does not write a record that a reader would treat as damage, and its other
// records stay valid.
func TestUnfit(t *testing.T) {
	s := newScribe(t)
	s.file(testFile("a", 1))
	for _, path := range []string{"", "/", "/a", "a/", "a//b", ".", "..", "a/..", "../a", "./a", "a\x00b", strings.Repeat("n", MaxPath+1)} {
		require.ErrorIs(t, s.w.File(testFile(path, 1)), ErrUnfit, "%.99q", path)
		require.ErrorIs(t, s.w.Partial(testPartial(path, 1)), ErrUnfit, "%.99q", path)
		require.ErrorIs(t, s.w.Done(path), ErrUnfit, "%.99q", path)
	}
	for _, change := range []func(f *File){
		func(f *File) { f.Size = -1 },
		func(f *File) { f.Mtime.Nsec = 1e9 },
		func(f *File) { f.Ctime.Nsec = -1 },
		func(f *File) { f.Digests[1] = nil },
		func(f *File) { f.Digests[0] = make([]byte, maxLine) },
	} {
		f := testFile("b", 1)
		change(f)
		require.ErrorIs(t, s.w.File(f), ErrUnfit)
	}
	for _, change := range []func(p *Partial){
		func(p *Partial) { p.Offset = 0 },
		func(p *Partial) { p.Offset = -1 },
		func(p *Partial) { p.Offset = p.Size + 1 },
		func(p *Partial) { p.Mtime.Nsec = math.MaxInt64 },
		func(p *Partial) { p.Ctime.Nsec = math.MinInt64 },
		func(p *Partial) { p.Temp = "" },
		func(p *Partial) { p.Temp = ".sealift-a b.tmp" },
		func(p *Partial) { p.Temp = ".sealift-a/b.tmp" },
		func(p *Partial) { p.Temp = "name.tmp" },
		func(p *Partial) { p.Temp = ".sealift-1.tmp . x" },
		func(p *Partial) { p.States = [][]byte{make([]byte, maxLine)} },
	} {
		p := testPartial("b", 1)
		change(p)
		require.ErrorIs(t, s.w.Partial(p), ErrUnfit)
	}
	require.ErrorIs(t, s.w.Checkpoint(s.w.Size()+1, fsys.Time{}), ErrUnfit)
	require.ErrorIs(t, s.w.Checkpoint(-1, fsys.Time{}), ErrUnfit)
	require.ErrorIs(t, s.w.Checkpoint(1, fsys.Time{Nsec: -1}), ErrUnfit)
	s.checkpoint(s.w.Size(), fsys.Time{})
	require.ErrorIs(t, s.w.Checkpoint(s.ops[0].end-1, fsys.Time{}), ErrUnfit)
	s.file(testFile("b", 2))
	log := s.bytes()
	s.requireRead(log, int64(len(log)), nil)
}

// An empty state is one that cannot be marshalled.
func TestEmptyState(t *testing.T) {
	s := newScribe(t)
	p := testPartial("a", 1)
	p.States = [][]byte{{}, []byte("state")}
	require.NoError(t, s.w.Partial(p))
	log := s.bytes()
	l, err := Read(bytes.NewReader(log), int64(len(log)))
	require.NoError(t, err)
	found, ok := l.Partial("a")
	require.True(t, ok)
	require.Equal(t, [][]byte{nil, []byte("state")}, found.States)
}

// chunks remembers single writes.
type chunks [][]byte

func (c *chunks) Write(p []byte) (int, error) {
	*c = append(*c, bytes.Clone(p))
	return len(p), nil
}

func TestWritesWholeLines(t *testing.T) {
	var c chunks
	w, err := Create(&c, testHeader)
	require.NoError(t, err)
	const files = 5000
	for i := range files {
		require.NoError(t, w.File(testFile(strings.Repeat("n", 1+i), 1)))
	}
	require.NoError(t, w.Flush())
	require.NoError(t, w.Flush())
	var size int64
	lines := 0
	for i, chunk := range c {
		require.True(t, bytes.HasSuffix(chunk, []byte{'\n'}))
		if 0 < i && i < len(c)-1 {
			require.GreaterOrEqual(t, len(chunk), bufferSize)
		}
		require.LessOrEqual(t, len(chunk), bufferSize+8<<10)
		lines += bytes.Count(chunk, []byte{'\n'})
		size += int64(len(chunk))
	}
	require.Equal(t, w.Size(), size)
	require.Equal(t, 1+files, lines)
}

// failing is a device that is full after some bytes.
type failing struct {
	left int
	err  error
}

func (f *failing) Write(p []byte) (int, error) {
	if len(p) > f.left {
		n := f.left
		f.left = 0
		return n, f.err
	}
	f.left -= len(p)
	return len(p), nil
}

func TestWriteErrors(t *testing.T) {
	full := errors.New("full")
	_, err := Create(&failing{err: full}, testHeader)
	require.ErrorIs(t, err, full)

	for _, f := range []*failing{{left: 1000, err: full}, {left: 1000}} {
		want := f.err
		if want == nil {
			want = io.ErrShortWrite
		}
		w, err := Create(f, testHeader)
		require.NoError(t, err)
		records := 0
		for err == nil {
			err = w.File(testFile("a", 1))
			records++
		}
		require.EqualError(t, err, want.Error(), "callers say that it is about the journal")
		require.ErrorIs(t, err, want)
		require.Greater(t, records, 100, "buffered")
		f.left = 1 << 20 // there is space again, but the written part is unknown
		require.ErrorIs(t, w.File(testFile("a", 1)), want)
		require.ErrorIs(t, w.Partial(testPartial("a", 1)), want)
		require.ErrorIs(t, w.Done("a"), want)
		require.ErrorIs(t, w.Checkpoint(1, fsys.Time{}), want)
		require.ErrorIs(t, w.Flush(), want)
		require.Equal(t, 1<<20, f.left)
	}
}

func TestWriterDoesNotAllocate(t *testing.T) {
	w, err := Create(io.Discard, testHeader)
	require.NoError(t, err)
	f := testFile("directory/of the/file", 1)
	require.Zero(t, testing.AllocsPerRun(10, func() {
		for range 1000 { // the buffer is written more than once
			if err = w.File(f); err != nil {
				break
			}
		}
	}))
	require.NoError(t, err)
}

func BenchmarkWriterFile(b *testing.B) {
	w, err := Create(io.Discard, testHeader)
	require.NoError(b, err)
	f := &File{Path: "some/directory/of/a/tree/with/a/file.name", Size: 123456, Mtime: fsys.Time{Sec: 1700000000}, Digests: hash.Digests{make([]byte, 32)}}
	b.ReportAllocs()
	for b.Loop() {
		if err := w.File(f); err != nil {
			b.Fatal(err)
		}
	}
}

// benchmarkLog is a log of a million files.
func benchmarkLog(b *testing.B) (*os.File, int64, []string) {
	const files = 1_000_000
	f, err := os.Create(filepath.Join(b.TempDir(), "log"))
	require.NoError(b, err)
	b.Cleanup(func() { f.Close() })
	w, err := Create(f, testHeader)
	require.NoError(b, err)
	record := &File{Size: 123456, Mtime: fsys.Time{Sec: 1700000000}, Ctime: fsys.Time{Sec: 1700000000}, Digests: hash.Digests{make([]byte, 32)}}
	var some []string
	for i := range files {
		record.Path = "some/directory/of/a/tree/" + strings.Repeat("n", i%40) + NewID()
		if i%1000 == 0 {
			some = append(some, record.Path)
			require.NoError(b, w.Checkpoint(w.Size(), fsys.Time{}))
		}
		if err := w.File(record); err != nil {
			b.Fatal(err)
		}
	}
	require.NoError(b, w.Checkpoint(w.Size(), fsys.Time{}))
	require.NoError(b, w.Flush())
	return f, w.Size(), some
}

func BenchmarkRead(b *testing.B) {
	f, size, _ := benchmarkLog(b)
	b.ReportAllocs()
	b.SetBytes(size)
	for b.Loop() {
		l, err := Read(f, size)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(cap(l.entries)*8)/float64(l.Files()), "B/record")
	}
}

func BenchmarkLogFile(b *testing.B) {
	f, size, some := benchmarkLog(b)
	l, err := Read(f, size)
	require.NoError(b, err)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		if _, _, ok, err := l.File(some[i%len(some)]); err != nil || !ok {
			b.Fatal(ok, err)
		}
		i++
	}
}
