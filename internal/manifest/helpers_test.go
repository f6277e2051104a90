package manifest

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/extsort"
	"github.com/seed65876f4f/sealift/internal/hash"
)

const (
	hexA  = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	hexB  = "2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae"
	c4ABC = "c45S4rnaTNWonxss1u8LzsaJdEph1AJhWUF4sh2waXKMsutyfAxg4ybUeuXVWS9HdNcEypmeXn8FZGonD4w1rj9DZp"
	bom   = "\xef\xbb\xbf"
)

func digestOf(t testing.TB, digits string) []byte {
	t.Helper()
	l, err := parseLine([]byte(digits + "  x"))
	require.NoError(t, err)
	return l.Digest
}

// digestsOf returns the digests of the contents "a" and "b".
func digestsOf(h hash.Algorithm) (a, b []byte) {
	sum := func(content string) []byte {
		s := hash.NewSet([]hash.Algorithm{h})
		s.Write([]byte(content))
		return s.Digests()[0]
	}
	return sum("a"), sum("b")
}

// parseLine parses a line with two characters before the name.
func parseLine(line []byte) (Line, error) {
	var p sumParser
	f, err := p.parse(line)
	if err != nil {
		return Line{}, err
	}
	return Line{Path: string(f.path), Digest: f.digest, Algorithm: string(f.tag)}, nil
}

// appendLine appends a line of GNU with a digest in hexadecimal.
func appendLine(dst, digest []byte, path string) []byte {
	return GNU.appendLine(dst, "", digest, []byte(path), false)
}

// listing formats paths, each followed by the letter of its digest.
func listing(entries ...string) string {
	var out strings.Builder
	for _, e := range entries {
		digits := map[byte]string{'A': hexA, 'B': hexB}[e[len(e)-1]]
		out.WriteString(digits + "  " + e[:len(e)-2] + "\n")
	}
	return out.String()
}

// readAll returns the entries with their line numbers; the digests are copies.
func readAll(r *Reader) (lines []Line, numbers []int, err error) {
	for {
		l, err := r.Next()
		if err == io.EOF {
			return lines, numbers, nil
		}
		if err != nil {
			return lines, numbers, err
		}
		l.Digest = bytes.Clone(l.Digest)
		lines = append(lines, l)
		numbers = append(numbers, r.Number())
	}
}

// newBuilder returns a Builder for digests of one hash.
func newBuilder(a hash.Algorithm, newSpill func() (extsort.Spill, error), limit int) *Builder {
	return NewBuilder([]hash.Algorithm{a}, newSpill, limit)
}

// putIn puts a digest of one hash into a Builder.
func putIn(b *Builder, path string, digest []byte) error {
	return b.Put(Entry{Path: path, Digests: hash.Digests{digest}})
}

// from is Document.Previous of one hash.
func from(text string) []io.ReadSeeker { return []io.ReadSeeker{strings.NewReader(text)} }

func written(t *testing.T, b *Builder, d Document) string {
	t.Helper()
	var out bytes.Buffer
	n, err := b.Write(&out, d)
	require.NoError(t, err)
	require.Equal(t, strings.Count(out.String(), "\n"), n.Lines)
	return out.String()
}

// noSpill is for builders that must keep all records in memory.
func noSpill() (extsort.Spill, error) { return nil, errors.New("spilled") }

// fileSpill counts the spills it makes.
func fileSpill(t *testing.T, made *int) func() (extsort.Spill, error) {
	spill := spillIn(t.TempDir())
	return func() (extsort.Spill, error) {
		*made++
		return spill()
	}
}

func spillIn(dir string) func() (extsort.Spill, error) {
	return func() (extsort.Spill, error) { return os.CreateTemp(dir, "spill") }
}

// flaky is a file that can be damaged under the index.
type flaky struct {
	text string
	err  error
}

func (f *flaky) ReadAt(p []byte, off int64) (int, error) {
	if f.err != nil {
		return 0, f.err
	}
	return strings.NewReader(f.text).ReadAt(p, off)
}

// endless is a file of zeros whose reading fails after n bytes.
type endless struct{ n int64 }

func (e *endless) Read(p []byte) (int, error) {
	if e.n <= 0 {
		return 0, io.EOF
	}
	clear(p)
	e.n -= int64(len(p))
	return len(p), nil
}

// formatFor returns BSD, or the usual format of an algorithm.
func formatFor(a hash.Algorithm, tagged bool) Sums {
	if tagged {
		return BSD
	}
	return FormatOf(a)
}
