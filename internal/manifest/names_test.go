package manifest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/hash"
)

func TestNames(t *testing.T) {
	for _, tt := range []struct {
		algorithm, file, extension string
		tags                       []string
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
		require.Equal(t, tt.file, FileName(tt.algorithm))
		require.Equal(t, tt.extension, Extension(tt.algorithm))
		require.Equal(t, tt.tags, Tags(tt.algorithm))
		for _, tag := range tt.tags {
			algorithm, ok := AlgorithmOfTag(tag)
			require.True(t, ok, tag)
			require.Equal(t, tt.algorithm, algorithm)
		}
	}
	for _, tag := range []string{"", "sha256", "SHA3-256", "SHA2-1", "SHA256 ", "CRC32", "BLAKE2b", "SHA512-256"} {
		algorithm, ok := AlgorithmOfTag(tag)
		require.False(t, ok, tag)
		require.Empty(t, algorithm)
	}
}

func TestAlgorithmOfLength(t *testing.T) {
	want := map[int]string{16: "md5", 20: "sha1", 28: "sha224", 32: "sha256", 48: "sha384", 64: "sha512"}
	for n := -1; n < 130; n++ {
		require.Equal(t, want[n], AlgorithmOfLength(n), n)
	}
}

// The page about manifests has a row for every algorithm.
func TestDocsListEveryAlgorithm(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "manifest.md"))
	require.NoError(t, err)
	quoted := func(names ...string) string { return "`" + strings.Join(names, "`, `") + "`" }
	answer := map[bool]string{true: "yes", false: "no"}
	rows := "| `--hash` | written as | tags | a digest has | known by its length | state can be saved |\n|---|---|---|---|---|---|\n"
	for _, a := range hash.All() {
		written := "only read"
		if a.FileName() != "" {
			written = quoted(a.FileName(), "NAME."+Extension(string(a)))
		}
		unit := "digits"
		if !a.IsHex() {
			unit = "characters"
		}
		rows += fmt.Sprintf("| `%s` | %s | %s | %d %s | %s | %s |\n", a, written, quoted(a.Tags()...),
			len(a.Text(make([]byte, a.Size()))), unit, answer[a.ByLength()], answer[a.Resumes()])
	}
	require.True(t, strings.Contains(string(page), rows+"\n"), "docs/manifest.md needs this table:\n%s", rows)
}

// Names that stood for two algorithms would make one pass for the other.
func TestNamesAreUnique(t *testing.T) {
	seen := map[string]hash.Algorithm{}
	for _, a := range hash.All() {
		names := append([]string{string(a), a.ShortName(), a.FileName()}, a.Tags()...)
		require.NotEmpty(t, a.Tags(), a)
		for _, name := range names {
			if name == "" {
				continue
			}
			require.NotContains(t, seen, name, a)
			seen[name] = a
		}
		require.LessOrEqual(t, a.Size(), maxKnownDigest, "%s: forms keeps lengths apart up to that", a)
	}
}
