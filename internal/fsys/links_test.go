//go:build unix

package fsys

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A path through links of the caller leads to the same object as for the system.
func TestTrustedPathsAreThoseOfTheSystem(t *testing.T) {
	dir := t.TempDir()
	at := func(path string) string { return filepath.Join(dir, path) }
	require.NoError(t, os.MkdirAll(at("a/b"), 0o700))
	require.NoError(t, os.MkdirAll(at("c/d"), 0o700))
	require.NoError(t, os.WriteFile(at("a/file"), []byte("1"), 0o600))
	for link, target := range map[string]string{
		"a/b/up": "..", "abs": at("a"), "rel": "a//b/", "far": "c/d/../../a/b/up/file", "loop": "loop",
		"nothing": "a/new", "to-link": "rel/up/", "root": "/", "c/d/a": "../../abs",
	} {
		require.NoError(t, os.Symlink(target, at(link)))
	}
	t.Chdir(at("c"))
	var system *FS
	for _, path := range []string{
		".", "..", "../abs", "../abs/b/..", "../rel", "../rel/up/b", "d/..", "d/a/b", "/", "//", "../far", "../loop",
		"../to-link", "../to-link/file", "../to-link/file/", "../a/file/..", "none", "none/", "none/x", at("abs/b"), at("rel") + "//up//",
		"../nothing", "../root" + at("a"), "", "../root/../a/..",
	} {
		want, wantErr := os.Stat(path)
		have, err := OpenTrusted(path, os.O_RDONLY, 0)
		require.Equal(t, errors.Unwrap(wantErr), errors.Unwrap(err), path)
		require.NoError(t, CheckLinks(path))
		if err != nil {
			continue
		}
		info, err := have.Stat()
		require.NoError(t, err)
		require.True(t, os.SameFile(want, info), path)
		require.NoError(t, have.Close())
		root, err := system.OpenTrustedRoot(path)
		if !want.IsDir() {
			require.Error(t, err, path)
			continue
		}
		require.NoError(t, err, path)
		root.Close()
	}
	f, err := OpenTrusted("../nothing", os.O_WRONLY|os.O_CREATE, 0o600)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	require.FileExists(t, at("a/new"))
}

// Each link on the way is checked, also those to which another link leads. The test needs root, which
// gives links to another user.
func TestLinksOfAnotherUserAreNotFollowed(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	t.Setenv("SUDO_UID", "")
	const other = 65534
	dir := t.TempDir()
	at := func(path string) string { return dir + "/" + path }
	require.NoError(t, os.MkdirAll(at("a/b"), 0o700))
	for link, target := range map[string]string{"theirs": "a", "mine": "theirs/b", "dangling": "a/new"} {
		require.NoError(t, os.Symlink(target, at(link)))
	}
	require.NoError(t, os.Lchown(at("theirs"), other, other))
	require.NoError(t, os.Lchown(at("dangling"), other, other))
	var system *FS
	for path, link := range map[string]string{"theirs": "theirs", "theirs/": "theirs", "theirs/b/none": "theirs", "mine": "theirs", "mine/..": "theirs", "dangling": "dangling"} {
		var found *LinkError
		require.ErrorAs(t, CheckLinks(at(path)), &found, path)
		require.Equal(t, at(link), found.Link)
		require.EqualValues(t, other, found.UID)
		_, err := OpenTrusted(at(path), os.O_WRONLY|os.O_CREATE, 0o600)
		require.ErrorAs(t, err, &found, path)
		_, err = system.OpenTrustedRoot(at(path))
		require.ErrorAs(t, err, &found, path)
	}
	_, err := MakeDirs(at("theirs/b/x/y"))
	require.ErrorAs(t, err, new(*LinkError))
	require.NoDirExists(t, at("a/b/x"))
	require.NoFileExists(t, at("a/new"))
	require.NoError(t, CheckLinks(at("a/b")))
	t.Setenv("SUDO_UID", "65534")
	require.NoError(t, CheckLinks(at("mine")))
	made, err := MakeDirs(at("mine/x/y"))
	require.NoError(t, err)
	require.Equal(t, []string{at("mine/x"), at("mine/x/y")}, made)
	require.DirExists(t, at("a/b/x/y"))
}

// A name that cannot be examined is not reported as an existing directory.
func TestMakeDirsReportsTheCause(t *testing.T) {
	t.Parallel()
	loop := filepath.Join(t.TempDir(), "loop")
	require.NoError(t, os.Symlink("loop", loop))
	_, err := MakeDirs(loop)
	require.ErrorIs(t, err, unix.ELOOP)
}
