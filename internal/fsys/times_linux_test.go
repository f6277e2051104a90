package fsys

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/treetest"
)

// Times have 64 bits, whatever the processor's are, by every way to set and to read
// them.
func TestTimesAreLong(t *testing.T) {
	path := treetest.MemoryDir(t)
	d, err := OpenRoot(path)
	require.NoError(t, err)
	defer d.Close()
	if !d.InMemory() {
		t.Skip("no tmpfs here; other file systems hold fewer times")
	}
	put(t, filepath.Join(path, "file"), "x")
	require.NoError(t, os.Symlink("file", filepath.Join(path, "link")))
	f, _, err := d.Open("file")
	require.NoError(t, err)
	defer f.Close()
	byPath, err := d.OpenObject("file")
	require.NoError(t, err)
	defer byPath.Close()
	link, err := d.OpenObject("link")
	require.NoError(t, err)
	defer link.Close()
	for i, want := range []Time{{Sec: 1<<31 + 5, Nsec: 7}, {Sec: -1<<31 - 5, Nsec: 999_999_999}, {Sec: 1 << 33}} {
		at := Time{Sec: want.Sec + 1, Nsec: 3}
		name, o := "file", &f.Object
		switch i {
		case 1:
			o = byPath
		case 2:
			name, o = "link", link
		}
		require.NoError(t, o.SetTimes(at, want, Time{}))
		looks := []func() (Info, error){
			o.Stat,
			func() (Info, error) { return d.Lstat(name) },
			func() (Info, error) { return (*FS)(nil).Lstat(filepath.Join(path, name)) },
		}
		if name == "file" {
			looks = append(looks, func() (Info, error) { return (*FS)(nil).StatPath(filepath.Join(path, name)) })
		}
		for _, look := range looks {
			info, err := look()
			require.NoError(t, err)
			require.Equal(t, []Time{want, at}, []Time{info.Mtime, info.Atime})
		}
	}
}
