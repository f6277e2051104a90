package hash

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNames(t *testing.T) {
	require.Equal(t, "SHA256SUMS", SHA256.FileName())
	require.Equal(t, "sha256", SHA256.Extension())
	require.Equal(t, []string{"SHA256", "SHA2-256"}, SHA256.Tags())
	for _, a := range All() {
		for _, tag := range a.Tags() {
			require.Equal(t, a, OfTag(tag))
		}
	}
	for _, a := range Algorithms() {
		require.Equal(t, strings.ToUpper(string(a))+"SUMS", a.FileName())
		require.Equal(t, string(a), a.Extension())
	}
	for _, a := range []Algorithm{SHA224, "none", "", "SHA256"} { // only read, or none
		require.Empty(t, a.FileName(), a)
		require.Empty(t, a.Extension(), a)
	}
	for _, tag := range []string{"", "sha256", "SHA9-256", "SHA2-1", "SHA256 ", "CRC99", "BLAKE9b"} {
		require.Empty(t, OfTag(tag), tag)
	}
	require.Equal(t, BLAKE3, OfShortName("b3"))
	require.Empty(t, OfShortName(""))
}

func TestOfLength(t *testing.T) {
	want := map[int]Algorithm{16: "md5", 20: "sha1", 28: "sha224", 32: "sha256", 48: "sha384", 64: "sha512"}
	for n := -1; n < 130; n++ {
		require.Equal(t, want[n], OfLength(n), n)
	}
}

// Names that stood for two algorithms would make one pass for the other.
func TestNamesAreUnique(t *testing.T) {
	seen := map[string]Algorithm{}
	for _, e := range table {
		require.NotEmpty(t, e.tags, e.name)
		require.Regexp(t, `^[a-z0-9]+$`, e.name, "names of manifests are split into words")
		for _, name := range append([]string{string(e.name), e.short, e.file}, e.tags...) {
			if name != "" {
				require.NotContains(t, seen, name, e.name)
				seen[name] = e.name
			}
		}
	}
}
