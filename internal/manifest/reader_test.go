package manifest

import (
	"bufio"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
)

func TestReader(t *testing.T) {
	a, b := digestOf(t, hexA), digestOf(t, hexB)
	text := strings.Join([]string{
		"# made by hand",
		hexA + "  one\r",
		"",
		"nonsense",
		`\` + hexB + ` *t\nwo`,
		"SHA256 (three) = " + hexA,
		hexA + "  ",
		"BLAKE3 (four) = " + hexB + "\r",
		"BLAKE3 (five) = " + hexB,
		hexB + "  last, without a line feed",
	}, "\n")
	for _, end := range []string{"", "\n", "\r\n"} {
		for name, wrap := range map[string]func(io.Reader) io.Reader{
			"whole": func(r io.Reader) io.Reader { return r },
			"bytes": iotest.OneByteReader,
			"eof":   iotest.DataErrReader,
		} {
			r := NewReader(wrap(strings.NewReader(text+end)), GNU, "")
			require.Zero(t, r.Number())
			lines, numbers, err := readAll(r)
			require.NoError(t, err, name)
			require.Equal(t, []Line{
				{Path: "one", Digest: a},
				{Path: "t\nwo", Digest: b},
				{Path: "three", Digest: a, Algorithm: "SHA256"},
				{Path: "four", Digest: b, Algorithm: "BLAKE3"},
				{Path: "five", Digest: b, Algorithm: "BLAKE3"},
				{Path: "last, without a line feed", Digest: b},
			}, lines, name)
			require.Equal(t, []int{2, 5, 6, 8, 9, 10}, numbers, name)
			count, kept := r.Malformed()
			require.Equal(t, 2, count)
			require.Equal(t, []int{4, 7}, kept)
			_, err = r.Next()
			require.Equal(t, io.EOF, err)
		}
	}
}

func TestReaderOverlongLines(t *testing.T) {
	longest := strings.Repeat("n", MaxLine-1-len(hexA)-2)
	for name, text := range map[string]string{
		"in the middle": hexA + "  " + longest + "n\n",
		"much too long": hexA + "  " + strings.Repeat(longest, 5) + "\n",
	} {
		r := NewReader(strings.NewReader(text+hexB+"  b\n"+hexA+"  "+longest+"\n"+hexA+"  "+longest), GNU, "")
		lines, numbers, err := readAll(r)
		require.NoError(t, err, name)
		require.Equal(t, []int{2, 3, 4}, numbers, name)
		require.Equal(t, "b", lines[0].Path)
		require.Equal(t, longest, lines[1].Path)
		require.Equal(t, longest, lines[2].Path)
		count, kept := r.Malformed()
		require.Equal(t, 1, count, name)
		require.Equal(t, []int{1}, kept, name)
	}
	for _, text := range []string{hexA + "  " + longest + "n", hexA + "  " + longest + longest} {
		for _, src := range []io.Reader{
			strings.NewReader(text),
			iotest.DataErrReader(strings.NewReader(text)),
			bufio.NewReaderSize(strings.NewReader(text), 4*MaxLine),
		} {
			r := NewReader(src, GNU, "")
			lines, _, err := readAll(r)
			require.NoError(t, err)
			require.Empty(t, lines)
			count, _ := r.Malformed()
			require.Equal(t, 1, count)
		}
	}
}

func TestReaderDoesNotBufferOverlongLines(t *testing.T) {
	allocated := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, err := NewReader(&endless{64 << 20}, GNU, "").Next()
			if err != io.EOF {
				b.Fatal(err)
			}
		}
	}).AllocedBytesPerOp()
	require.Less(t, allocated, int64(4*MaxLine)) // the race detector allocates, too
}

func TestReaderKeepsFewNumbers(t *testing.T) {
	r := NewReader(strings.NewReader(strings.Repeat("nonsense\n", 1000)), GNU, "")
	_, err := r.Next()
	require.Equal(t, io.EOF, err)
	count, kept := r.Malformed()
	require.Equal(t, 1000, count)
	require.Len(t, kept, maxMalformedKept)
	require.Equal(t, maxMalformedKept, kept[maxMalformedKept-1])
}

func TestReaderReportsErrors(t *testing.T) {
	broken := errors.New("broken")
	for _, text := range []string{"", hexA + "  a", hexA + "  a\n" + hexA + "  cut sho", strings.Repeat("x", 2*MaxLine)} {
		r := NewReader(io.MultiReader(strings.NewReader(text), iotest.ErrReader(broken)), GNU, "")
		lines, _, err := readAll(r)
		require.ErrorIs(t, err, broken)
		require.Len(t, lines, strings.Count(text, "\n"))
		_, err = r.Next()
		require.ErrorIs(t, err, broken)
	}
}

func TestReaderReusesBuffers(t *testing.T) {
	text := strings.Repeat(`\`+hexA+`  a\nb`+"\n"+"SHA256 (x) = "+hexB+"\n", 2000)
	r := NewReader(strings.NewReader(text), GNU, "")
	allocs := testing.AllocsPerRun(1000, func() {
		if _, err := r.Next(); err != nil {
			t.Fatal(err)
		}
	})
	require.LessOrEqual(t, allocs, 1.0, "one for the path")
}
