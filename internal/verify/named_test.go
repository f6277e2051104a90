package verify

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/tally"
)

// A manifest for several directories is the run's, not the first directory's.
func TestANamedManifestOutlivesTheFirstTree(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "many.sha256")
	content := strings.Repeat(strings.Repeat("0", 64)+"  a\n", 2*smallManifest/64)
	require.NoError(t, os.WriteFile(name, []byte(content), 0o600))
	r := &run{opts: &Options{Dirs: []string{dir, dir}, Manifest: name}, counters: &tally.Counters{}, summary: &Summary{}}
	require.NoError(t, r.openTrees(t.Context()))
	defer r.close()
	r.trees[0].close()
	_, err := r.trees[1].manifests[0].read().next()
	require.NoError(t, err)
	r.trees = r.trees[1:]
}
