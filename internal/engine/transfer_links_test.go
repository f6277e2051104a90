//go:build linux

package engine

import (
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/fsys/faultfs"
	"github.com/seed65876f4f/sealift/internal/treetest"
)

// Several workers copy names of one file at the same time, and one destination fails.
func TestHardLinksInParallel(t *testing.T) {
	t.Parallel()
	dir := treetest.MemoryDir(t)
	src := filepath.Join(dir, "src")
	const names = 60
	for i := range names {
		path := filepath.Join(src, fmt.Sprintf("d%d", i%7), fmt.Sprintf("name%02d", i))
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		if i < 3 {
			write(t, filepath.Dir(path), filepath.Base(path), treetest.Pattern(bigSize, byte(i)), since)
			continue
		}
		require.NoError(t, os.Link(filepath.Join(src, fmt.Sprintf("d%d/name%02d", i%3, i%3)), path))
	}
	source := look(t, src)
	for round := range 15 {
		base := filepath.Join(dir, fmt.Sprint(round))
		o := options(src, threeTargets(base)...)
		o.Workers = 8
		var links atomic.Int64
		sys := faultfs.New(func(op fsys.Op, _ string) error {
			if op == fsys.OpLink && links.Add(1) == int64(10*round) {
				return syscall.ENOSPC // one destination is full
			}
			return nil
		})
		o.FS = sys
		s, err := Run(t.Context(), &o, &counters.Set{})
		require.NoError(t, err)
		whole := 0
		for i, target := range o.Targets {
			if s.Targets[i].Lost != nil {
				continue
			}
			whole++
			have := look(t, target)
			for path, n := range source {
				if n.mode.IsRegular() {
					require.Equal(t, n.links, have[path].links, path)
					require.True(t, n.content == have[path].content, path)
				}
			}
			require.Len(t, readManifest(t, have["SHA256SUMS"].content), names)
		}
		if round == 0 {
			require.Equal(t, 3, whole)
			require.EqualValues(t, 3, s.Files)
			require.EqualValues(t, names-3, s.HardLinks)
		} else {
			require.Equal(t, 2, whole)
			require.EqualValues(t, 1, s.Errors)
		}
		treetest.Remove(t, base)
	}
}

// A file has more names than the file system allows: the rest are copies.
func TestHardLinksThatAreRefused(t *testing.T) {
	t.Parallel()
	src, dst := sourceAndDestination(t)
	write(t, src, "a", treetest.Pattern(100, 1), since)
	for _, name := range []string{"b", "c", "d"} {
		require.NoError(t, os.Link(filepath.Join(src, "a"), filepath.Join(src, name)))
	}
	sys := faultfs.New(func(op fsys.Op, name string) error {
		if op == fsys.OpLink && name == "c" && !fileExists(filepath.Join(dst, "c-refused")) {
			write(t, dst, "c-refused", nil, since)
			return syscall.EMLINK
		}
		return nil
	})
	o := options(src, dst)
	o.Workers = 1
	o.FS = sys
	s, err := Run(t.Context(), &o, &counters.Set{})
	require.NoError(t, err)
	require.Zero(t, s.Errors)
	require.EqualValues(t, 1, s.Warnings)
	require.EqualValues(t, 2, s.Files)
	require.EqualValues(t, 2, s.HardLinks)
	have := look(t, dst)
	for _, name := range []string{"a", "b", "c", "d"} {
		require.EqualValues(t, 2, have[name].links, name)
	}
}

// A symbolic link with several names is judged like any other: a newer one at the
// destination that leads elsewhere is a conflict, and not replaced by a hard link.
func TestASymlinkWithSeveralNamesMeetsANewerOne(t *testing.T) {
	t.Parallel()
	src, dst := sourceAndDestination(t)
	require.NoError(t, os.Mkdir(src, 0o755))
	require.NoError(t, os.Mkdir(dst, 0o755))
	require.NoError(t, os.Symlink("source", filepath.Join(src, "a")))
	require.NoError(t, os.Link(filepath.Join(src, "a"), filepath.Join(src, "b")))
	time.Sleep(20 * time.Millisecond) // several ticks of the clock of time stamps
	require.NoError(t, os.Symlink("elsewhere", filepath.Join(dst, "b")))
	o := options(src, dst)
	o.Workers = 1
	s, err := Run(t.Context(), &o, &counters.Set{})
	require.NoError(t, err)
	require.EqualValues(t, 1, s.Conflicts)
	require.EqualValues(t, 1, s.Links)
	target, err := os.Readlink(filepath.Join(dst, "b"))
	require.NoError(t, err)
	require.Equal(t, "elsewhere", target)
}
