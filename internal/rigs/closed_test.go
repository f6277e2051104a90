//go:build linux && (amd64 || arm64)

package rigs

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A closed standard output is an error of every command that writes there. A /dev/null that
// is open for reading and writing, as Python's subprocess passes it, is not an error.
func TestClosedStandardOutput(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	tree := filepath.Join(dir, "tree")
	require.NoError(t, os.Mkdir(tree, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(tree, "f"), []byte("hello\n"), 0o600))
	run := func(command, redirection string) (code int, stderr string) {
		_ = os.RemoveAll(filepath.Join(dir, "g"))
		cmd := exec.Command("sh", "-c", fmt.Sprintf("exec %s %s %s 2>stderr", program(t), command, redirection)) //nolint:gosec // ours
		cmd.Dir = dir
		err := cmd.Run()
		if failed, ok := errors.AsType[*exec.ExitError](err); ok {
			code, err = failed.ExitCode(), nil
		}
		require.NoError(t, err)
		text, err := os.ReadFile(filepath.Join(dir, "stderr"))
		require.NoError(t, err)
		return code, string(text)
	}
	code, stderr := run("sum --manifest tree/SHA256SUMS tree", "")
	require.Zero(t, code, stderr)
	for _, command := range []string{
		"copy tree/f g", "copy --json tree/f g", "verify tree", "sum tree", "du tree", "stream -q tree/f", "stream -q tree/f -",
		"version", "completion bash", "--help", "copy --help",
	} {
		for _, open := range []string{">/dev/null", "1<>/dev/null", "<&- >/dev/null"} {
			code, stderr := run(command, open)
			require.Zero(t, code, "%s %s: %s", command, open, stderr)
		}
		code, stderr := run(command, ">&-")
		require.Equal(t, 1, code, command)
		require.Contains(t, stderr, "bad file descriptor", command)
	}
	for _, silent := range []string{"copy -q tree/f g", "stream -q tree/f g"} {
		code, stderr := run(silent, ">&-")
		require.Zero(t, code, "%s: %s", silent, stderr)
	}
}

// Builds for users have the entry that the test above needs.
func TestBuildsHaveTheEntry(t *testing.T) {
	for _, name := range []string{"Makefile", ".goreleaser.yaml"} {
		content, err := os.ReadFile(filepath.Join(repository, name))
		require.NoError(t, err)
		require.Contains(t, string(content), "-E sealift_entry", name)
	}
}
