//go:build linux

package engine

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/manifest"
	"github.com/seed65876f4f/sealift/internal/treetest"
)

// TestSecondRunWithEachHash shows that a second run recognizes the manifest of the first,
// whichever its hash is: it reads nothing and leaves the manifest alone. It also accepts
// the asterisks of earlier versions.
func TestSecondRunWithEachHash(t *testing.T) {
	t.Parallel()
	src := t.TempDir()
	files := map[string]string{"a": "one", "d/b": "two", "d/new\nline": "three", "empty": "", "(x) = y": "four"}
	for name, content := range files {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(src, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(src, name), []byte(content), 0o600))
	}
	for _, a := range hash.Algorithms() {
		t.Run(string(a), func(t *testing.T) {
			dst := filepath.Join(treetest.MemoryDir(t), "dst")
			list := filepath.Join(dst, a.FileName())
			run := func() *Summary {
				o := options(src, dst)
				o.Hashes = []hash.Algorithm{a}
				s, err := Run(context.Background(), &o, &counters.Set{})
				require.NoError(t, err)
				require.Zero(t, s.Errors+s.Warnings+s.Conflicts)
				require.Len(t, s.Targets[0].Manifests, 1)
				require.Equal(t, list, s.Targets[0].Manifests[0].Path)
				require.Equal(t, len(files), s.Targets[0].Manifests[0].Lines)
				require.Zero(t, s.Targets[0].Manifests[0].Dropped)
				return s
			}
			require.EqualValues(t, len(files), run().Files)
			text, err := os.ReadFile(list)
			require.NoError(t, err)
			ix, err := manifest.BuildExactIndex(bytes.NewReader(text), int64(len(text)), a)
			require.NoError(t, err, "%s", text)
			require.Equal(t, len(files), ix.Len())
			before, err := os.Stat(list)
			require.NoError(t, err)

			// A file that is read is then found to differ.
			copied, err := os.Stat(filepath.Join(dst, "a"))
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(filepath.Join(dst, "a"), []byte("eno"), 0o600))
			require.NoError(t, os.Chtimes(filepath.Join(dst, "a"), copied.ModTime(), copied.ModTime()))

			idle := func() {
				t.Helper()
				s := run()
				require.Zero(t, s.Files)
				require.EqualValues(t, len(files), s.Skipped)
				now, err := os.ReadFile(list)
				require.NoError(t, err)
				require.Equal(t, string(text), string(now))
			}
			idle()
			after, err := os.Stat(list)
			require.NoError(t, err)
			require.True(t, os.SameFile(before, after), "the manifest was replaced")
			require.Equal(t, before.ModTime(), after.ModTime())

			if a.NeedsTag() {
				return // earlier versions did not write it
			}
			marked := strings.Replace(string(text), "  a\n", " *a\n", 1)
			require.NotEqual(t, string(text), marked)
			require.NoError(t, os.WriteFile(list, []byte(marked), 0o600))
			idle()
		})
	}
}
