package engine

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/treetest"
)

// A symbolic link was replaced by a directory and is kept under its name. Files that the directory
// has later lost to newer ones are kept in a directory with a number.
func TestBackupOfADirectoryThatWasALink(t *testing.T) {
	t.Parallel()
	needsSymlinks(t)
	for _, x := range []string{"x", strings.Repeat("x", 255)} {
		dir := treetest.MemoryDir(t)
		src, dst := filepath.Join(dir, "src"), filepath.Join(dir, "dst")
		treetest.Create(t, src, treetest.Dir{x: treetest.Dir{"d": treetest.Dir{"f": treetest.File("1")}}})
		treetest.Create(t, dst, treetest.Dir{x: treetest.Symlink("elsewhere")})
		for range 3 {
			require.Empty(t, runReported(t, backedUpTo("old", src, dst)).bad())
		}
		numbered := strings.Repeat("x", min(len(x), 251)) + ".~1~"
		require.Equal(t, map[string]string{
			filepath.Join(numbered, "d", "f"): "1", filepath.Join(numbered, "d", "f.~1~"): "1",
		}, contents(t, filepath.Join(dst, "old")))
	}
}

// The number of a second backup replaces characters at the end of a name if the file system
// stores no longer one.
func TestBackupOfLongNames(t *testing.T) {
	t.Parallel()
	linuxOnly(t, "names of 255 bytes")
	dir := treetest.MemoryDir(t)
	src, dst := filepath.Join(dir, "src"), filepath.Join(dir, "dst")
	a, e := strings.Repeat("a", 300), strings.Repeat("é", 150)
	for _, name := range []string{a[:251], a[:252], a[:255], "n" + e[:254], a[:252] + "\xff\xfe"} {
		write(t, src, name, []byte(name), since)
	}
	for range 4 {
		require.Empty(t, runReported(t, backedUpTo("old", src, dst)).bad())
	}
	kept := map[string]int{} // number of backups of each file
	for name, content := range contents(t, filepath.Join(dst, "old")) {
		require.True(t, strings.HasPrefix(name, content[:250]), name)
		kept[content]++
	}
	require.Len(t, kept, 5)
	for _, n := range kept {
		require.Equal(t, 3, n)
	}
	for _, name := range []string{a[:252], a[:251] + ".~1~", a[:251] + ".~2~", "n" + e[:250] + ".~1~", "n" + e[:250] + ".~2~"} {
		require.FileExists(t, filepath.Join(dst, "old", name))
	}
}

// The mark of an unfinished destination is not part of the mode of its backup directory.
func TestBackupOfAnUnfinishedDestination(t *testing.T) {
	t.Parallel()
	linuxOnly(t, "the mark of an unfinished directory")
	dir := treetest.MemoryDir(t)
	src, dst := filepath.Join(dir, "src"), filepath.Join(dir, "dst")
	write(t, src, "a", []byte("new"), since.Add(time.Hour))
	write(t, dst, "a", []byte("old"), since)
	require.NoError(t, os.Chmod(dst, 0o700|os.ModeSticky))
	require.Empty(t, runReported(t, backedUpTo("old", src, dst)).bad())
	require.Equal(t, map[string]string{"a": "old"}, contents(t, filepath.Join(dst, "old")))
	info, err := os.Stat(filepath.Join(dst, "old"))
	require.NoError(t, err)
	require.Equal(t, 0o700|os.ModeDir, info.Mode())
}
