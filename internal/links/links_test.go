package links_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/extsort"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/links"
	"github.com/seed65876f4f/sealift/internal/walk"
)

// The names come file by file and in path order, in any order of Add, from memory and from the
// temporary file. Notes and directories are those that were added. Close counts the rest.
func TestNamesComeFileByFile(t *testing.T) {
	t.Parallel()
	for _, memory := range []int{links.DefaultMemory, 1} {
		n := links.New(extsort.TempFile, memory)
		require.True(t, n.Empty())
		d := sourceDir(t)
		for _, x := range []struct {
			ino  uint64
			name string
			note any
		}{{7, "z", "last"}, {3, "b", nil}, {7, "a", nil}, {3, "c", 5}, {9, "only", nil}} {
			require.NoError(t, n.Add(fsys.ID{Dev: 1, Ino: x.ino}, d.Join(x.name), walk.Item{Dir: d, Name: x.name, Kind: fsys.Regular, Note: x.note}))
		}
		require.False(t, n.Empty())
		var got []links.File
		enough := os.ErrClosed
		require.ErrorIs(t, n.Each(func(f links.File) error {
			got = append(got, f)
			if len(got) == 2 {
				return enough
			}
			return nil
		}), enough)
		name := func(name string, note any) walk.Item {
			return walk.Item{Dir: d, Name: name, Kind: fsys.Regular, Note: note}
		}
		require.Equal(t, []links.File{
			{ID: fsys.ID{Dev: 1, Ino: 3}, Names: []walk.Item{name("b", nil), name("c", 5)}},
			{ID: fsys.ID{Dev: 1, Ino: 7}, Names: []walk.Item{name("a", nil), name("z", "last")}},
		}, got)
		require.Equal(t, 1, n.Close(), "one name was not yielded")
	}
}

// sourceDir returns a directory of a walk.
func sourceDir(t *testing.T) *walk.Dir {
	t.Helper()
	path := filepath.Join(t.TempDir(), "src")
	require.NoError(t, os.Mkdir(path, 0o755))
	dir, err := (&fsys.FS{}).OpenRoot(path)
	require.NoError(t, err)
	info, err := dir.Stat()
	require.NoError(t, err)
	root := walk.NewRoot(fsys.NewHandles(4).Root(dir), info, walk.Entries(func(*walk.Dir, string, fsys.Kind) {}))
	walk.Walk(context.Background(), root, walk.Options{Workers: 1})
	return root
}
