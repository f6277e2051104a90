//go:build linux

package rigs

import (
	"archive/zip"
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// modulePath is the path that users install the program from.
const modulePath = "github.com/seed65876f4f/sealift"

// TestGoInstallsThePublishedModule publishes the source tree as a version of the module and
// installs that, as the README describes. Other modules come from the module cache, and
// none from the network.
func TestGoInstallsThePublishedModule(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("builds the program")
	}
	cache := strings.TrimSpace(output(t, "go", "env", "GOMODCACHE"))
	proxy := publish(t, "v1.2.3")
	bin := t.TempDir()

	cmd := exec.CommandContext(t.Context(), "go", "install", "-trimpath", modulePath+"/cmd/sealift@latest") //nolint:gosec // ours
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOBIN="+bin, "GOFLAGS=-modcacherw", "GOMODCACHE="+t.TempDir(),
		"GOPROXY=file://"+proxy+",file://"+filepath.Join(cache, "cache", "download"), "GOSUMDB=off", "GOWORK=off")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)

	first, _, _ := strings.Cut(output(t, filepath.Join(bin, "sealift"), "version"), "\n")
	assert.Equal(t, "sealift v1.2.3", first)
}

// publish makes a module proxy, as files, from the tracked files of the main module. The go
// command refuses names that some systems cannot hold, so there must be none.
func publish(t *testing.T, version string) string {
	t.Helper()
	tracked, err := exec.CommandContext(t.Context(), "git", "-C", repository, "ls-files", "-z").Output() //nolint:gosec // ours
	if err != nil {
		t.Skipf("not a git checkout: %v", err)
	}
	names := strings.Split(strings.TrimSuffix(string(tracked), "\x00"), "\x00")
	nested := map[string]bool{}
	for _, name := range names {
		if dir, file := path.Split(name); file == "go.mod" && dir != "" {
			nested[dir] = true
		}
	}
	var packed bytes.Buffer
	w := zip.NewWriter(&packed)
	for _, name := range names {
		if inAny(nested, name) {
			continue
		}
		data, err := os.ReadFile(filepath.Join(repository, name))
		if os.IsNotExist(err) {
			continue // removed, and not yet committed
		}
		require.NoError(t, err)
		f, err := w.Create(modulePath + "@" + version + "/" + name)
		require.NoError(t, err)
		_, err = f.Write(data)
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())

	mod, err := os.ReadFile(filepath.Join(repository, "go.mod"))
	require.NoError(t, err)
	proxy := t.TempDir()
	dir := filepath.Join(proxy, filepath.FromSlash(modulePath), "@v")
	require.NoError(t, os.MkdirAll(dir, 0o700))
	for name, data := range map[string][]byte{
		"list":            []byte(version + "\n"),
		version + ".info": []byte(`{"Version":"` + version + `"}`),
		version + ".mod":  mod,
		version + ".zip":  packed.Bytes(),
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), data, 0o600))
	}
	return proxy
}

// inAny reports whether a name is below one of the directories, which end with a slash.
func inAny(dirs map[string]bool, name string) bool {
	for i, c := range name {
		if c == '/' && dirs[name[:i+1]] {
			return true
		}
	}
	return false
}

// TestWorkflowsRunOnlyExistingCommands checks that each command of the workflows can run here: go,
// this repository's scripts, and existing targets of make. Actions are pinned by commit.
func TestWorkflowsRunOnlyExistingCommands(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(repository, ".github", "workflows")
	makefile, err := os.ReadFile(filepath.Join(repository, "Makefile"))
	require.NoError(t, err)
	run := regexp.MustCompile(`(?m)^ +(?:- )?run: *(.*)$`)
	uses := regexp.MustCompile(`(?m)^ +(?:- )?uses: *(.*)$`)
	pinned := regexp.MustCompile(`^[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$`)
	commands := 0
	err = filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		for _, m := range uses.FindAllStringSubmatch(string(text), -1) {
			assert.Regexp(t, pinned, m[1], "%s", name)
		}
		for _, m := range run.FindAllStringSubmatch(string(text), -1) {
			commands++
			words := strings.Fields(m[1])
			for len(words) > 1 && (words[0] == "sudo" || words[0] == "env" || strings.Contains(words[0], "=")) {
				words = words[1:]
			}
			if !assert.NotEmpty(t, words, "%s: a command of several lines", name) {
				continue
			}
			switch words[0] {
			case "go":
			case "make":
				assert.True(t, bytes.Contains(makefile, []byte("\n"+words[1]+":")), "%s: no target: %s", name, m[1])
			default:
				assert.FileExists(t, filepath.Join(repository, words[0]), "%s: %s", name, m[1])
			}
		}
		return nil
	})
	require.NoError(t, err)
	assert.NotZero(t, commands)
}
