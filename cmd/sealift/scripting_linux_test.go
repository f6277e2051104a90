package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// block is the text between two fences of a page.
type block struct {
	language, text string
	line           int // of the fence
}

func blocksOf(t *testing.T, page string) (blocks []block) {
	t.Helper()
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	var open *block
	for i, line := range strings.Split(string(text), "\n") {
		fence, isFence := strings.CutPrefix(line, "```")
		switch {
		case isFence && open == nil:
			open = &block{language: fence, line: i + 1}
		case isFence:
			blocks, open = append(blocks, *open), nil
		case open != nil:
			open.text += line + "\n"
		}
	}
	require.Nil(t, open, "a block has no end")
	return blocks
}

// stage is the environment of the blocks. It has the directories of the page, the program
// under the name that it has there, and stand-ins for programs that a test cannot run.
type stage struct {
	dir, bin string
}

// go install has no network, and sleep returns at once. The program fails as often as the
// file "failures" says, and then works.
func newStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{dir: t.TempDir()}
	s.bin = filepath.Join(s.dir, "usr/local/bin")
	program, err := exec.LookPath("sealift")
	require.NoError(t, err)
	shell(t, s.dir, `mkdir -p usr/local/bin srv mnt/archive mnt/backup photos/sub dist
echo 1 >photos/a.jpg; echo 2 >"photos/sub/b c.jpg"; echo 3 >"$(printf 'photos/\377')"; cp -a photos srv/photos
echo program >dist/program; printf 'dist:\n\ttest -f dist/program\n.PHONY: dist\n' >Makefile`)
	for name, script := range map[string]string{
		"go":    `[ "$*" = "install github.com/seed65876f4f/sealift/cmd/sealift@latest" ]`,
		"sleep": `echo "$1" >>` + s.dir + `/slept`,
		"sealift": fmt.Sprintf(`left=$(cat %[1]s/failures 2>/dev/null || echo 0)
[ "$left" -gt 0 ] && echo $((left - 1)) >%[1]s/failures && exit 1
exec %[2]s "$@"`, s.dir, program),
	} {
		require.NoError(t, os.WriteFile(filepath.Join(s.bin, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755))
	}
	return s
}

// rooted moves the absolute paths of the page below the stage.
func (s *stage) rooted(text string) string {
	return regexp.MustCompile(`(^|[\s="])/(usr/local|srv|mnt|var)/`).ReplaceAllString(text, "${1}"+s.dir+"/$2/")
}

// run runs a program on the stage. Programs that are not in bin are found on the PATH.
func (s *stage) run(env []string, program string, args ...string) (code int, output string) {
	cmd := exec.Command(program, args...) //nolint:gosec // of the page
	cmd.Dir = s.dir
	cmd.Env = append([]string{"HOME=" + s.dir, "GORACE=atexit_sleep_ms=0", "PATH=" + s.bin + ":/usr/bin:/bin"}, env...)
	out, err := cmd.CombinedOutput()
	if err != nil && cmd.ProcessState == nil {
		return -1, err.Error()
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

func (s *stage) exists(name string) bool {
	_, err := os.Stat(filepath.Join(s.dir, name))
	return err == nil
}

// TestScriptingPage runs every example of docs/scripting.md, as far as a shell can.
func TestScriptingPage(t *testing.T) {
	for _, tool := range []string{"jq", "bash", "flock", "make"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not installed", tool)
		}
	}
	counts := map[string]int{}
	for _, b := range blocksOf(t, filepath.Join("..", "..", "docs", "scripting.md")) {
		title, _, _ := strings.Cut(strings.TrimPrefix(b.text, "# "), "\n")
		counts[b.language]++
		t.Run(fmt.Sprintf("line %d", b.line), func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			switch b.language {
			case "sh", "bash":
				testRecipe(t, s, b)
			case "yaml":
				if strings.HasPrefix(title, ".github/") {
					testWorkflow(t, s, b.text)
				} else {
					testPipeline(t, s, b.text)
				}
			case "crontab":
				testCrontab(t, s, b.text)
			case "ini":
				testUnit(t, s, filepath.Base(title), b.text)
			case "make":
				testMakefile(t, s, b.text)
			case "console": // the text that a terminal shows
			default:
				t.Errorf("no test runs blocks of %q", b.language)
			}
		})
	}
	assert.Equal(t, map[string]int{"sh": 9, "bash": 1, "yaml": 2, "crontab": 1, "ini": 2, "make": 1, "console": 2}, counts)
}

// testRecipe runs a recipe unchanged, and again with a conflict, a failure or a changed
// file that affects its result.
func testRecipe(t *testing.T, s *stage, b block) {
	recipe := func(want int) string {
		t.Helper()
		shell(t, s.dir, "rm -f progress slept")
		code, output := s.run(nil, b.language, "-c", b.text)
		assert.Equal(t, want, code, "%s\n%s", b.text, output)
		return output
	}
	holds := func(part string) bool { return strings.Contains(b.text, part) }
	if holds("sealift verify") {
		shell(t, s.dir, "sealift copy -q photos backup")
	}
	output := recipe(0)
	if !holds("--dry-run") {
		assert.True(t, s.exists("backup/SHA256SUMS"), b.text)
	}
	switch {
	case holds("4) echo"):
		assert.Equal(t, 1, strings.Count(output, "copied\n"), output)
		shell(t, s.dir, "echo newer >backup/a.jpg; touch -d 2030-01-01 backup/a.jpg")
		assert.Contains(t, recipe(0), "copied, except for conflicts")
		shell(t, s.dir, "rm -r photos")
		recipe(2)
	case holds("for delay"):
		shell(t, s.dir, "echo 2 >failures")
		recipe(0)
		slept, err := os.ReadFile(filepath.Join(s.dir, "slept"))
		assert.NoError(t, err)
		assert.Equal(t, "10\n60\n", string(slept))
		shell(t, s.dir, "echo 9 >failures")
		recipe(1)
	case holds("pipefail"):
		shell(t, s.dir, "rm -r photos")
		recipe(2)
	case holds("failed"):
		assert.True(t, s.exists("failed"))
		// A file that is too large fails, and the second run copies only that one.
		shell(t, s.dir, `head -c 3000000 /dev/zero >"$(printf 'photos/\376 x')"`)
		b.text = strings.Replace(b.text, "sealift copy", "ulimit -f 2000\nsealift copy", 1)
		assert.Contains(t, recipe(1), "write\t")
		failed, err := os.ReadFile(filepath.Join(s.dir, "failed"))
		assert.NoError(t, err)
		assert.Equal(t, "\xfe x\x00", string(failed))
	case holds("find ."):
		assert.True(t, s.exists("backup/sub/b c.jpg"))
	case holds("mkfifo"):
		assert.Contains(t, output, "done 100%\n")
		shell(t, s.dir, "rm -r photos")
		assert.Contains(t, recipe(2), "sealift: source 'photos': no such file")
	case holds("sealift verify"):
		shell(t, s.dir, "echo rot >backup/a.jpg")
		assert.Equal(t, "backup/a.jpg: mismatch\n", recipe(3))
		shell(t, s.dir, "rm backup/SHA256SUMS")
		assert.Contains(t, recipe(2), "no manifest")
	}
}

// testWorkflow runs the steps of a GitHub workflow, each as the runner does, and again with
// a conflict.
func testWorkflow(t *testing.T, s *stage, text string) {
	var workflow struct {
		Env  map[string]string
		Jobs map[string]struct {
			Steps []struct{ Name, Run, Uses string }
		}
	}
	require.NoError(t, yaml.Unmarshal([]byte(text), &workflow))
	env := []string{"GITHUB_STEP_SUMMARY=" + filepath.Join(s.dir, "summary")}
	for name, value := range workflow.Env {
		env = append(env, name+"="+s.rooted(strings.ReplaceAll(value, "${{ github.ref_name }}", "v1.2.3")))
	}
	steps := func(want map[string]int) (output string) {
		for _, step := range workflow.Jobs["archive"].Steps {
			if step.Run == "" {
				assert.Regexp(t, `^actions/[a-z-]+@v\d+$`, step.Uses)
				continue
			}
			code, out := s.run(env, "bash", "-eo", "pipefail", "-c", step.Run)
			assert.Equal(t, want[step.Name], code, "%s: %s", step.Name, out)
			output += out
		}
		return output
	}
	steps(nil)
	assert.True(t, s.exists("mnt/archive/v1.2.3/program"))
	summary, err := os.ReadFile(filepath.Join(s.dir, "summary"))
	assert.NoError(t, err)
	assert.Regexp(t, "^`[0-9a-f]{64}` .*/v1.2.3/SHA256SUMS\n$", string(summary))
	shell(t, s.dir, "echo other >dist/program; touch -d 2001-01-01 dist/program")
	assert.Contains(t, steps(nil), "::warning::")
	shell(t, s.dir, "rm dist/program; mkdir dist/program; echo rot >mnt/archive/v1.2.3/program")
	steps(map[string]int{"Build": 2, "Check": 3})
}

// testPipeline runs the scripts of a GitLab pipeline, as its runner does.
func testPipeline(t *testing.T, s *stage, text string) {
	var pipeline map[string]yaml.Node
	require.NoError(t, yaml.Unmarshal([]byte(text), &pipeline))
	for _, name := range []string{"build", "archive"} {
		var job struct {
			BeforeScript []string `yaml:"before_script"`
			Script       []string
			AllowFailure struct {
				ExitCodes int `yaml:"exit_codes"`
			} `yaml:"allow_failure"`
		}
		node := pipeline[name]
		require.NoError(t, node.Decode(&job))
		require.NotEmpty(t, job.Script)
		script := func() (int, string) {
			return s.run([]string{"CI_COMMIT_SHORT_SHA=0123abcd"}, "bash", "-eo", "pipefail", "-c", s.rooted(strings.Join(append(job.BeforeScript, job.Script...), "\n")))
		}
		code, output := script()
		assert.Equal(t, 0, code, output)
		if name == "archive" {
			assert.True(t, s.exists("mnt/archive/0123abcd/program"))
			shell(t, s.dir, "echo other >dist/program; touch -d 2001-01-01 dist/program")
			code, output = script()
			assert.Equal(t, job.AllowFailure.ExitCodes, code, output)
			assert.Equal(t, 4, code)
		}
	}
}

// testCrontab runs the commands of a crontab as cron does: by sh, with nearly no
// environment. An unescaped "%" would end the command.
func testCrontab(t *testing.T, s *stage, text string) {
	entry := regexp.MustCompile(`^([\d*/,-]+) ([\d*/,-]+) ([\d*/,-]+) ([\d*/,-]+) ([\d*/,-]+) (.+)$`)
	commands := 0
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, "#") || regexp.MustCompile(`^[A-Z]+=`).MatchString(line) {
			continue
		}
		fields := entry.FindStringSubmatch(line)
		if !assert.NotNil(t, fields, line) {
			continue
		}
		command := strings.ReplaceAll(fields[6], `\%`, "\x00")
		assert.NotContains(t, command, "%", "cron would end the command there")
		command = s.rooted(strings.ReplaceAll(command, "\x00", "%"))
		code, output := s.run(nil, "env", "-i", "HOME="+s.dir, "SHELL=/bin/sh", "PATH=/usr/bin:/bin", "LOGNAME=root", "/bin/sh", "-c", command)
		assert.Equal(t, 0, code, "%s\n%s", command, output)
		assert.Empty(t, output, "cron would mail it")
		commands++
	}
	assert.Equal(t, 3, commands)
	log, err := os.ReadFile(filepath.Join(s.dir, "mnt/backup/all.log"))
	assert.NoError(t, err)
	assert.Contains(t, string(log), "created 'a.jpg'\n")
	assert.Contains(t, string(log), "\ncomplete: ")
	copied, err := filepath.Glob(filepath.Join(s.dir, "mnt/backup/photos-2*/SHA256SUMS"))
	assert.NoError(t, err)
	assert.Len(t, copied, 1)
}

// testUnit lets systemd read a unit, and runs the commands of a service.
func testUnit(t *testing.T, s *stage, name, text string) {
	text = s.rooted(text)
	unit := filepath.Join(s.dir, name)
	require.NoError(t, os.WriteFile(unit, []byte(text), 0o644)) //nolint:gosec // a unit
	service := filepath.Join(s.dir, "photos.service")
	if name != "photos.service" {
		require.NoError(t, os.WriteFile(service, []byte("[Service]\nType=oneshot\nExecStart=/bin/true\n"), 0o644)) //nolint:gosec // as above
	}
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Log("systemd does not check the unit: systemd-analyze is not installed")
	} else {
		code, output := s.run(nil, "systemd-analyze", "--man=no", "verify", unit)
		assert.Equal(t, 0, code, output)
		assert.NotContains(t, output, s.dir, "systemd complains")
	}
	if command := regexp.MustCompile(`(?m)^ExecStart=(.+)$`).FindStringSubmatch(text); command != nil {
		assert.Regexp(t, `(?m)^SuccessExitStatus=4 143$`, text)
		for range 2 {
			code, output := s.run(nil, "sh", "-c", "exec "+command[1])
			assert.Equal(t, 0, code, output)
		}
		assert.True(t, s.exists("mnt/backup/photos/SHA256SUMS"))
	} else {
		assert.Regexp(t, `(?m)^OnCalendar=`, text)
	}
}

// testMakefile makes all targets, then nothing, then those that have changed. A copy that
// fails is repeated.
func testMakefile(t *testing.T, s *stage, text string) {
	require.NoError(t, os.WriteFile(filepath.Join(s.dir, "Makefile"), []byte(text), 0o644)) //nolint:gosec // a Makefile
	code, output := s.run(nil, "make")
	assert.Equal(t, 0, code, output)
	assert.True(t, s.exists("archive/program"))
	code, output = s.run(nil, "make")
	assert.Equal(t, 0, code, output)
	assert.Contains(t, output, "up to date")
	shell(t, s.dir, "touch -d 2001-01-01 archive.done; echo newer >dist/program; echo extra >dist/extra; mkdir archive/extra")
	for range 2 {
		code, output = s.run(nil, "make")
		assert.Equal(t, 2, code, output)
		assert.Contains(t, output, "extra", "the copy runs again")
	}
	shell(t, s.dir, "rmdir archive/extra")
	code, output = s.run(nil, "make", "check")
	assert.Equal(t, 0, code, output)
	shell(t, s.dir, "cmp dist/program archive/program; echo rot >archive/program")
	code, output = s.run(nil, "make", "check")
	assert.Equal(t, 2, code, output)
	assert.Contains(t, output, "program: FAILED")
}

// TestShellsHideExitCodes shows what docs/scripting.md says about exit codes in a shell.
func TestShellsHideExitCodes(t *testing.T) {
	s := newStage(t)
	const fails = "sealift du nowhere 2>/dev/null" // exits with 1
	for script, want := range map[string]string{
		fails + "; echo $?":                                              "1",
		fails + " | cat; echo $?":                                        "0",
		"set -o pipefail; " + fails + " | cat; echo $?":                  "1",
		"if ! " + fails + "; then echo $?; fi":                           "0",
		"f() { local x=$(" + fails + "); echo $?; }; f":                  "0",
		"export x=$(" + fails + "); echo $?":                             "0",
		"x=$(" + fails + "); echo $?":                                    "1",
		"set -e; f() { " + fails + "; echo goes on; }; f":                "",
		"set -e; f() { " + fails + "; echo goes on; }; if f; then :; fi": "goes on",
		"set -e; (" + fails + "; echo goes on) || true":                  "goes on",
		"set -e; f() { " + fails + "; echo goes on; }; f && true":        "goes on",
	} {
		_, out := s.run(nil, "bash", "-c", script)
		require.Equal(t, want, strings.TrimSpace(out), script)
	}
}
