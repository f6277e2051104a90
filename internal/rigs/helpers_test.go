//go:build linux

package rigs

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// repository is the path of the source tree, relative to this package.
var repository = filepath.Join("..", "..")

// scratch is the directory of the program while the tests run.
var scratch string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		var err error
		if scratch, err = os.MkdirTemp("", "sealift-rigs"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(scratch) //nolint:errcheck // only what was built
		return m.Run()
	}())
}

var build = sync.OnceValues(func() (string, error) {
	cmd := exec.Command("go", "build", "-buildvcs=false", "-trimpath", "-o", filepath.Join(scratch, "sealift"), "./cmd/sealift") //nolint:gosec // ours
	cmd.Dir = repository
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return filepath.Join(scratch, "sealift"), nil
})

// program returns the path of the program, which is built once for all tests. Like make
// build, it leaves out the race detector, which is slow, and the code of tests.
func program(t *testing.T) string {
	t.Helper()
	path, err := build()
	require.NoError(t, err)
	return path
}

// output runs a program, which must succeed, and returns its output.
func output(t *testing.T, program string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	require.NoError(t, err, "%s %s: %s", program, strings.Join(args, " "), complaints.Bytes())
	return string(out)
}
