package engine

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/filter"
	"github.com/seed65876f4f/sealift/internal/resume"
	"github.com/seed65876f4f/sealift/internal/treetest"
)

// threeTrees returns the path of a tree with the files x and y, and two paths that do not exist yet:
// the first copy, and the copy of that.
func threeTrees(t *testing.T) (a, b, c string) {
	t.Helper()
	dir := treetest.MemoryDir(t)
	a, b, c = filepath.Join(dir, "a"), filepath.Join(dir, "b"), filepath.Join(dir, "c")
	write(t, a, "x", []byte("x"), since)
	write(t, a, "y", []byte("y"), since)
	return a, b, c
}

// The source was corrupt when it was copied, and is right again. The manifest of the next copy
// replaces the copy of the source's, which it equals.
func TestARepairedSourceGetsItsManifest(t *testing.T) {
	t.Parallel()
	a, b, c := threeTrees(t)
	mustRun(t, options(a, b))
	spoil(t, filepath.Join(b, "x"))
	require.Len(t, runReported(t, options(b, c)).bad(), 1)
	spoil(t, filepath.Join(b, "x")) // the bit back
	for range 3 {
		out := runReported(t, options(b, c))
		require.Empty(t, out.bad())
		require.Equal(t, []string{"x", "y"}, listed(t, c))
		require.NoDirExists(t, filepath.Join(c, resume.JournalName("")))
	}
}

// A first run copies a part of a source, and a second run copies all of it. The manifest of the
// second run replaces the copy of the source's, which it equals.
func TestAPartialCopyThenTheWhole(t *testing.T) {
	t.Parallel()
	a, b, c := threeTrees(t)
	mustRun(t, options(a, b))
	o := options(b, c)
	o.Filter = &filter.List{}
	require.NoError(t, o.Filter.Exclude("x"))
	mustRun(t, o)
	mustRun(t, options(b, c))
}

// A source has a signed SHA256SUMS, a sealift.sha256 and one corrupt file. The copy has a
// manifest of all other files.
func TestARottenCopyOfASignedMirror(t *testing.T) {
	t.Parallel()
	a, b, c := threeTrees(t)
	write(t, a, "SHA256SUMS", []byte("-----BEGIN PGP SIGNED MESSAGE-----\n"+sha("x")+"  x\n"), since)
	require.Empty(t, runReported(t, options(a, b)).mismatches())
	require.FileExists(t, filepath.Join(b, "sealift.sha256"))
	spoil(t, filepath.Join(b, "y"))
	out := runReported(t, options(b, c))
	require.Len(t, out.mismatches(), 1, "%s", out)
	requireBroken(t, out.mismatches()[0], "y")
	require.NotEmpty(t, out.summary.Targets[0].Manifests)
	require.NoDirExists(t, filepath.Join(c, resume.JournalName("")))
}

// A stale manifest at one destination does not keep a file from the other.
func TestAStaleLineOfOneDestinationKeepsTheFileFromTheOther(t *testing.T) {
	t.Parallel()
	for _, order := range [][]int{{0, 1}, {1, 0}} {
		for _, links := range []bool{false, true} {
			dir := treetest.MemoryDir(t)
			src := filepath.Join(dir, "src")
			both := []string{filepath.Join(dir, "old"), filepath.Join(dir, "new")}
			write(t, src, "a", []byte("old"), since)
			write(t, src, "b", []byte("b"), since)
			if links {
				require.NoError(t, os.Link(filepath.Join(src, "a"), filepath.Join(src, "a2")))
			}
			mustRun(t, options(src, both[0]))
			touchManifests(t, filepath.Join(both[0], "SHA256SUMS"))
			write(t, src, "a", []byte("new"), since) // same size and time
			lines := sha("new") + "  a\n" + sha("b") + "  b\n"
			if links {
				lines += sha("new") + "  a2\n"
			}
			write(t, src, "SHA256SUMS", []byte(lines), since) // which the source matches
			o := options(src, both[order[0]], both[order[1]])
			o.Workers = 1
			out := runReported(t, o)
			content, err := os.ReadFile(filepath.Join(both[1], "a"))
			require.NoError(t, err, "the source does match its manifest, but:\n%s", out)
			require.Equal(t, "new", string(content))
		}
	}
}

// A listed path below a regular file, or one that is impossible, is reported as absent.
func TestLinesOfImpossiblePathsAreAbsent(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"file/below", "d/" + strings.Repeat("n", 256)} {
		for _, mode := range []SourceManifestMode{SourceManifestCheck, SourceManifestPresent} {
			src, dst := sourceWithManifest(t, map[string][]byte{"file": []byte("x"), "d/y": nil}, "SHA256SUMS", sha("x")+"  "+path+"\n")
			o := options(src, dst)
			o.SourceManifest = mode
			out := runReported(t, o)
			if len(out.bad()) != 1 {
				t.Errorf("%.20s: want one event, have %d", path, len(out.bad()))
			}
		}
	}
}

// A symbolic link loop with the name of the manifest causes no failure.
func TestALoopOfTheManifestsName(t *testing.T) {
	t.Parallel()
	src, dst := sourceWithManifest(t, map[string][]byte{"a": []byte("x")}, "other", "")
	require.NoError(t, os.Symlink("SHA256SUMS", filepath.Join(src, "SHA256SUMS")))
	require.Empty(t, runReported(t, options(src, dst)).mismatches())
}
