package shard

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// The record of a merge keeps its conflicts. An empty record is that of an earlier version; a damaged
// one is an error, not a merge without conflicts.
func TestRecordOfAMerge(t *testing.T) {
	inCluster(t, func(c *cluster) {
		s := c.store(nil)
		m, err := s.ReadMerged()
		require.NoError(t, err)
		require.Nil(t, m)

		require.NoError(t, s.SetMerged(Merged{Conflicts: 3}))
		m, err = c.store(nil).ReadMerged()
		require.NoError(t, err)
		require.Equal(t, &Merged{Conflicts: 3}, m)

		file := filepath.Join(c.path, mergedName)
		require.NoError(t, os.WriteFile(file, nil, 0o600))
		m, err = s.ReadMerged()
		require.NoError(t, err)
		require.Equal(t, &Merged{}, m)

		for _, text := range []string{`{"conflicts":-1}`, `{"conflicts":3`} {
			require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
			_, err = s.ReadMerged()
			require.Error(t, err, text)
		}
	})
}
