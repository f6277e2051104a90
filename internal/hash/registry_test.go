package hash

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNames(t *testing.T) {
	for _, tt := range []struct {
		algorithm       Algorithm
		file, extension string
		tags            []string
	}{
		{"sha256", "SHA256SUMS", "sha256", []string{"SHA256", "SHA2-256"}},
		{"sha512", "SHA512SUMS", "sha512", []string{"SHA512", "SHA2-512"}},
		{"sha1", "SHA1SUMS", "sha1", []string{"SHA1"}},
		{"md5", "MD5SUMS", "md5", []string{"MD5"}},
		{"blake3", "BLAKE3SUMS", "blake3", []string{"BLAKE3"}},
		{"xxh128", "XXH128SUMS", "xxh128", []string{"XXH128"}},
		{"xxh3", "XXH3SUMS", "xxh3", []string{"XXH3"}},
		{"xxh64", "XXH64SUMS", "xxh64", []string{"XXH64"}},
		{"c4", "C4SUMS", "c4", []string{"C4"}},
		// Checked, never written:
		{"sha224", "", "", []string{"SHA224", "SHA2-224"}},
		{"sha384", "", "", []string{"SHA384", "SHA2-384"}},
		{"none", "", "", nil},
		{"", "", "", nil},
		{"SHA256", "", "", nil},
	} {
		require.Equal(t, tt.file, tt.algorithm.FileName())
		require.Equal(t, tt.extension, tt.algorithm.Extension())
		require.Equal(t, tt.tags, tt.algorithm.Tags())
		for _, tag := range tt.tags {
			require.Equal(t, tt.algorithm, OfTag(tag))
		}
	}
	for _, tag := range []string{"", "sha256", "SHA3-256", "SHA2-1", "SHA256 ", "CRC32", "BLAKE2b", "SHA512-256"} {
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
		for _, name := range append([]string{string(e.name), e.short, e.file}, e.tags...) {
			if name != "" {
				require.NotContains(t, seen, name, e.name)
				seen[name] = e.name
			}
		}
	}
}
