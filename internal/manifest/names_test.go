package manifest

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/hash"
)

// The page about manifests has a row for every algorithm.
func TestDocsListEveryAlgorithm(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "manifest.md"))
	require.NoError(t, err)
	quoted := func(names ...string) string { return "`" + strings.Join(names, "`, `") + "`" }
	answer := map[bool]string{true: "yes", false: "no"}
	rows := "| `--hash` | written as | tags | a digest has | known by its length | resumes from a saved state |\n|---|---|---|---|---|---|\n"
	for _, a := range hash.All() {
		written := "only read"
		if a.FileName() != "" {
			written = quoted(a.FileName(), "NAME."+a.Extension())
		}
		unit := "digits"
		if !a.IsHex() {
			unit = "characters"
		}
		rows += fmt.Sprintf("| `%s` | %s | %s | %d %s | %s | %s |\n", a, written, quoted(a.Tags()...),
			len(a.Text(make([]byte, a.Size()))), unit, answer[hash.OfLength(a.Size()) == a], answer[hash.State(a.New()) != nil])
	}
	require.True(t, strings.Contains(string(page), rows+"\n"), "docs/manifest.md needs this table:\n%s", rows)
}

// The page about manifests lists the file names of every format, and each is that of one
// format only.
func TestDocsListEveryFileName(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "manifest.md"))
	require.NoError(t, err)
	rows := "| name | from |\n|---|---|\n"
	for _, names := range AllFileNames() {
		rows += "| `" + strings.Join(names.Patterns, "`, `") + "` | " + names.From + " |\n"
	}
	require.True(t, strings.Contains(string(page), rows+"\n"), "docs/manifest.md needs this table:\n%s", rows)
	for _, format := range formats {
		for _, names := range format.FileNames() {
			for _, pattern := range names.Patterns {
				name := strings.ReplaceAll(pattern, "*", "x")
				for _, other := range formats {
					_, ok := other.recognize(lower(name))
					require.Equal(t, other == format, ok, "%s: %T", name, other)
				}
			}
		}
	}
}

// Each format reads what it writes, one after another and through an Index. MD5 is a hash
// that all formats can have.
func TestEveryFormatReadsWhatItWrites(t *testing.T) {
	a, b := digestsOf(hash.MD5)
	want := map[string][]byte{"-": a, "comma, 2": b, "d/\u00fc %41 *": a, "d/z": b}
	for _, format := range formats {
		builder := newBuilder(hash.MD5, noSpill, 0)
		for path, digest := range want {
			require.NoError(t, builder.Put(Entry{Path: path, Size: 1, Digests: hash.Digests{digest}}))
		}
		var out bytes.Buffer
		counts, err := builder.Write(&out, Document{Format: format})
		require.NoError(t, err, "%T", format)
		require.Equal(t, len(want), counts.Lines, "%T", format)
		require.NoError(t, builder.Close())

		in := bytes.NewReader(out.Bytes())
		lines, _, err := readAll(NewReader(in, format, hash.MD5))
		require.NoError(t, err, "%T", format)
		require.Len(t, lines, len(want), "%T", format)
		ix, err := BuildCheckIndex(in, in.Size(), format, hash.MD5)
		require.NoError(t, err, "%T", format)
		require.Zero(t, ix.Malformed(), "%T", format)
		for path, digest := range want {
			requireListed(t, ix, path, fmt.Sprintf("%x", digest))
		}
	}
}
