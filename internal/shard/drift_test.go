package shard

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/fsys"
)

// planDirs plans files and directories in two shards.
func planDirs(t *testing.T, files, dirs []string) *Store {
	dir, _ := openTemp(t)
	p, err := NewPlanner(dir, planOptions(2))
	require.NoError(t, err)
	defer p.Close()
	for _, path := range append([]string{""}, dirs...) {
		require.NoError(t, p.AddDirectory(Directory{Path: path}))
	}
	for _, path := range files {
		require.NoError(t, p.Add(file(path, 1).Entry, fsys.ID{}, 1))
	}
	_, err = p.Write(t.Context())
	require.NoError(t, err)
	s, err := Open(dir)
	require.NoError(t, err)
	return s
}

func driftOf(t *testing.T, s *Store, memory int, listed ...string) (found []string) {
	d := s.NewDrift()
	defer d.Close()
	d.sorter = newSorter(s.dir, memory)
	for _, path := range listed {
		name := strings.TrimSuffix(path, "/")
		require.NoError(t, d.Listed(name, name != path))
	}
	require.NoError(t, d.Each(t.Context(), func(path string) error {
		found = append(found, path)
		return nil
	}))
	return found
}

func TestNamesThatThePlanLacksAreFound(t *testing.T) {
	s := planDirs(t, []string{"a", "d/x", "d/y\n\xff", "d/e/z", "other/a"}, []string{"d", "d/e", "other"})
	assert.Empty(t, driftOf(t, s, 0))
	assert.Empty(t, driftOf(t, s, 0, "a", "d/", "other/"))
	assert.Equal(t, []string{"b", "new"}, driftOf(t, s, 0, "a", "b", "d/", "new", "other/"))
	assert.Equal(t, []string{"a", "d", "other"}, driftOf(t, s, 0, "a/", "d", "other"), "other kinds")
	assert.Equal(t, []string{"d/y", "d/z"}, driftOf(t, s, 0, "d/z", "d/e/", "d/x", "d/y", "d/y\n\xff"), "names that begin like a planned one")
	assert.Equal(t, []string{"d/e/x"}, driftOf(t, s, 0, "d/e/x", "a"), "a planned name in another directory")
}

// New names in the middle of a large directory are found, and the search uses little memory.
func TestDriftIsSortedInLittleMemory(t *testing.T) {
	var files, listed []string
	for i := range 500 {
		files = append(files, fmt.Sprintf("d/%03d", i))
	}
	s := planDirs(t, files, []string{"d"})
	listed = append(listed, files...)
	listed = append(listed, "d/25", "d/4990")
	assert.Equal(t, []string{"d/25", "d/4990"}, driftOf(t, s, 256, listed...))
}
