//go:build linux

package rigs

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// The types of the Kubernetes API decode the Jobs that Sealift prints, strictly. The long
// form also sets defaults and validates as an API server does, which takes a minute to
// compile.
func TestKubernetesAcceptsTheJobs(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("compiles the API of Kubernetes")
	}
	module, packages := filepath.Join(repository, "tools", "kubernetes"), "./decode"
	if long() {
		packages = "./..."
	}
	download := exec.CommandContext(t.Context(), "go", "list", "-deps", "-test", packages) //nolint:gosec // one of two
	download.Dir = module
	if out, err := download.CombinedOutput(); err != nil {
		if strings.Contains(string(out), "dial tcp") || strings.Contains(string(out), "GOPROXY=off") {
			t.Skipf("the API of Kubernetes cannot be downloaded: %s", out)
		}
		t.Fatalf("%v: %s", err, out)
	}
	cmd := exec.CommandContext(t.Context(), "go", "test", packages) //nolint:gosec // one of two
	cmd.Dir, cmd.Env = module, append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	assert.NoError(t, err, "%s", out)
}
