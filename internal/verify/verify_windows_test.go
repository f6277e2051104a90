package verify_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/verify"
)

// A path with a drive is refused, whatever the file system reports about the name.
func TestDrives(t *testing.T) {
	dir := t.TempDir()
	digest := strings.Repeat("0", 64)
	content := digest + "  C:/x\n" + digest + `  c:\x` + "\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "SHA256SUMS"), []byte(content), 0o600))
	var reported []string
	o := &verify.Options{Paths: []string{dir}, ConvertPaths: true, Report: func(r verify.Result) { reported = append(reported, r.Err.Error()) }}
	_, err := verify.Run(t.Context(), o, &counters.Set{})
	require.NoError(t, err)
	require.Equal(t, []string{"refused: it names a drive", "refused: it names a drive"}, reported)
}
