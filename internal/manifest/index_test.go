package manifest

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/hash"
)

func indexOf(t *testing.T, text string) *Index {
	t.Helper()
	ix, err := BuildCheckIndex(strings.NewReader(text), int64(len(text)), GNU, hash.SHA256)
	require.NoError(t, err)
	return ix
}

// colliding gives every path the same hash.
func colliding(t *testing.T, text string) *Index {
	t.Helper()
	open := func(r io.Reader) entries { return GNU.read(r, hash.SHA256) }
	ix := &Index{src: strings.NewReader(text), size: int64(len(text)), algorithm: hash.SHA256, open: open}
	ix, err := ix.build(func([]byte) uint64 { return 7 })
	require.NoError(t, err)
	return ix
}

// requireListed checks Lookup; empty digits mean that ok is false.
func requireListed(t *testing.T, ix *Index, path, digits string) {
	t.Helper()
	if digits != "" {
		require.True(t, ix.MayList(path), "%q", path)
	}
	digest, ok, err := ix.Lookup(path)
	require.NoError(t, err)
	require.Equal(t, digits != "", ok, "%q", path)
	if ok {
		require.Equal(t, digits, fmt.Sprintf("%x", digest), "%q", path)
	}
}

func TestIndex(t *testing.T) {
	long := strings.Repeat("directory/", 5000) + "file"
	lines := []string{
		hexB + "  b",
		hexA + "  a",
		hexA + " *binary mode",
		"# comment",
		"",
		`\` + hexA + `  new\nline\\`,
		hexB + "  " + long,
		"nonsense",
		hexA[:32] + "  of another length",
		hexA + "  ./dot//slash/./file",
		hexB + "  ../up",
		hexB + "  \xff",
		hexA + "  last",
	}
	for _, end := range []string{"\n", "\r\n"} {
		for _, last := range []string{"", end} {
			text := strings.Join(lines, end) + last
			for _, ix := range []*Index{indexOf(t, text), colliding(t, text)} {
				require.Equal(t, 9, ix.Len())
				require.Equal(t, 2, ix.Malformed())
				requireListed(t, ix, "a", hexA)
				requireListed(t, ix, "b", hexB)
				requireListed(t, ix, "new\nline\\", hexA)
				requireListed(t, ix, long, hexB)
				requireListed(t, ix, "dot/slash/file", hexA)
				requireListed(t, ix, "../up", hexB)
				requireListed(t, ix, "\xff", hexB)
				requireListed(t, ix, "last", hexA)
				requireListed(t, ix, "binary mode", hexA)
				for _, absent := range []string{"", "c", "la", "lastt", "of another length", "nonsense", "up", long[1:]} {
					requireListed(t, ix, absent, "")
				}
			}
		}
	}
}

func TestIndexMayListOnlyWhatIsListed(t *testing.T) {
	ix := indexOf(t, hexA+"  a\n"+hexB+" *b\n")
	require.True(t, ix.MayList("a"))
	require.True(t, ix.MayList("b"))
	require.False(t, ix.MayList("c"))
}

func TestIndexEmpty(t *testing.T) {
	ix := indexOf(t, "")
	require.Zero(t, ix.Len())
	requireListed(t, ix, "a", "")
}

func TestIndexDuplicates(t *testing.T) {
	text := strings.Join([]string{
		hexA + "  same", hexA + "  differs", hexB + "  other",
		strings.ToUpper(hexA) + "  same", hexB + "  differs",
		hexA + "  spelled", hexB + "  ./spelled",
		hexA + "  thrice", hexA + "  thrice", hexB + "  thrice",
		hexA + "  marked", hexA + " *marked",
	}, "\n")
	for _, ix := range []*Index{indexOf(t, text), colliding(t, text)} {
		require.Equal(t, 12, ix.Len())
		requireListed(t, ix, "same", hexA)
		requireListed(t, ix, "other", hexB)
		requireListed(t, ix, "differs", "")
		requireListed(t, ix, "spelled", "")
		requireListed(t, ix, "thrice", "")
		requireListed(t, ix, "marked", hexA)
		for _, disputed := range []string{"differs", "spelled", "thrice"} {
			require.True(t, ix.MayList(disputed))
		}
	}
}

func TestIndexTags(t *testing.T) {
	text := "SHA256 (a) = " + hexA + "\nBLAKE3 (b) = " + hexA + "\nSHA2-256(c)= " + hexA + "\n" + hexA + "  d\n"
	ix := indexOf(t, text)
	require.Equal(t, 3, ix.Len())
	require.Equal(t, 1, ix.Malformed())
	requireListed(t, ix, "a", hexA)
	requireListed(t, ix, "b", "")
	requireListed(t, ix, "c", hexA)
	requireListed(t, ix, "d", hexA)
	ix, err := BuildCheckIndex(strings.NewReader(text), int64(len(text)), GNU, hash.BLAKE3)
	require.NoError(t, err)
	require.Equal(t, 2, ix.Len())
	requireListed(t, ix, "b", hexA)
	requireListed(t, ix, "d", hexA)
}

func TestIndexLongestLine(t *testing.T) {
	longest := strings.Repeat("n", MaxLine-1-len(hexA)-2)
	text := hexA + "  " + longest + "\n" + hexB + "  " + longest + "n\n" + hexB + "  " + longest[1:]
	ix := indexOf(t, text)
	require.Equal(t, 2, ix.Len())
	requireListed(t, ix, longest, hexA)
	requireListed(t, ix, longest+"n", "")
	requireListed(t, ix, longest[1:], hexB)
}

func TestIndexErrors(t *testing.T) {
	text := hexA + "  a\n" + hexB + "  b\n"
	broken := errors.New("broken")
	_, err := BuildCheckIndex(&flaky{err: broken}, 10, GNU, hash.SHA256)
	require.ErrorIs(t, err, broken)
	_, err = BuildCheckIndex(&flaky{text: text}, int64(len(text))+1, GNU, hash.SHA256)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)

	f := &flaky{text: text}
	ix, err := BuildCheckIndex(f, int64(len(text)), GNU, hash.SHA256)
	require.NoError(t, err)
	for _, tt := range []struct {
		damage flaky
		want   string
	}{
		{flaky{err: broken}, "broken"},
		{flaky{text: text[:len(text)-2]}, "unexpected EOF"},
		{flaky{text: ""}, "unexpected EOF"},
		{flaky{text: strings.Repeat("x", len(text))}, "changed"},
		{flaky{text: text[:69] + text[:30] + "\n" + text[:50]}, "changed"},
	} {
		*f = tt.damage
		digest, ok, err := ix.Lookup("b")
		require.ErrorContains(t, err, tt.want)
		require.False(t, ok)
		require.Nil(t, digest)
	}
	*f = flaky{text: text}
	requireListed(t, ix, "b", hexB)
}

func TestIndexFromSeveralGoroutines(t *testing.T) {
	var text strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&text, "%s%04x  file%d\n", hexA[:60], i, i)
	}
	ix := indexOf(t, text.String())
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := range 1000 {
				digest, ok, err := ix.Lookup(fmt.Sprintf("file%d", i))
				if err != nil || !ok || int(digest[30])<<8|int(digest[31]) != i {
					t.Errorf("file%d: %x, %v, %v", i, digest, ok, err)
				}
			}
		})
	}
	wg.Wait()
}

func TestCanonical(t *testing.T) {
	for path, want := range map[string]string{
		"":           "",
		"a":          "a",
		"./a":        "a",
		"././a":      "a",
		".//a":       "a",
		"a//b":       "a/b",
		"a/./b":      "a/b",
		"a/././/b/c": "a/b/c",
		".a/.b":      ".a/.b",
		"a./b":       "a./b",
		"...":        "...",
		"./../a":     "../a",
		"a/../b":     "a/../b",
		"/a//b":      "/a//b",
		"//a":        "//a",
		".":          ".",
		"./":         "./",
		"./a/":       "./a/",
		"./a/.":      "./a/.",
	} {
		require.Equal(t, want, string(canonical([]byte(path))), "%q", path)
	}
}

// Lines of a bag may end with a line feed, a carriage return, or both.
func TestIndexOfBag(t *testing.T) {
	for _, text := range []string{
		hexA + " data/a\n" + hexB + " data/b\n" + hexA + " data/c%25\n",
		hexA + " data/a\r\n" + hexB + " data/b\r\n" + hexA + " data/c%25\r\n",
		hexA + " data/a\r" + hexB + " data/b\r" + hexA + " data/c%25",
		hexA + " data/a\r\n\r\r\n" + hexB + "\tdata/b\r" + hexA + " data/c%25\n\r",
	} {
		ix, err := BuildCheckIndex(strings.NewReader(text), int64(len(text)), BagIt, hash.SHA256)
		require.NoError(t, err, "%q", text)
		require.Equal(t, 3, ix.Len(), "%q", text)
		require.Zero(t, ix.Malformed(), "%q", text)
		requireListed(t, ix, "data/a", hexA)
		requireListed(t, ix, "data/b", hexB)
		requireListed(t, ix, "data/c%", hexA)
		require.Equal(t, []string{"data/a", "data/b", "data/c%"}, unmet(t, ix), "%q", text)
	}
}

// The index allocates space for the number of lines that it expects from the first ones.
func TestIndexOfLinesThatGetLongerOrShorter(t *testing.T) {
	long, short := strings.Repeat("d/", 500), ""
	for _, prefixes := range [][]string{{long, short}, {short, long}, {short, long, short}} {
		var text strings.Builder
		for n, prefix := range prefixes {
			for i := range 700 {
				fmt.Fprintf(&text, "%s  %s%d-%d\n", hexA, prefix, n, i)
			}
		}
		ix := indexOf(t, text.String())
		require.Equal(t, 700*len(prefixes), ix.Len())
		for n, prefix := range prefixes {
			for i := range 700 {
				requireListed(t, ix, fmt.Sprintf("%s%d-%d", prefix, n, i), hexA)
			}
		}
		requireListed(t, ix, "0-700", "")
	}
}
