//go:build linux

package engine

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/event"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/policy"
	"github.com/seed65876f4f/sealift/internal/readback"
	"github.com/seed65876f4f/sealift/internal/resume"
	"github.com/seed65876f4f/sealift/internal/treetest"
)

// A bad file is moved to a free name in its directory, however long its name is.
func TestABadFileIsMovedAsideUnderAFreeName(t *testing.T) {
	t.Parallel()
	room := fsys.MaxName - len(readback.BadPrefix)
	for _, c := range []struct {
		name  string
		taken func(path string) error
		plain bool // it gets the plain name
	}{
		{name: "a", plain: true},
		{name: strings.Repeat("n", room), plain: true},
		{name: strings.Repeat("n", room+1)},
		{name: strings.Repeat("n", fsys.MaxName)},
		{name: strings.Repeat("é", fsys.MaxName/2)},
		{name: "bad\n\\\xff\x1b[1m", plain: true},
		{name: "a", taken: func(path string) error { return os.WriteFile(path, []byte("yesterday's"), 0o600) }},
		{name: "a", taken: func(path string) error { return os.Mkdir(path, 0o700) }},
		{name: "a", taken: func(path string) error { return os.Symlink("nowhere", path) }},
		{ // of a run before, which has found the same file
			name: "a", taken: func(path string) error { return os.Link(filepath.Join(filepath.Dir(path), "a"), path) },
		},
	} {
		for i, kind := range []event.Kind{event.Mismatch, event.Failed} {
			src, dst := sourceAndDestination(t)
			write(t, src, c.name, treetest.Pattern(100, byte(i)), since)
			plain := filepath.Join(dst, readback.BadPrefix+c.name)
			out := runAndFail(t, verifying(VerifyDest, src, dst), func() {
				spoil(t, filepath.Join(dst, c.name))
				if c.taken != nil {
					require.NoError(t, c.taken(plain))
				}
			}, func(op fsys.Op, _ string) error {
				if op == fsys.OpDropCache && kind == event.Failed {
					return syscall.EIO
				}
				return nil
			})
			bad := out.bad()
			require.Len(t, bad, 1)
			require.Equal(t, kind, bad[0].Kind)
			require.NotContains(t, bad[0].Err.Error(), "\n", "no control character reaches a terminal")
			require.NoFileExists(t, filepath.Join(dst, c.name))
			require.NoFileExists(t, filepath.Join(dst, "SHA256SUMS"), "an empty list is none")
			names := aside(t, dst)
			if c.taken == nil {
				require.Len(t, names, 1)
				require.Equal(t, c.plain, names[0] == readback.BadPrefix+c.name)
				require.LessOrEqual(t, len(names[0]), fsys.MaxName)
				require.False(t, strings.HasSuffix(names[0], ".tmp"), "the name is not that of a temporary")
				continue
			}
			require.Len(t, names, 2)
			for _, name := range names {
				info, err := os.Lstat(filepath.Join(dst, name))
				require.NoError(t, err)
				if name != readback.BadPrefix+c.name {
					require.EqualValues(t, 100, info.Size())
				} else if info.Mode().IsRegular() && info.Size() != 100 {
					require.EqualValues(t, len("yesterday's"), info.Size())
				}
			}
		}
	}
}

// A bad file is moved in a read-only directory too. The directory has its mode and time
// afterwards.
func TestABadFileInAReadOnlyDirectory(t *testing.T) {
	for _, mode := range []os.FileMode{0o555, 0o500, 0o511, 0o755, 0o500 | os.ModeSticky} {
		for _, readError := range []bool{false, true} {
			dir := treetest.MemoryDir(t)
			src, dst := filepath.Join(dir, "src"), filepath.Join(dir, "dst")
			asOrdinaryUser(t, dir, func() {
				write(t, src, "ro/a", treetest.Pattern(100, 1), since)
				write(t, src, "ro/b", treetest.Pattern(100, 2), since)
				require.NoError(t, os.Chtimes(filepath.Join(src, "ro"), before, before))
				require.NoError(t, os.Chmod(filepath.Join(src, "ro"), mode))
				if mode&0o200 == 0 {
					require.ErrorIs(t, os.WriteFile(filepath.Join(src, "ro/no"), nil, 0o600), os.ErrPermission, "or this tests nothing")
				}
				spoilA := func() { spoil(t, filepath.Join(dst, "ro/a")) }
				out := runAndFail(t, verifying(VerifyDest, src, dst), spoilA, func(op fsys.Op, _ string) error {
					if op == fsys.OpDropCache && readError {
						readError = false
						return syscall.EIO
					}
					return nil
				})
				require.Len(t, out.bad(), 1)
				require.NotContains(t, out.bad()[0].Err.Error(), "could not be moved")
				require.Equal(t, []string{readback.BadPrefix + "a"}, aside(t, filepath.Join(dst, "ro")))
				require.Equal(t, []string{"ro/b"}, listed(t, dst))
				info, err := os.Stat(filepath.Join(dst, "ro"))
				require.NoError(t, err)
				require.Equal(t, mode, info.Mode()&^os.ModeDir)
				require.True(t, info.ModTime().Equal(before), "%v", info.ModTime())
			})
		}
	}
}

// A bad file that cannot be moved is reported and not listed.
func TestABadFileThatCannotBeMoved(t *testing.T) {
	t.Parallel()
	src, dst := sourceAndDestination(t)
	write(t, src, "a", treetest.Pattern(100, 1), since)
	write(t, src, "b", treetest.Pattern(100, 2), since)
	for _, readError := range []bool{false, true} {
		o := verifying(VerifyDest, src, dst)
		o.Policy = policy.Checksum
		out := runAndFail(t, o, func() { spoil(t, filepath.Join(dst, "a")) }, func(op fsys.Op, name string) error {
			switch {
			case op == fsys.OpRename && strings.HasPrefix(name, readback.BadPrefix):
				return syscall.EACCES
			case op == fsys.OpDropCache && readError:
				readError = false
				return syscall.EIO
			}
			return nil
		})
		require.Len(t, out.bad(), 1)
		require.ErrorContains(t, out.bad()[0].Err, "could not be moved")
		require.FileExists(t, filepath.Join(dst, "a"))
		require.Empty(t, aside(t, dst))
		require.Equal(t, []string{"b"}, listed(t, dst))
	}
}

// If another file has replaced a bad file since that was opened, the other file is not moved.
func TestABadFileThatWasReplacedMeanwhile(t *testing.T) {
	t.Parallel()
	dir := treetest.MemoryDir(t)
	src, dst := filepath.Join(dir, "src"), filepath.Join(dir, "dst")
	write(t, src, "a", treetest.Pattern(100, 1), since)
	write(t, dir, "mine", []byte("mine"), since)
	spoilA := func() { spoil(t, filepath.Join(dst, "a")) }
	out := runAndFail(t, verifying(VerifyDest, src, dst), spoilA, func(op fsys.Op, _ string) error {
		if op == fsys.OpDropCache {
			require.NoError(t, os.Rename(filepath.Join(dir, "mine"), filepath.Join(dst, "a")))
		}
		return nil
	})
	require.Len(t, out.bad(), 1)
	require.ErrorContains(t, out.bad()[0].Err, "could not be moved")
	content, err := os.ReadFile(filepath.Join(dst, "a"))
	require.NoError(t, err)
	require.Equal(t, "mine", string(content))
	require.Empty(t, aside(t, dst))
	require.NoFileExists(t, filepath.Join(dst, "SHA256SUMS"))
}

// The line of a bad file is removed from every manifest of this run. The other lines stay.
func TestABadFileIsInNoManifest(t *testing.T) {
	t.Parallel()
	src, dst := sourceAndDestination(t)
	write(t, src, "a", treetest.Pattern(100, 1), since)
	write(t, src, "b", treetest.Pattern(bigSize, 2), since)
	write(t, dst, "extra", []byte("kept"), since)
	require.NoError(t, os.WriteFile(filepath.Join(dst, "SHA256SUMS"), []byte(sha("kept")+"  extra\n"), 0o600))
	o := verifying(VerifyDest, src, dst)
	o.Hashes = hash.Algorithms()
	out := runAndChange(t, o, func() { spoil(t, filepath.Join(dst, "b")) })
	require.Len(t, out.bad(), 1)
	require.Len(t, out.summary.Targets[0].Manifests, len(hash.Algorithms()))
	for _, m := range out.summary.Targets[0].Manifests {
		content, err := os.ReadFile(m.Path)
		require.NoError(t, err)
		lines := readManifestOf(t, hash.Algorithm(m.Algorithm), string(content))
		require.Contains(t, lines, "a", m.Path)
		require.NotContains(t, lines, "b", m.Path)
	}
	require.Equal(t, []string{"a", "extra"}, listed(t, dst), "lines of other paths are kept")
}

// Single files: beside their manifest, under their own name or another.
func TestVerifySingleFiles(t *testing.T) {
	t.Parallel()
	dir := treetest.MemoryDir(t)
	src := filepath.Join(dir, "src")
	write(t, src, "file", treetest.Pattern(bigSize, 1), since)
	write(t, src, "neighbour", treetest.Pattern(10, 1), since)
	for _, rotten := range []bool{false, true} {
		for i, name := range []string{"file", "other"} {
			base := filepath.Join(dir, fmt.Sprint(rotten, i))
			one, two := filepath.Join(base, "one", name), filepath.Join(base, "two", name)
			require.NoError(t, os.MkdirAll(filepath.Dir(one), 0o700))
			require.NoError(t, os.MkdirAll(filepath.Dir(two), 0o700))
			// Manifests of the directory may list the file as well.
			require.NoError(t, os.WriteFile(filepath.Join(base, "two", "MD5SUMS"),
				fmt.Appendf(nil, "%032x  %s\n%032x  %s\n", 1, name, 2, "else"), 0o600))
			out := runAndChange(t, verifying(VerifyDest, filepath.Join(src, "file"), one, two), func() {
				if rotten {
					spoil(t, two)
				}
			})
			require.EqualValues(t, 1, out.summary.Targets[0].Verified)
			require.FileExists(t, one+".sha256")
			if !rotten {
				require.Empty(t, out.bad())
				require.FileExists(t, two+".sha256")
				continue
			}
			require.Len(t, out.bad(), 1)
			require.Equal(t, []any{event.Mismatch, two}, []any{out.bad()[0].Kind, out.bad()[0].Target})
			require.Zero(t, out.summary.Targets[1].Verified)
			require.Empty(t, out.summary.Targets[1].Manifests)
			require.NoFileExists(t, two)
			require.NoFileExists(t, two+".sha256")
			require.Equal(t, []string{readback.BadPrefix + name}, aside(t, filepath.Dir(two)))
			sums, err := os.ReadFile(filepath.Join(base, "two", "MD5SUMS"))
			require.NoError(t, err)
			require.Len(t, readManifest(t, string(sums)), 2, "a directory's manifest is not changed")
			require.NoDirExists(t, filepath.Join(base, "two", resume.JournalName(name)))
		}
	}
}
