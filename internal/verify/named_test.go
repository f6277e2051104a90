package verify

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/failure"
)

// The run closes a manifest for several directories, not the first directory.
func TestANamedManifestOutlivesTheFirstTree(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "many.sha256")
	content := strings.Repeat(strings.Repeat("0", 64)+"  a\n", 2*smallManifest/64)
	require.NoError(t, os.WriteFile(name, []byte(content), 0o600))
	r := &run{opts: &Options{Paths: []string{dir, dir}, Manifest: name}, counters: &counters.Set{}, summary: &Summary{}}
	require.NoError(t, r.openTrees(t.Context()))
	defer r.close()
	r.trees[0].close()
	_, err := r.trees[1].manifests[0].read().next()
	require.NoError(t, err)
	r.trees = r.trees[1:]
}

// endless is a pipe without an end.
type endless struct{ read int }

func (l *endless) Read(p []byte) (int, error) {
	if l.read += len(p); l.read > 10<<20 {
		return 0, errors.New("it is read on")
	}
	return copy(p, bytes.Repeat([]byte("#\n"), len(p)/2+1)), nil
}

// A manifest from a pipe is kept in memory, so its size is limited.
func TestPipedManifestHasALimit(t *testing.T) {
	s := &treeManifest{shown: "standard input"}
	err := s.readAll(&endless{}, 1<<20)
	require.ErrorAs(t, err, new(*failure.RefusedError))
	require.ErrorContains(t, err, "manifest 'standard input': more than 1 MiB")
	require.NoError(t, s.readAll(strings.NewReader("12345"), 5))
	require.Equal(t, int64(5), s.size)
	require.Error(t, s.readAll(strings.NewReader("123456"), 5))
}
