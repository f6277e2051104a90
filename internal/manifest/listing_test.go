package manifest

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/hash"
)

// listingOf returns the digests for path in hex.
func listingOf(t *testing.T, ix *Index, path string) (digits []string) {
	t.Helper()
	p, err := ix.Listing(path)
	require.NoError(t, err)
	for _, d := range p.Digests {
		digits = append(digits, fmt.Sprintf("%x", d))
	}
	return digits
}

func meet(t *testing.T, ix *Index, paths ...string) {
	t.Helper()
	for _, path := range paths {
		p, err := ix.Listing(path)
		require.NoError(t, err)
		ix.Meet(p)
	}
}

func unmet(t *testing.T, ix *Index) (paths []string) {
	t.Helper()
	require.NoError(t, ix.Unmet(func(path string) error {
		paths = append(paths, path)
		return nil
	}))
	return paths
}

func TestListing(t *testing.T) {
	text := strings.Join([]string{
		hexB + "  b", hexA + "  a", hexA + " *marked",
		hexA + "  differs", hexB + " *differs", hexA + "  differs", strings.ToUpper(hexB) + "  ./differs",
		hexA + "  same", hexA + "  same", "nonsense", hexA[:32] + "  short", `\` + hexA + `  new\nline`, hexB + "  ../up",
	}, "\n")
	for _, ix := range []*Index{indexOf(t, text), colliding(t, text)} {
		require.Equal(t, []string{hexA}, listingOf(t, ix, "a"))
		require.Equal(t, []string{hexB}, listingOf(t, ix, "b"))
		require.Equal(t, []string{hexA}, listingOf(t, ix, "marked"))
		require.Equal(t, []string{hexA, hexB}, listingOf(t, ix, "differs"))
		require.Equal(t, []string{hexA}, listingOf(t, ix, "same"))
		require.Equal(t, []string{hexA}, listingOf(t, ix, "new\nline"))
		require.Equal(t, []string{hexB}, listingOf(t, ix, "../up"))
		for _, absent := range []string{"", "c", "short", "nonsense", "./a"} {
			require.Empty(t, listingOf(t, ix, absent))
		}
		requireListed(t, ix, "marked", hexA)
		requireListed(t, ix, "differs", "")
		requireListed(t, ix, "same", hexA)

		require.Equal(t, []string{"b", "a", "marked", "differs", "same", "new\nline", "../up"}, unmet(t, ix))
		meet(t, ix, "a", "differs", "absent", "new\nline", "a")
		require.Equal(t, []string{"b", "marked", "same", "../up"}, unmet(t, ix))
		require.Equal(t, []string{"b", "marked", "same", "../up"}, unmet(t, ix), "again")
		meet(t, ix, "b", "marked", "same", "../up")
		require.Empty(t, unmet(t, ix))
	}
}

func TestUnmetOfNothing(t *testing.T) {
	require.Empty(t, unmet(t, indexOf(t, "")))
	require.Empty(t, unmet(t, indexOf(t, "# nothing\n")))
}

func TestUnmetTags(t *testing.T) {
	ix := indexOf(t, "SHA256 (a) = "+hexA+"\nBLAKE3 (b) = "+hexA+"\n"+hexA+"  ./c//d\n")
	require.Equal(t, []string{"a", "c/d"}, unmet(t, ix))
}

func TestListingKeepsFewDigests(t *testing.T) {
	var text strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&text, "%s%04x  same\n", hexA[:60], i)
	}
	ix := indexOf(t, text.String())
	require.Len(t, listingOf(t, ix, "same"), maxListed)
	require.Equal(t, []string{"same"}, unmet(t, ix))
	meet(t, ix, "same")
	require.Empty(t, unmet(t, ix))
}

func TestListingsFromSeveralGoroutines(t *testing.T) {
	const files = 2000
	var text strings.Builder
	for i := range files {
		fmt.Fprintf(&text, "%s%04x  file%d\n", hexA[:60], i, i)
	}
	ix := indexOf(t, text.String())
	absent := map[int]bool{}
	for _, i := range rand.Perm(files)[:50] {
		absent[i] = true
	}
	var want []string
	for i := range files {
		if absent[i] {
			want = append(want, fmt.Sprintf("file%d", i))
		}
	}
	var wg sync.WaitGroup
	for worker := range 4 {
		wg.Go(func() {
			for i := worker; i < files; i += 4 {
				if absent[i] {
					continue
				}
				p, err := ix.Listing(fmt.Sprintf("file%d", i))
				if err != nil || len(p.Digests) != 1 || int(p.Digests[0][30])<<8|int(p.Digests[0][31]) != i {
					t.Errorf("file%d: %x, %v", i, p.Digests, err)
				}
				ix.Meet(p)
			}
		})
	}
	wg.Wait()
	require.Equal(t, want, unmet(t, ix))
}

// Two goroutines set bits of one word at nearly the same time.
func TestMeetLosesNoBit(t *testing.T) {
	var text strings.Builder
	for i := range 32 {
		fmt.Fprintf(&text, "%s  file%d\n", hexA, i)
	}
	ix := indexOf(t, text.String())
	var halves [2]Listing
	for i := range 32 {
		p, err := ix.Listing(fmt.Sprintf("file%d", i))
		require.NoError(t, err)
		halves[i%2].entries = append(halves[i%2].entries, p.entries...)
	}
	for range 50_000 {
		ix.met[0].Store(0)
		var ready atomic.Int32
		var wg sync.WaitGroup
		for _, half := range halves {
			wg.Go(func() {
				for ready.Add(1); ready.Load() < 2; {
					runtime.Gosched()
				}
				ix.Meet(half)
			})
		}
		wg.Wait()
		require.Equal(t, ^uint32(0), ix.met[0].Load())
	}
	require.Empty(t, unmet(t, ix))
}

func TestListingErrors(t *testing.T) {
	text := hexA + "  a\n" + hexB + "  b\n" + hexA + "  a\n"
	broken, stop := errors.New("broken"), errors.New("stop")
	f := &flaky{text: text}
	ix, err := BuildCheckIndex(f, int64(len(text)), GNU, hash.SHA256)
	require.NoError(t, err)
	nothing := func(string) error { return nil }
	for _, tt := range []struct {
		damage flaky
		want   string
	}{
		{flaky{err: broken}, "broken"},
		{flaky{text: text[:len(text)-2]}, "unexpected EOF"},
		{flaky{text: ""}, "unexpected EOF"},
		{flaky{text: text[:66] + "x" + text[67:]}, "changed"},
		{flaky{text: "x" + text[:len(text)-1]}, "changed"},
	} {
		*f = tt.damage
		require.ErrorContains(t, ix.Unmet(nothing), tt.want)
	}
	*f = flaky{err: broken}
	p, err := ix.Listing("a")
	require.ErrorIs(t, err, broken)
	require.Zero(t, p)

	*f = flaky{text: text}
	require.ErrorIs(t, ix.Unmet(func(string) error { return stop }), stop)
	require.Equal(t, []string{"a", "b"}, unmet(t, ix))

	_, err = BuildCheckIndex(io.NewSectionReader(strings.NewReader(text), 0, 5), int64(len(text)), GNU, hash.SHA256)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
}

// An index for checking contains the lines that the check reader returns, and finds them
// again.
func TestCheckIndex(t *testing.T) {
	digest := strings.Repeat("ab", 32)
	for name, text := range map[string]string{
		"byte order mark": "\xef\xbb\xbf" + digest + "  a\n" + digest + "  b\r\n",
		"one space":       digest + " a\n" + digest + " b\n",
		"padded":          "SHA256   (a) = " + digest + "\nSHA256 (b) = " + digest + "\n",
	} {
		ix := indexOf(t, text)
		require.Equal(t, 2, ix.Len(), name)
		for _, path := range []string{"a", "b"} {
			p, err := ix.Listing(path)
			require.NoError(t, err)
			require.Len(t, p.Digests, 1, "%s: %s", name, path)
			if path == "a" {
				ix.Meet(p)
			}
		}
		var unmet []string
		require.NoError(t, ix.Unmet(func(path string) error { unmet = append(unmet, path); return nil }))
		require.Equal(t, []string{"b"}, unmet, name)
	}
}
