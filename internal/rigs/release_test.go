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
	"go.yaml.in/yaml/v3"
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

// TestSubjectsOfCommits makes commits with good and bad subjects, and lets scripts/subjects
// judge each.
func TestSubjectsOfCommits(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	script, err := filepath.Abs(filepath.Join(repository, "scripts", "subjects"))
	require.NoError(t, err)
	git := func(args ...string) string {
		return output(t, "git", append([]string{"-C", dir, "-c", "user.name=A", "-c", "user.email=a@example.com"}, args...)...)
	}
	git("init", "--quiet")
	git("commit", "--quiet", "--allow-empty", "--message=not checked.")
	for subject, complaint := range map[string]string{
		"engine: keep holes at the end of a file":  "",
		"engine, fsys: keep holes":                 "",
		".ci/run: install what tests need":         "",
		"docs/adr: number decisions":               "",
		"Use one table of digests":                 "",
		"engine: " + strings.Repeat("ö", 64):       "",
		"engine: " + strings.Repeat("o", 65):       "73 characters",
		"engine: keep holes.":                      "period",
		"keep holes at the end of a file":          "area",
		"engine: fixes holes":                      `"fixes"`,
		"engine: Added a test":                     `"Added"`,
		"Removing what is not used":                `"Removing"`,
		"fixup! engine: keep holes":                "area",
		"test: tests of holes":                     `"tests"`,
		"engine: test holes at the end of a file":  "",
		"$(touch evil) `touch evil` 'is no script": "area",
	} {
		git("commit", "--quiet", "--allow-empty", "--message="+subject)
		out, err := command(t, dir, script, "HEAD^..HEAD")
		assert.Equal(t, complaint == "", err == nil, "%s: %v, %s", subject, err, out)
		assert.Contains(t, out, complaint, subject)
	}
	assert.NoFileExists(t, filepath.Join(dir, "evil"))
}

// TestFormsOfTheRepository checks what GitHub would report only after a push: the fields of
// the forms for issues, and that updates of modules cover each module.
func TestFormsOfTheRepository(t *testing.T) {
	t.Parallel()
	read := func(name string, into any) {
		data, err := os.ReadFile(filepath.Join(repository, name))
		require.NoError(t, err)
		d := yaml.NewDecoder(bytes.NewReader(data))
		d.KnownFields(true)
		require.NoError(t, d.Decode(into), name)
	}
	for _, name := range []string{"bug", "feature"} {
		var form struct {
			Name, Description string
			Labels            []string
			Body              []struct {
				Type, ID   string
				Attributes struct {
					Label, Description, Placeholder, Render string
					Options                                 []struct{ Label string }
				}
				Validations struct{ Required bool }
			}
		}
		read(".github/ISSUE_TEMPLATE/"+name+".yml", &form)
		assert.NotEmpty(t, form.Name, name)
		assert.NotEmpty(t, form.Description, name)
		ids := map[string]bool{}
		for _, field := range form.Body {
			assert.Contains(t, []string{"checkboxes", "input", "textarea"}, field.Type, name)
			assert.Equal(t, field.Type == "checkboxes", len(field.Attributes.Options) > 0, "%s: %s", name, field.ID)
			assert.Regexp(t, `^[a-z]+$`, field.ID, name)
			assert.NotEmpty(t, field.Attributes.Label, "%s: %s", name, field.ID)
			assert.False(t, ids[field.ID], "%s: two fields %s", name, field.ID)
			ids[field.ID] = true
		}
		assert.NotEmpty(t, ids, name)
	}
	var config struct {
		Blank    *bool                               `yaml:"blank_issues_enabled"`
		Contacts []struct{ Name, URL, About string } `yaml:"contact_links"`
	}
	read(".github/ISSUE_TEMPLATE/config.yml", &config)
	assert.NotNil(t, config.Blank)
	for _, c := range config.Contacts {
		assert.NotEmpty(t, c.Name)
		assert.NotEmpty(t, c.About)
		assert.True(t, strings.HasPrefix(c.URL, "https://"+modulePath+"/"), c.URL)
	}

	var updates struct {
		Version int
		Updates []struct {
			Ecosystem   string `yaml:"package-ecosystem"`
			Directory   string
			Directories []string
			Schedule    struct{ Interval string }
			Groups      map[string]struct{ Patterns []string }
			Message     struct{ Prefix string } `yaml:"commit-message"`
		}
	}
	read(".github/dependabot.yml", &updates)
	var covered, modules []string
	for _, u := range updates.Updates {
		if u.Ecosystem != "gomod" {
			assert.Equal(t, "github-actions", u.Ecosystem)
			assert.Equal(t, "/", u.Directory)
			continue
		}
		for _, dir := range u.Directories {
			found, err := filepath.Glob(filepath.Join(repository, dir, "go.mod"))
			require.NoError(t, err)
			covered = append(covered, found...)
		}
	}
	err := filepath.WalkDir(repository, func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.Name() == "go.mod" {
			modules = append(modules, name)
		}
		return err
	})
	require.NoError(t, err)
	assert.ElementsMatch(t, modules, covered)
}
