package extsort

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A little data needs no directory for temporary files. For more data, the error names the
// directory and the variable that chooses it.
func TestTempFileWithoutADirectory(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	t.Setenv(variable(), missing)
	s, err := TempFile()
	require.NoError(t, err)
	_, err = s.Write(make([]byte, temporaryMemory))
	require.NoError(t, err)
	for _, err := range []error{CheckTemp(), writeByte(s)} {
		require.ErrorIs(t, err, ErrTemporary)
		require.ErrorContains(t, err, "the directory '"+missing+"' cannot be used")
		require.ErrorContains(t, err, "set "+variable()+" to another")
	}
	require.NoError(t, s.Close())
}

func writeByte(s Spill) error {
	_, err := s.Write([]byte{1})
	return err
}

func TestCheckTempLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	t.Setenv(variable(), dir)
	require.NoError(t, CheckTemp())
	left, err := filepath.Glob(filepath.Join(dir, "*"))
	require.NoError(t, err)
	require.Empty(t, left)
}
