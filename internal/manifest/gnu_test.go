package manifest

import (
	"bytes"
	"crypto/sha256"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/hash"
)

// gnuSum returns the path of GNU sha256sum 9 or later, which has the same format.
func gnuSum(t *testing.T) string {
	t.Helper()
	tool, err := exec.LookPath("sha256sum")
	if err != nil {
		t.Skip("no sha256sum:", err)
	}
	out, err := exec.Command(tool, "--version").Output()
	first, _, _ := strings.Cut(string(out), "\n")
	fields := strings.Fields(first)
	if err != nil || len(fields) == 0 || !strings.Contains(first, "GNU coreutils") {
		t.Skipf("sha256sum is not GNU's: %q, %v", first, err)
	}
	if major, _, _ := strings.Cut(fields[len(fields)-1], "."); len(major) < 2 && major < "9" {
		t.Skipf("%s does not escape carriage returns", first)
	}
	return tool
}

// hardTree creates files with difficult names in a directory. It returns the directory and
// the names that the file system accepted.
func hardTree(t *testing.T) (dir string, names []string) {
	t.Helper()
	dir = t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "a"), 0o777))
	for _, tt := range hardNames {
		if err := os.WriteFile(filepath.Join(dir, tt.path), []byte(tt.name), 0o666); err != nil {
			t.Logf("left out %q: %v", tt.path, err)
			continue
		}
		names = append(names, tt.path)
	}
	require.Greater(t, len(names), len(hardNames)/2)
	return dir, names
}

func sumOf(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	sum := sha256.Sum256(data)
	return sum[:]
}

func TestLinesEqualThoseOfGNU(t *testing.T) {
	tool := gnuSum(t)
	dir, names := hardTree(t)
	for _, mode := range []string{"--text", "--binary", "--tag"} {
		cmd := exec.Command(tool, append([]string{mode, "--"}, names...)...)
		cmd.Dir = dir
		out, err := cmd.Output()
		require.NoError(t, err)

		var ours []byte
		r := NewReader(bytes.NewReader(out), GNU, "")
		for _, name := range names {
			sum := sumOf(t, filepath.Join(dir, name))
			ours = appendLine(ours, sum, name)
			line, err := r.Next()
			require.NoError(t, err, "%s %q", mode, name)
			require.Equal(t, name, line.Path, mode)
			require.Equal(t, sum, line.Digest, "%s %q", mode, name)
		}
		if mode == "--text" {
			require.Equal(t, string(out), string(ours))
		}
	}
}

func TestGNUChecksWhatBuilderWrites(t *testing.T) {
	tool := gnuSum(t)
	dir, names := hardTree(t)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "-"), []byte("not standard input"), 0o666))
	names = append(names, "-")
	b := newBuilder(hash.SHA256, noSpill, 0)
	for _, name := range names {
		require.NoError(t, putIn(b, name, sumOf(t, filepath.Join(dir, name))))
	}
	var manifest bytes.Buffer
	n, err := b.Write(&manifest, Document{})
	require.NoError(t, err)
	require.Equal(t, Counts{Lines: len(names)}, n)

	check := func() (string, error) {
		list := filepath.Join(t.TempDir(), "SHA256SUMS")
		require.NoError(t, os.WriteFile(list, manifest.Bytes(), 0o666))
		cmd := exec.Command(tool, "-c", "--strict", "--quiet", list)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	out, err := check()
	require.NoError(t, err, out)
	require.Empty(t, out)

	require.NoError(t, os.WriteFile(filepath.Join(dir, "-"), []byte("changed"), 0o666))
	out, err = check()
	require.Error(t, err)
	require.Contains(t, out, "./-: FAILED")
}

func TestOpenSSLLines(t *testing.T) {
	tool, err := exec.LookPath("openssl")
	if err != nil {
		t.Skip("no openssl:", err)
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "a (1) = b")
	require.NoError(t, os.WriteFile(path, []byte("x"), 0o666))
	for _, algorithm := range []string{"sha256", "sha512", "md5"} {
		cmd := exec.Command(tool, "dgst", "-"+algorithm, "a (1) = b")
		cmd.Dir = dir
		out, err := cmd.Output()
		if err != nil {
			t.Logf("left out %s: %v", algorithm, err)
			continue
		}
		line, err := parseLine(bytes.TrimSuffix(out, []byte("\n")))
		require.NoError(t, err, "%q", out)
		require.Equal(t, "a (1) = b", line.Path)
		require.Contains(t, hash.Algorithm(algorithm).Tags(), line.Algorithm)
		if algorithm == "sha256" {
			require.Equal(t, sumOf(t, path), line.Digest)
		}
	}
}
