package journal

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/lookup"
)

type (
	done      string
	continued struct{}
)

func TestRoundTrip(t *testing.T) {
	s := newScribe(t)
	for i, path := range nastyPaths() {
		s.file(testFile(path, int64(i)))
		s.partial(testPartial(path, int64(i)))
		if i%5 == 0 {
			s.done(path)
		}
		if i%7 == 0 {
			s.checkpoint(s.w.Size(), fsys.Time{Sec: int64(i)})
		}
	}
	s.requireRead(s.bytes(), s.w.Size(), colliding)
	for _, extreme := range []*File{
		{Path: "least", Mtime: fsys.Time{Sec: -1 << 63}, Ctime: fsys.Time{Sec: -1 << 63}},
		{Path: "most", Size: 1<<63 - 1, Mtime: fsys.Time{Sec: 1<<63 - 1, Nsec: 999999999}, Digests: hash.Digests{{0}}},
		{Path: strings.Repeat("\n", MaxPath)},
		{Path: strings.Repeat("d/", MaxPath/2-1) + "dd"},
	} {
		s.file(extreme)
	}
	s.partial(&Partial{Path: "hashless", Temp: ".sealift-.tmp", Offset: 1, Size: 1})
	s.partial(&Partial{Path: "hashless2", Temp: ".sealift-A_-.9.tmp", Offset: 1<<63 - 1, Size: 1<<63 - 1, States: [][]byte{nil}})
	s.checkpoint(s.w.Size(), fsys.Time{Sec: -1})
	log := s.bytes()
	s.requireRead(log, int64(len(log)), nil)
	l, err := Read(bytes.NewReader(log), int64(len(log)))
	require.NoError(t, err)
	f, _, ok, err := l.File("least")
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, int64(-1<<63), f.Mtime.Sec)
}

// The checkpoints of the next run do not cover lines that a killed run had not covered,
// unless the next run recorded them again.
func TestContinue(t *testing.T) {
	s := newScribe(t)
	s.file(testFile("covered", 1))
	upto := s.w.Size()
	s.file(testFile("lost", 2))
	s.file(testFile("recorded again", 3))
	s.partial(testPartial("large", 4))
	s.checkpoint(upto, fsys.Time{Sec: 1})
	s.file(testFile("torn", 5))
	whole := s.bytes()
	l, err := Read(bytes.NewReader(whole), int64(len(whole))-3)
	require.NoError(t, err)
	require.Error(t, l.Why)
	s.cut(l.Size)

	w := Continue(&s.log, l.Header, l.Size)
	require.Equal(t, l.Size, int64(s.log.Len()), "nothing is written before there is something to say")
	require.ErrorIs(t, w.Checkpoint(l.Size, fsys.Time{}), ErrUnfit)
	s.continued()
	s.file(testFile("recorded again", 6))
	s.checkpoint(s.w.Size(), fsys.Time{Sec: 2})
	s.done("large")
	log := s.bytes()
	s.requireRead(log, int64(len(log)), nil)

	l, err = Read(bytes.NewReader(log), int64(len(log)))
	require.NoError(t, err)
	require.NoError(t, l.Why)
	for path, want := range map[string]int64{"covered": 1, "lost": 0, "recorded again": 6, "torn": 0} {
		f, _, ok, err := l.File(path)
		require.NoError(t, err)
		require.Equal(t, want > 0, ok, path)
		require.Equal(t, want, f.Size, path)
	}
	require.Equal(t, int64(2), l.Files())
}

func TestContinueAnUnreadLog(t *testing.T) {
	for _, w := range []*Writer{Continue(io.Discard, Header{}, 100), Continue(io.Discard, testHeader, 0)} {
		require.ErrorIs(t, w.File(testFile("a", 1)), ErrUnfit)
		require.ErrorIs(t, w.Flush(), ErrUnfit)
	}
}

// A run that continues a log cuts off what follows the good part. Look-ups do not need it.
func TestLookupsAfterTheTornEndIsCutOff(t *testing.T) {
	s := newScribe(t)
	s.file(testFile("a", 1))
	s.checkpoint(s.w.Size(), fsys.Time{Sec: 5})
	s.file(testFile("b", 2))
	log := s.bytes()
	f := &flaky{data: append(bytes.Clone(log), strings.Repeat("torn", 1000)...)}
	l, err := Read(f, int64(len(f.data)))
	require.NoError(t, err)
	require.Equal(t, int64(len(log)), l.Size)
	f.data = log
	_, _, ok, err := l.File("a")
	require.NoError(t, err)
	require.True(t, ok)
}

// A record has the expected size in memory.
func TestIndexSize(t *testing.T) {
	const files = 10000
	require.LessOrEqual(t, int(unsafe.Sizeof(lookup.Entry(0))), 8)
	s := newScribe(t)
	for i := range files {
		require.NoError(t, s.w.File(testFile(fmt.Sprint(i), 1)))
		if i%1000 == 999 {
			require.NoError(t, s.w.Checkpoint(s.w.Size(), fsys.Time{Sec: int64(i)}))
			require.NoError(t, s.w.Checkpoint(s.w.Size(), fsys.Time{Sec: int64(i + 1)})) // nothing new
		}
	}
	log := s.bytes()
	l, err := Read(bytes.NewReader(log), int64(len(log)))
	require.NoError(t, err)
	require.Equal(t, int64(files), l.Files())
	require.LessOrEqual(t, cap(l.entries), files*13/10)
	require.Len(t, l.checkpoints, 10)
	for _, i := range []int{0, 999, 1000, files - 1} {
		_, at, ok, err := l.File(fmt.Sprint(i))
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, int64(i/1000*1000+999), at.Sec)
	}
}

// flaky is a file that can be damaged under the log.
type flaky struct {
	data []byte
	err  error // instead of data from this byte on:
	from int64
}

func (f *flaky) ReadAt(p []byte, off int64) (int, error) {
	if f.err != nil && off+int64(len(p)) > f.from {
		return 0, f.err
	}
	return bytes.NewReader(f.data).ReadAt(p, off)
}

func TestReadErrors(t *testing.T) {
	s := newScribe(t)
	for i := range 2000 {
		s.file(testFile(fmt.Sprint(i), 1))
	}
	s.checkpoint(s.w.Size(), fsys.Time{})
	f := &flaky{data: bytes.Clone(s.bytes())}
	size := int64(len(f.data))
	broken := errors.New("broken")

	f.err, f.from = broken, size/2
	_, err := Read(f, size)
	require.ErrorIs(t, err, broken)
	require.NotErrorIs(t, err, ErrDamaged)
	f.from = 0
	_, err = Read(f, size)
	require.ErrorIs(t, err, broken)
	require.NotErrorIs(t, err, ErrDamaged)
	f.err = nil
	for _, more := range []int64{1, 1 << 40} {
		_, err = Read(f, size+more)
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		require.NotErrorIs(t, err, ErrDamaged)
	}

	l, err := Read(f, size)
	require.NoError(t, err)
	f.err = broken
	_, _, ok, err := l.File("7")
	require.ErrorIs(t, err, broken)
	require.False(t, ok)
	_, _, ok, err = l.File("absent")
	require.NoError(t, err, "needs no reading")
	require.False(t, ok)
	f.err = nil
	whole := f.data
	f.data = f.data[:100]
	_, _, _, err = l.File("1999")
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	for _, change := range []string{" - 7", "\n7", " 8"} {
		f.data = bytes.Replace(whole, []byte(" 7\n"), []byte(change+"\n"), 1)
		f.data = append(f.data, whole[size-10:]...)
		_, _, ok, err = l.File("7")
		require.ErrorContains(t, err, "changed since it was read", change)
		require.False(t, ok)
	}
	f.data = []byte(string(whole[:s.ops[7].start]) + sealed(testHeader.ID, "d 7") + strings.Repeat("\n", 1000))
	_, _, ok, err = l.File("7")
	require.ErrorContains(t, err, "changed since it was read", "another record of the path")
	require.False(t, ok)
	f.data = bytes.ReplaceAll(whole, []byte{'\n'}, []byte{'-'})
	_, _, _, err = l.File("7")
	require.ErrorContains(t, err, "changed since it was read")
}

func TestConcurrentLookups(t *testing.T) {
	s := newScribe(t)
	for i := range 1000 {
		s.file(testFile(fmt.Sprint(i), int64(i)))
	}
	s.checkpoint(s.w.Size(), fsys.Time{})
	log := s.bytes()
	l, err := Read(bytes.NewReader(log), int64(len(log)))
	require.NoError(t, err)
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for i := range 1000 {
				f, _, ok, err := l.File(fmt.Sprint(i))
				if err != nil || !ok || f.Size != int64(i) {
					t.Errorf("%d: %v, %v, %v", i, f, ok, err)
				}
			}
		})
	}
	group.Wait()
}
