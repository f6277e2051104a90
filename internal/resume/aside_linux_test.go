package resume

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A backslash is an ordinary byte of a name, also of a manifest that is aside.
func TestAnAsideManifestWithABackslashInItsName(t *testing.T) {
	root := openRoot(t, nil)
	j, _, _, _ := open(t, root, tested)
	require.NoError(t, j.RecordAside(`a\b.sha256`, `.sealift-was-a\b.sha256`, false))
	asides, err := ReadAsides(root, JournalName(""))
	require.NoError(t, err)
	require.Equal(t, map[string]string{`a\b.sha256`: `.sealift-was-a\b.sha256`}, asides)
}
