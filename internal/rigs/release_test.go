//go:build linux

package rigs

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// modulePath is the path that users install the program from.
const modulePath = "github.com/seed65876f4f/sealift"

// TestGoInstallsThePublishedModule tags the source tree in a repository of its own and installs
// that version as the README describes. The go command makes the archive of the module as a
// module proxy does. Other modules come from the module cache, and none from the network.
// The installed program must equal the one from the working tree, apart from its version.
func TestGoInstallsThePublishedModule(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("builds the program")
	}
	const version = "v1.2.3"
	cache := strings.TrimSpace(output(t, "go", "env", "GOMODCACHE"))
	dir := t.TempDir()
	output(t, "git", "init", "--quiet", "--bare", dir+"/published")
	git := func(args ...string) {
		output(t, "git", append([]string{
			"--git-dir=" + dir + "/published", "--work-tree=" + repository, "-c", "core.bare=false", "-c", "user.name=A", "-c", "user.email=a@example.com",
		}, args...)...)
	}
	git("add", "--all")
	git("commit", "--quiet", "--message=Publish")
	git("tag", version)

	cmd := exec.CommandContext(t.Context(), "go", "install", "-trimpath", modulePath+"/cmd/sealift@latest") //nolint:gosec // ours
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOBIN="+dir, "GOFLAGS=-modcacherw", "GOMODCACHE="+t.TempDir(),
		"GOPROXY=file://"+filepath.Join(cache, "cache", "download"), "GONOPROXY="+modulePath, "GOSUMDB=off", "GOWORK=off",
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=url.file://"+dir+"/published.insteadOf", "GIT_CONFIG_VALUE_0=https://"+modulePath)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	installed := filepath.Join(dir, "sealift")

	type built struct{ Version, Go, Platform string }
	versionOf := func(program string) (v built) {
		require.NoError(t, json.Unmarshal([]byte(output(t, program, "version", "--json")), &v))
		return v
	}
	have, want := versionOf(installed), versionOf(program(t))
	assert.Equal(t, version, have.Version)
	want.Version = version
	assert.Equal(t, want, have)
	for _, args := range []string{"copy --help", "completion bash", "sum " + filepath.Join(repository, "testdata", "sample")} {
		words := strings.Fields(args)
		assert.Equal(t, output(t, program(t), words...), output(t, installed, words...), args)
	}
	output(t, installed, "copy", "--quiet", filepath.Join(repository, "testdata", "sample"), dir+"/copy")
	output(t, program(t), "compare", filepath.Join(repository, "testdata", "sample"), dir+"/copy")
	output(t, program(t), "verify", dir+"/copy")
}

// fakeCosign accepts a bundle that has the arguments which verify-blob must get, and the digest
// of the signed file. Only GitHub can make real signatures of a release.
const fakeCosign = `#!/bin/sh
[ "$1 $2 $4 $6" = "verify-blob --bundle --certificate-oidc-issuer --certificate-identity" ] && [ $# = 8 ] || exit 64
printf '%s %s %s\n' "$5" "$7" "$(sha256sum <"$8")" | cmp -s - "$3"
`

// TestTheActionInstallsARelease runs the commands of action.yml on a local directory of release
// files, with nothing but their inputs in the environment.
func TestTheActionInstallsARelease(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs(repository)
	require.NoError(t, err)
	var action struct {
		Inputs map[string]struct{ Required bool }
		Runs   struct {
			Using string
			Steps []struct {
				Uses, Shell, Run string
				Env              map[string]string
			}
		}
	}
	data, err := os.ReadFile(filepath.Join(root, "action.yml"))
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(data, &action))
	assert.Equal(t, "composite", action.Runs.Using)
	assert.True(t, action.Inputs["version"].Required)
	require.Len(t, action.Runs.Steps, 2)
	step := action.Runs.Steps[1]
	assert.Regexp(t, `^sigstore/cosign-installer@[0-9a-f]{40}$`, action.Runs.Steps[0].Uses)
	assert.NotContains(t, step.Run, "${{", "an expression in a script lets an input be code")
	assert.Equal(t, map[string]string{"VERSION": "${{ inputs.version }}"}, step.Env)

	processor := map[string]string{"arm": "armv7"}[runtime.GOARCH]
	if processor == "" {
		processor = runtime.GOARCH
	}
	const version = "v1.2.3-rc.1"
	archive := "sealift_1.2.3-rc.1_linux_" + processor + ".tar.gz"
	sums, bundle := "SHA256SUMS", "SHA256SUMS.sigstore.json"
	signedFor := func(t *testing.T, dir, tag string) {
		list, err := command(t, dir, "sh", "-c", "sha256sum <SHA256SUMS")
		require.NoError(t, err, list)
		text := "https://token.actions.githubusercontent.com https://" + modulePath + "/.github/workflows/release.yml@refs/tags/" + tag + " " + list
		require.NoError(t, os.WriteFile(filepath.Join(dir, bundle), []byte(text), 0o600))
	}
	for name, c := range map[string]struct {
		version, complaint string
		change             func(t *testing.T, dir string) // after signing
	}{
		"a release": {},
		"a changed archive": {complaint: "does not match SHA256SUMS", change: func(t *testing.T, dir string) {
			f, err := os.OpenFile(filepath.Join(dir, archive), os.O_APPEND|os.O_WRONLY, 0)
			require.NoError(t, err)
			_, err = f.WriteString("x")
			require.NoError(t, err)
			require.NoError(t, f.Close())
		}},
		"a changed list": {complaint: "the signature of SHA256SUMS is not that of the release", change: func(t *testing.T, dir string) {
			out, err := command(t, dir, "sh", "-c", "sha256sum "+archive+" other >SHA256SUMS || true")
			require.NoError(t, err, out)
			require.NoError(t, os.WriteFile(filepath.Join(dir, sums), []byte(out), 0o600))
		}},
		"a signature of another tag": {complaint: "the signature of SHA256SUMS is not that of the release", change: func(t *testing.T, dir string) {
			signedFor(t, dir, "v1.2.2")
		}},
		"an archive that is not listed": {complaint: "does not list", change: func(t *testing.T, dir string) {
			require.NoError(t, os.WriteFile(filepath.Join(dir, sums), nil, 0o600))
			signedFor(t, dir, version)
		}},
		"no signature": {complaint: bundle + " of " + version + " cannot be downloaded", change: func(t *testing.T, dir string) {
			require.NoError(t, os.Remove(filepath.Join(dir, bundle)))
		}},
		"a version that does not exist": {version: "v9.9.9", complaint: "cannot be downloaded"},
		"no version":                    {version: "main", complaint: "must be the tag"},
		"a command":                     {version: "v1.2.3-$(touch evil)", complaint: "must be the tag"},
		"a second line":                 {version: "v1.2.3\nPATH=evil", complaint: "must be the tag"},
		"a path":                        {version: "v1.2.3-../../v1.2.3-rc.1", complaint: "must be the tag"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			files := filepath.Join(dir, "releases", version)
			temporary := filepath.Join(dir, "with a space")
			require.NoError(t, os.MkdirAll(files, 0o700))
			require.NoError(t, os.MkdirAll(filepath.Join(dir, "bin"), 0o700))
			require.NoError(t, os.Mkdir(temporary, 0o700))
			require.NoError(t, os.WriteFile(filepath.Join(dir, "sealift"), []byte("#!/bin/sh\necho \"sealift $1\"\n"), 0o700)) //nolint:gosec // a program
			output(t, "tar", "-czf", filepath.Join(files, archive), "-C", dir, "sealift")
			list, err := command(t, files, "sha256sum", archive)
			require.NoError(t, err, list)
			require.NoError(t, os.WriteFile(filepath.Join(files, sums), []byte(list), 0o600))
			signedFor(t, files, version)
			require.NoError(t, os.WriteFile(filepath.Join(dir, "bin", "cosign"), []byte(fakeCosign), 0o700)) //nolint:gosec // a program
			if c.change != nil {
				c.change(t, files)
			}
			if c.version == "" {
				c.version = version
			}

			cmd := exec.CommandContext(t.Context(), "bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step.Run) //nolint:gosec // ours
			cmd.Dir = dir
			cmd.Env = []string{
				"PATH=" + filepath.Join(dir, "bin") + ":/usr/bin:/bin", "VERSION=" + c.version, "GITHUB_ACTION_PATH=" + root,
				"RUNNER_TEMP=" + temporary, "GITHUB_PATH=" + filepath.Join(dir, "paths"), "SEALIFT_RELEASES=file://" + filepath.Dir(files),
			}
			out, err := cmd.CombinedOutput()
			assert.NoFileExists(t, filepath.Join(dir, "evil"))
			if c.complaint != "" {
				require.Error(t, err, "%s", out)
				assert.Contains(t, string(out), c.complaint)
				assert.NoFileExists(t, filepath.Join(dir, "paths"))
				assert.NoDirExists(t, filepath.Join(temporary, "sealift"))
				return
			}
			require.NoError(t, err, "%s", out)
			paths, err := os.ReadFile(filepath.Join(dir, "paths"))
			require.NoError(t, err)
			assert.Equal(t, "sealift version\n", string(out))
			assert.Equal(t, "sealift x\n", output(t, filepath.Join(strings.TrimSuffix(string(paths), "\n"), "sealift"), "x"))
		})
	}
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
			if m[1] != "./" {
				assert.Regexp(t, pinned, m[1], "%s", name)
			}
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
			case "go", "apt-get", "sealift": // the last one is what the action has installed
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
