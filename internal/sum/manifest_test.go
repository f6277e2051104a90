//go:build unix

package sum_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/sum"
)

// The file that receives the lines is not listed, whether it is new or old. It is complete
// or absent.
func TestManifest(t *testing.T) {
	names := hardTree(t)
	for round := range 2 {
		lines, reported, s := run(t, &sum.Options{Paths: []string{"."}, Manifest: "sub/SHA256SUMS"})
		require.Empty(t, lines)
		require.Empty(t, reported)
		content, err := os.ReadFile("sub/SHA256SUMS")
		require.NoError(t, err)
		require.Equal(t, len(names), bytes.Count(content, []byte("\n")), "round %d", round)
		require.NotContains(t, string(content), "SHA256SUMS")
		require.Equal(t, len(names), s.Lines)
		require.Equal(t, "sub/SHA256SUMS", s.Manifest)
		if _, err := exec.LookPath("sha256sum"); err == nil {
			cmd := exec.Command("sha256sum", "-c", "--strict", "--quiet", "sub/SHA256SUMS")
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, "%s", out)
		}
	}
	left, err := filepath.Glob("sub/.*")
	require.NoError(t, err)
	require.Empty(t, left)
	// Shell redirection: the file exists before sum starts.
	f, err := os.Create("out.txt")
	require.NoError(t, err)
	defer f.Close()
	_, err = sum.Run(t.Context(), &sum.Options{Paths: []string{"."}, Hashes: []hash.Algorithm{hash.SHA256}, Out: f, OutFile: f}, &counters.Set{})
	require.NoError(t, err)
	content, err := os.ReadFile("out.txt")
	require.NoError(t, err)
	require.NotContains(t, string(content), "out.txt")
	require.Contains(t, string(content), "sub/SHA256SUMS")
}

func TestManifestReplacesOnlyAManifest(t *testing.T) {
	hardTree(t)
	before, err := os.ReadFile("big")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile("notes", []byte("# not a line\n\n"), 0o644))
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	defer w.Close()
	for name, why := range map[string]string{
		"big": "it is not a manifest that Sealift wrote", "notes": "it is not a manifest that Sealift wrote", "sub": "it is a directory",
		"nothing/there": "no such file", fmt.Sprintf("/dev/fd/%d", w.Fd()): "it is a fifo", os.DevNull: "it is a character device",
	} {
		_, err := sum.Run(t.Context(), &sum.Options{Paths: []string{"."}, Hashes: []hash.Algorithm{hash.SHA256}, Manifest: name}, &counters.Set{})
		_, ok := errors.AsType[*failure.RefusedError](err)
		require.True(t, ok, "%s: %v", name, err)
		require.ErrorContains(t, err, why, name)
	}
	after, err := os.ReadFile("big")
	require.NoError(t, err)
	require.Equal(t, before, after)
}

// A manifest is complete or not written, and the existing one stays.
func TestIncompleteManifestIsNotWritten(t *testing.T) {
	hardTree(t)
	manifest := func(paths ...string) error {
		_, err := sum.Run(t.Context(), &sum.Options{Paths: paths, Hashes: []hash.Algorithm{hash.SHA256}, Manifest: "SUMS"}, &counters.Set{})
		return err
	}
	for _, before := range []string{"", strings.Repeat("0", 64) + "  old\n"} {
		if before != "" {
			require.NoError(t, os.WriteFile("SUMS", []byte(before), 0o644))
		}
		for _, c := range []struct {
			paths []string
			why   string
		}{
			{[]string{"a", "missing", "gone"}, "manifest 'SUMS': it was not written, since 2 files could not be hashed"},
			{[]string{"missing"}, "manifest 'SUMS': it was not written, since 1 file could not be hashed"},
			{[]string{"nothing in it"}, "manifest 'SUMS': it was not written, since there is nothing to list"},
		} {
			require.EqualError(t, manifest(c.paths...), c.why)
			after, err := os.ReadFile("SUMS")
			require.Equal(t, before == "", errors.Is(err, fs.ErrNotExist))
			require.Equal(t, before, string(after))
		}
	}
	require.NoError(t, manifest("a"))
}

// A run adds its lines to those of earlier ones, for any spelling of the names. Lines for a
// directory are relative to it, and the file "-" in it is not standard input.
func TestManifestIsMerged(t *testing.T) {
	names := hardTree(t)
	for _, paths := range [][]string{{"./a"}, {"-", "./-"}, {"sub", "a"}} {
		run(t, &sum.Options{Paths: paths, Manifest: "named", Stdin: strings.NewReader("input")})
	}
	content, err := os.ReadFile("named")
	require.NoError(t, err)
	var listed []string
	for line := range strings.Lines(string(content)) {
		listed = append(listed, strings.TrimSpace(line[66:]))
	}
	require.Equal(t, []string{"./-", "./a", "a", "sub/inner"}, listed, "but not what came from standard input")

	_, _, s := run(t, &sum.Options{Paths: []string{"."}, Manifest: "sub/SUMS"})
	require.Zero(t, s.Dropped)
	require.NoError(t, os.Remove("a.b"))
	require.NoError(t, os.Remove("named"))
	_, _, s = run(t, &sum.Options{Paths: []string{"."}, Manifest: "sub/SUMS"})
	require.Equal(t, []int{len(names) - 1, 2}, []int{s.Lines, s.Dropped})
}

func TestManifestKeepsItsMode(t *testing.T) {
	hardTree(t)
	for _, mode := range []os.FileMode{0o640, 0o666} {
		require.NoError(t, os.WriteFile("SUMS", nil, 0o600))
		require.NoError(t, os.Chmod("SUMS", mode))
		run(t, &sum.Options{Paths: []string{"."}, Manifest: "SUMS"})
		info, err := os.Stat("SUMS")
		require.NoError(t, err)
		require.Equal(t, mode, info.Mode().Perm())
		require.NotZero(t, info.Size())
	}
}

// Only the file at the manifest's path is the manifest. A hard link of the old one is an
// ordinary file.
func TestHardLinkOfTheOldManifestIsListed(t *testing.T) {
	hardTree(t)
	for _, paths := range [][]string{{"."}, {"sub", "SUMS"}, {"sub", "./sub/../SUMS"}} {
		require.NoError(t, os.WriteFile("SUMS", []byte(strings.Repeat("0", 64)+"  old\n"), 0o644))
		_ = os.Remove("sub/kept")
		require.NoError(t, os.Link("SUMS", "sub/kept"))
		run(t, &sum.Options{Paths: paths, Manifest: "SUMS"})
		content, err := os.ReadFile("SUMS")
		require.NoError(t, err)
		require.Contains(t, string(content), "sub/kept\n")
		require.NotContains(t, string(content), "SUMS")
	}
}

// A run without Options.Report counts its warnings as well: a history cannot list a symbolic link.
func TestWarningsCountWithoutAReport(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, os.WriteFile("a", []byte("a"), 0o600))
	require.NoError(t, os.Symlink("a", "link"))
	o := &sum.Options{Paths: []string{"."}, MHL: &sum.MHL{Hashes: []hash.Algorithm{hash.XXH64}}}
	s, err := sum.Run(t.Context(), o, &counters.Set{})
	require.NoError(t, err)
	require.EqualValues(t, 1, s.Warnings)
	require.EqualValues(t, 1, s.Files)
}
