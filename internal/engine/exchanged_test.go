package engine

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/dest"
	"github.com/seed65876f4f/sealift/internal/event"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/fsys/faultfs"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/metadata"
	"github.com/seed65876f4f/sealift/internal/route"
	"github.com/seed65876f4f/sealift/internal/treetest"
)

// A further name is linked to the file that was copied, never to a file that another process
// has put in its place.
func TestPrimaryLinkExchangedAtTheDestination(t *testing.T) {
	t.Parallel()
	dir := treetest.MemoryDir(t)
	src, first, second := filepath.Join(dir, "src"), filepath.Join(dir, "first"), filepath.Join(dir, "second")
	require.NoError(t, os.Mkdir(src, 0o777))
	require.NoError(t, os.WriteFile(filepath.Join(src, "a"), []byte("good"), 0o666))
	require.NoError(t, os.Link(filepath.Join(src, "a"), filepath.Join(src, "z")))
	evil := filepath.Join(dir, "evil")
	require.NoError(t, os.WriteFile(evil, []byte("evil"), 0o666))
	links := 0
	sys := faultfs.New(func(op fsys.Op, name string) error {
		if op == fsys.OpLink && name == "z" {
			if links++; links == 1 { // at the first destination; "a" is done everywhere
				return os.Rename(evil, filepath.Join(second, "a"))
			}
		}
		return nil
	})
	var failed []string
	o := &Options{
		Source: src, Targets: []string{first, second}, Records: Records{Hashes: []hash.Algorithm{hash.SHA256}},
		Preserve: metadata.PreserveAll, Sync: dest.SyncNone, Resources: Resources{Workers: 1}, FS: sys,
		Report: func(e event.Event) {
			if e.Kind == event.Failed {
				failed = append(failed, e.Path)
			}
		},
	}
	summary, err := Run(context.Background(), o, &counters.Set{})
	require.NoError(t, err)
	require.EqualValues(t, 1, summary.Errors)
	require.Equal(t, []string{"z"}, failed)
	linked, err := os.ReadFile(filepath.Join(first, "z"))
	require.NoError(t, err)
	require.Equal(t, "good", string(linked))
	require.NoFileExists(t, filepath.Join(second, "z"))
}

// Another process creates a link at the destination's path between the check and the creation.
// The run does not follow it.
func TestALinkInPlaceOfANewDestinationIsNotFollowed(t *testing.T) {
	t.Parallel()
	linuxOnly(t, "Wine makes no symbolic links")
	dir := treetest.MemoryDir(t)
	victim := filepath.Join(dir, "victim")
	require.NoError(t, os.Mkdir(victim, 0o777))
	require.NoError(t, os.Symlink(victim, filepath.Join(dir, "dst")))
	planted := &target{Destination: dest.New(route.Destination{Given: "dst", Dir: filepath.Join(dir, "dst"), Anchor: dir}, 0, nil, nil, nil)}
	require.ErrorIs(t, planted.Make(), fs.ErrExist)
	require.Nil(t, planted.Root)
}
