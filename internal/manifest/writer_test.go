package manifest

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/extsort"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/treetest"
)

func TestBuilderOrder(t *testing.T) {
	want := []string{"B", "a", "a b", "a!", "a-b", "a.txt", "a/", "a/b", "a/b-c", "a/b.txt", "a/b/c", "a0", "aa", "b", "\x7f", "\xc3\xa4", "\xff"}
	digest := digestOf(t, hexA)
	for range 20 {
		b := newBuilder(hash.SHA256, noSpill, 0)
		for _, i := range rand.Perm(len(want)) {
			require.NoError(t, putIn(b, want[i], digest))
		}
		var paths []string
		for line := range strings.Lines(written(t, b, Document{})) {
			paths = append(paths, strings.TrimSuffix(line[66:], "\n"))
		}
		require.Equal(t, want, paths)
	}
}

func TestBuilderSortsUnescaped(t *testing.T) {
	b := newBuilder(hash.SHA256, noSpill, 0)
	for _, path := range []string{"a[", `a\`, "a\n", "a\r", "-"} {
		require.NoError(t, putIn(b, path, digestOf(t, hexA)))
	}
	require.Equal(t, hexA+"  ./-\n"+
		`\`+hexA+`  a\n`+"\n"+
		`\`+hexA+`  a\r`+"\n"+
		hexA+"  a[\n"+
		`\`+hexA+`  a\\`+"\n", written(t, b, Document{}))
}

func TestBuilderOverrides(t *testing.T) {
	type step func(*testing.T, *Builder)
	put := func(path, digits string) step {
		return func(t *testing.T, b *Builder) { require.NoError(t, putIn(b, path, digestOf(t, digits))) }
	}
	drop := func(path string) step {
		return func(t *testing.T, b *Builder) { require.NoError(t, b.Drop(path)) }
	}
	for _, tt := range []struct {
		name  string
		steps []step
		want  string
	}{
		{"nothing", nil, ""},
		{"put", []step{put("p", hexA)}, listing("p A")},
		{"last put", []step{put("p", hexA), put("p", hexB)}, listing("p B")},
		{"put, then drop", []step{put("p", hexA), drop("p")}, ""},
		{"drop, then put", []step{drop("p"), put("p", hexA)}, listing("p A")},
		{"put, drop, put", []step{put("p", hexA), drop("p"), put("p", hexB)}, listing("p B")},
		{"put of the file - in two spellings", []step{put("./-", hexA), put("-", hexB)}, listing("./- B")},
		{"drop of the file -", []step{put("-", hexA), drop("./-")}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, limit := range []int{0, 1} { // all in memory; each record in a separate run
				made := 0
				b := newBuilder(hash.SHA256, fileSpill(t, &made), limit)
				for _, s := range tt.steps {
					s(t, b)
				}
				require.Equal(t, tt.want, written(t, b, Document{}), "limit %d", limit)
				require.Equal(t, tt.want, written(t, b, Document{}), "limit %d, again", limit)
				if limit == 0 {
					require.Zero(t, made)
				} else if len(tt.steps) > 1 {
					require.Equal(t, 1, made)
				}
				require.NoError(t, b.Close())
			}
		})
	}
}

func TestBuilderOmit(t *testing.T) {
	b := newBuilder(hash.SHA256, noSpill, 0)
	for _, path := range []string{"a", "SHA256SUMS", "-", "z"} {
		require.NoError(t, putIn(b, path, digestOf(t, hexA)))
	}
	require.NoError(t, b.Drop("dropped"))
	var asked []string
	got := written(t, b, Document{Omit: func(path string) bool {
		asked = append(asked, path)
		return path == "SHA256SUMS" || path == "-"
	}})
	require.Equal(t, listing("a A", "z A"), got)
	require.Equal(t, []string{"-", "SHA256SUMS", "a", "z"}, asked)
	require.Equal(t, listing("./- A", "SHA256SUMS A", "a A", "z A"), written(t, b, Document{}))
}

func TestBuilderRefuses(t *testing.T) {
	b := newBuilder(hash.SHA256, noSpill, 0)
	digest := digestOf(t, hexA)
	require.Error(t, putIn(b, "", digest))
	require.Error(t, putIn(b, "a\x00b", digest))
	require.Error(t, putIn(b, "short", digest[:31]))
	require.Error(t, putIn(b, "long", append(digest, 0)))
	require.NoError(t, putIn(b, "a", digest))
	require.Equal(t, listing("a A"), written(t, b, Document{}))
}

// TestBuilderAgainstMap makes random calls of builders of all sizes and of a map, and
// writes in between.
func TestBuilderAgainstMap(t *testing.T) {
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 1))
		made := 0
		small := newBuilder(hash.MD5, fileSpill(t, &made), 1+rng.IntN(2000))
		large := newBuilder(hash.MD5, noSpill, 0)
		digest := func() []byte { return bytes.Repeat([]byte{byte(rng.IntN(3))}, 16) }
		path := func() string {
			p := strings.Repeat("ab/"[rng.IntN(3):][:1], 1+rng.IntN(4)) + fmt.Sprint(rng.IntN(60))
			if rng.IntN(50) == 0 {
				p += strings.Repeat("long", rng.IntN(2000))
			}
			return p
		}
		result := map[string][]byte{} // Put, or nil for Drop
		for range 3 {
			for range rng.IntN(300) {
				p, d := path(), digest()
				if rng.IntN(3) > 0 {
					result[p] = d
					require.NoError(t, errors.Join(putIn(small, p, d), putIn(large, p, d)))
				} else {
					result[p] = nil
					require.NoError(t, errors.Join(small.Drop(p), large.Drop(p)))
				}
			}
			var want []byte
			for _, p := range slices.Sorted(maps.Keys(result)) {
				if result[p] != nil {
					want = appendLine(want, result[p], p)
				}
			}
			require.Equal(t, string(want), written(t, large, Document{}), "seed %d, in memory", seed)
			require.Equal(t, string(want), written(t, small, Document{}), "seed %d, spilled", seed)
		}
		require.LessOrEqual(t, made, 1)
		require.NoError(t, small.Close())
	}
}

// memSpill is a temporary file in memory that fails at one operation.
type memSpill struct {
	data   []byte
	ops    int // done so far
	failAt int // 0 for never
	closed int
}

var errSpill = errors.New("no space left on the spill")

func (s *memSpill) op() error {
	if s.ops++; s.ops == s.failAt {
		return errSpill
	}
	return nil
}

func (s *memSpill) Write(p []byte) (int, error) {
	if err := s.op(); err != nil {
		return 0, err
	}
	s.data = append(s.data, p...)
	return len(p), nil
}

func (s *memSpill) ReadAt(p []byte, off int64) (int, error) {
	if err := s.op(); err != nil {
		return 0, err
	}
	return bytes.NewReader(s.data).ReadAt(p, off)
}

func (s *memSpill) Close() error { s.closed++; return s.op() }

// TestBuilderReportsEverySpillError fails each operation of a run, one after the other.
func TestBuilderReportsEverySpillError(t *testing.T) {
	digest := digestOf(t, hexA)
	work := func(s *memSpill) (outs []string, err error) {
		b := newBuilder(hash.SHA256, func() (extsort.Spill, error) { return s, nil }, 120<<10) // runs longer than their buffers
		defer func() {
			broken := err != nil
			if broken { // it must not recover
				require.ErrorIs(t, putIn(b, "x", digest), errSpill)
				require.ErrorIs(t, b.Drop("x"), errSpill)
				n, err := b.Write(io.Discard, Document{Previous: from(listing("x A"))})
				require.ErrorIs(t, err, errSpill)
				require.Zero(t, n)
			}
			closed := b.Close()
			if !broken {
				err = closed
			}
			require.Equal(t, 1, s.closed)
			require.NoError(t, b.Close())
			require.Equal(t, 1, s.closed)
		}()
		for i := range 5000 {
			if err := putIn(b, fmt.Sprintf("some/path/%05d", i*7919%5000), digest); err != nil {
				return nil, err
			}
		}
		for range 2 {
			var out bytes.Buffer
			if _, err := b.Write(&out, Document{}); err != nil {
				return nil, err
			}
			outs = append(outs, out.String())
		}
		return outs, nil
	}
	clean := &memSpill{}
	outs, err := work(clean)
	require.NoError(t, err)
	require.Equal(t, 5000, strings.Count(outs[0], "\n"))
	require.Equal(t, outs[0], outs[1])
	require.Greater(t, clean.ops, 10)
	for i := 1; i <= clean.ops; i++ {
		_, err := work(&memSpill{failAt: i})
		require.ErrorIs(t, err, errSpill, "operation %d of %d", i, clean.ops)
	}
}

func TestBuilderSpillCannotBeMade(t *testing.T) {
	b := newBuilder(hash.SHA256, func() (extsort.Spill, error) { return nil, errSpill }, 1)
	require.NoError(t, putIn(b, "a", digestOf(t, hexA)))
	require.ErrorIs(t, putIn(b, "b", digestOf(t, hexA)), errSpill)
	_, err := b.Write(io.Discard, Document{})
	require.ErrorIs(t, err, errSpill)
	require.NoError(t, b.Close())
}

func TestBuilderSpillCutShort(t *testing.T) {
	for _, cut := range []int{1, 10, 40, 41, 77, 78} {
		s := &memSpill{}
		b := newBuilder(hash.SHA256, func() (extsort.Spill, error) { return s, nil }, 1)
		for _, path := range []string{"a", "b", "c"} {
			require.NoError(t, putIn(b, path, digestOf(t, hexA)))
		}
		s.data = s.data[:len(s.data)-min(cut, len(s.data))]
		_, err := b.Write(io.Discard, Document{})
		require.ErrorIs(t, err, io.ErrUnexpectedEOF, "%d bytes", cut)
	}
}

// failingWriter accepts n bytes.
type failingWriter struct{ n int }

func (w *failingWriter) Write(p []byte) (int, error) {
	if w.n -= len(p); w.n < 0 {
		return 0, io.ErrShortWrite
	}
	return len(p), nil
}

func TestBuilderReportsWriteErrors(t *testing.T) {
	b := newBuilder(hash.SHA256, noSpill, 0)
	for i := range 3000 {
		require.NoError(t, putIn(b, fmt.Sprint(i), digestOf(t, hexA)))
	}
	size := len(written(t, b, Document{}))
	for _, room := range []int{0, 1, 100_000, size - 1} {
		_, err := b.Write(&failingWriter{room}, Document{})
		require.ErrorIs(t, err, io.ErrShortWrite)
	}
	_, err := b.Write(&failingWriter{size}, Document{})
	require.NoError(t, err)
}

func TestBuilderClosed(t *testing.T) {
	b := newBuilder(hash.SHA256, noSpill, 0)
	require.NoError(t, putIn(b, "a", digestOf(t, hexA)))
	require.NoError(t, b.Close())
	require.NoError(t, b.Close())
	require.ErrorContains(t, putIn(b, "a", digestOf(t, hexA)), "closed")
	_, err := b.Write(io.Discard, Document{})
	require.ErrorContains(t, err, "closed")
}

// liveHeap returns the number of reachable bytes.
func liveHeap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// samplingWriter counts lines and watches the heap.
type samplingWriter struct{ bytes, peak int64 }

func (w *samplingWriter) Write(p []byte) (int, error) {
	if before := w.bytes >> 22; (w.bytes+int64(len(p)))>>22 != before {
		w.peak = max(w.peak, liveHeap())
	}
	w.bytes += int64(len(p))
	return len(p), nil
}

func TestBuilderMemory(t *testing.T) {
	files, memory := 150_000, 4<<20
	if treetest.Large() {
		files, memory = 1_000_000, 0
	}
	most := int64(cmp.Or(memory, DefaultMemory) + 4<<20)
	made := 0
	base := liveHeap()
	b := newBuilder(hash.SHA256, fileSpill(t, &made), memory)
	defer func() { require.NoError(t, b.Close()) }()
	digest := digestOf(t, hexA)
	peak := int64(0)
	for i := range files {
		path := fmt.Sprintf("%080d", i*7919%files)
		if err := putIn(b, path, digest); err != nil {
			t.Fatal(err)
		}
		if i%10_000 == 0 {
			peak = max(peak, liveHeap())
		}
	}
	require.Less(t, peak-base, most)
	w := &samplingWriter{}
	n, err := b.Write(w, Document{})
	require.NoError(t, err)
	require.Equal(t, Counts{Lines: files}, n)
	require.EqualValues(t, files*(64+2+80+1), w.bytes)
	require.NotZero(t, w.peak)
	require.Less(t, w.peak-base, most)
	require.Equal(t, 1, made)

	// Put allocates nothing for a record, and Write only its path.
	e := Entry{Path: "some/path", Digests: hash.Digests{digest}}
	require.Zero(t, testing.AllocsPerRun(1000, func() { _ = b.Put(e) }))
	require.Less(t, testing.AllocsPerRun(1, func() { _, _ = b.Write(io.Discard, Document{}) }), float64(files)+500)
}
