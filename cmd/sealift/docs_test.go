//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// These tests compare the documentation with the program. A fenced block has a language:
//
//	sh       run by bash -eo pipefail, in the order of the page, each in the directory
//	         where the one before ended
//	console  lines that start with "$ " are run in the same way, each separately, and
//	         the others are their output
//	text     the output of the block of sh before it
//	json     parsed: one value, or several, one after another
//	others   must be in shownOnly, and are not checked
//
// "# exit code N" in a block of sh, or in a line of console, means that it ends with N
// and not with 0. A line "..." of output matches any lines, and "..." in a line any text.
// Only times and rates may differ.
//
// testdata/docs/world.sh creates the files for the commands, separately for each page;
// testdata/docs/PAGE.sh adds files that one page needs.

// notRun has commands, each with its page, that are left out when their block runs, and the
// reason. The key of a command in several lines is the first line; "..." at the end matches
// the rest.
var notRun = map[string]string{
	"README.md: git clone ...":  "the network",
	"README.md: go install ...": "is what compiled this program",
	"docs/install.md: go install github.com/seed65876f4f/sealift/cmd/sealift@latest": "the network; TestGoInstallsThePublishedModule does it",
	"docs/install.md: make build":                                                     "is what compiled this program",
	"docs/install.md: brew install ...":                                               "of a release, and would change the machine",
	"docs/install.md: scoop ...":                                                      "of a release, and would change the machine",
	"docs/install.md: winget install ...":                                             "of a release, and would change the machine",
	"docs/install.md: git clone ...":                                                  "the network",
	"docs/install.md: nix-env ...":                                                    "of a release, and would change the machine",
	"docs/install.md: sudo apt install ...":                                           "of a release, and would change the machine",
	"docs/install.md: sudo dnf install ...":                                           "of a release, and would change the machine",
	"docs/install.md: scripts/install v1.2.3 ~/.local/bin":                            "the network; TestTheActionInstallsARelease does it",
	"docs/install.md: podman ...":                                                     "TestImageRunsWithoutRights does it",
	"CONTRIBUTING.md: make build":                                                     "is what compiled this program",
	"CONTRIBUTING.md: make test":                                                      "runs this test",
	"CONTRIBUTING.md: make check":                                                     "runs this test",
	"CONTRIBUTING.md: make fuzz":                                                      "takes minutes",
	"CONTRIBUTING.md: make snapshot":                                                  "builds for all systems",
	"CONTRIBUTING.md: make torture":                                                   "takes an hour",
	"CONTRIBUTING.md: make bench":                                                     "takes an hour",
	"docs/benchmarks.md: scripts/bench --runs 7 one":                                  "takes minutes",
	"docs/benchmarks.md: make bench":                                                  "takes an hour",
	"docs/custody.md: sudo ...":                                                       "changes the machine; TestExamples checks these files",
	"docs/custody.md: systemctl ...":                                                  "needs systemd",
	"docs/scaling.md: kubectl apply -f copy.yaml":                                     "needs a cluster",
	"docs/scaling.md: bash copy-here.sh --sshloginfile nodes.txt":                     "needs other machines",
	"docs/report.md: chromium ...":                                                    "is not everywhere",
	"docs/releasing.md: make snapshot":                                                "builds for all systems; .ci/run does it",
	"docs/releasing.md: make snapshot TWICE=1":                                        "builds for all systems, twice",
	"docs/releasing.md: git worktree add ../former v1.2.2":                            "of a release",
	"docs/releasing.md: make -C ../former build":                                      "of a release",
	"docs/releasing.md: make bench ...":                                               "takes an hour",
	"docs/releasing.md: sha256sum -c --ignore-missing SHA256SUMS":                     "of a release",
	"docs/releasing.md: sealift verify --ignore-missing .":                            "of a release",
	"docs/releasing.md: cosign verify-blob ...":                                       "of a release",
	"docs/releasing.md: gh attestation verify ...":                                    "of a release",
	"docs/releasing.md: git clone ...":                                                "the network",
	"docs/releasing.md: go tool -modfile=tools/release/go.mod goreleaser release ...": "builds for all systems",
	"docs/releasing.md: cat dist/SHA256SUMS":                                          "of what the line before has built",
	"scripts/README.md: go test ./internal/rigs -v":                                   "these tests run beside this one",
}

// testedElsewhere has the pages whose blocks another test runs.
var testedElsewhere = map[string]string{
	"docs/scripting.md": "TestScriptingPage",
}

// shownOnly has the languages of blocks that are not commands.
var shownOnly = []string{"diagram", "yaml", "state"}

// lacking is the exit code of a script that cannot work here.
const lacking = 77

// docsRoot is the directory that the paths of the pages are relative to.
var docsRoot = filepath.Join("..", "..")

// docBlock is a fenced block.
type docBlock struct {
	page, lang string
	line       int // of its fence
	lines      []string
}

func (b docBlock) String() string { return fmt.Sprintf("%s:%d", b.page, b.line) }

// docPage is a page. The text outside blocks keeps its line numbers.
type docPage struct {
	name   string
	prose  []string
	blocks []docBlock
}

// readDocs returns all pages.
func readDocs(t *testing.T) []docPage {
	t.Helper()
	names := []string{"README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "scripts/README.md"}
	for _, pattern := range []string{"docs/*.md", "docs/*/*.md"} {
		found, err := filepath.Glob(filepath.Join(docsRoot, pattern))
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %v, %v", pattern, found, err)
		}
		for _, name := range found {
			rel, err := filepath.Rel(docsRoot, name)
			if err != nil {
				t.Fatal(err)
			}
			names = append(names, filepath.ToSlash(rel))
		}
	}
	pages := make([]docPage, 0, len(names))
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join(docsRoot, name))
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, parsePage(name, string(text)))
	}
	return pages
}

func parsePage(name, text string) docPage {
	p := docPage{name: name}
	inside := false
	for i, line := range strings.Split(text, "\n") {
		fence, found := strings.CutPrefix(strings.TrimLeft(line, " "), "```")
		switch {
		case found && !inside:
			p.blocks = append(p.blocks, docBlock{page: name, line: i + 1, lang: strings.TrimSpace(fence)})
			inside = true
		case found:
			inside = false
		case inside:
			last := &p.blocks[len(p.blocks)-1]
			last.lines = append(last.lines, line)
		}
		if inside || found {
			line = ""
		}
		p.prose = append(p.prose, line)
	}
	return p
}

func TestDocsHideNothing(t *testing.T) {
	pages := readDocs(t)
	met, languages, names := map[string]bool{}, map[string]bool{}, map[string]bool{}
	tests := testsOf(t)
	for _, p := range pages {
		names[p.name] = true
		test := testedElsewhere[p.name]
		if test != "" && !strings.Contains(tests, "func "+test+"(t ") {
			t.Errorf("%s: there is no %s", p.name, test)
		}
		for _, b := range p.blocks {
			if test != "" && b.lang != "" {
				continue
			}
			languages[b.lang] = true
			switch b.lang {
			case "sh", "console", "text":
				for _, command := range b.commands() {
					met[leftOut(b.page, command)] = true
				}
			case "json":
				values := json.NewDecoder(strings.NewReader(strings.Join(b.lines, "\n")))
				for values.More() {
					if err := values.Decode(new(any)); err != nil {
						t.Errorf("%v: %v", b, err)
						break
					}
				}
			default:
				if !slices.Contains(shownOnly, b.lang) {
					t.Errorf("%v: a block of the language %q, which no test checks", b, b.lang)
				}
			}
		}
		for i, line := range p.prose {
			if strings.HasPrefix(line, "    ") && (i == 0 || strings.TrimSpace(p.prose[i-1]) == "") {
				t.Errorf("%s:%d: an indented block has no language: %s", p.name, i+1, line)
			}
			if regexp.MustCompile(`</?(pre|code)\b`).MatchString(line) {
				t.Errorf("%s:%d: commands in HTML are not run: %s", p.name, i+1, line)
			}
		}
	}
	for line, why := range notRun {
		if !met[line] || why == "" {
			t.Errorf("notRun has %q (%s), which no block has", line, why)
		}
	}
	for page := range testedElsewhere {
		if !names[page] {
			t.Errorf("testedElsewhere has %s, and there is no such page", page)
		}
	}
	for _, language := range shownOnly {
		if !languages[language] {
			t.Errorf("shownOnly has %q, which no block is of", language)
		}
	}
}

// notRunKey returns the key of a command in notRun, without a comment.
func notRunKey(page, command string) string {
	line, _, _ := strings.Cut(command, "\n")
	line, _, _ = strings.Cut(strings.TrimSuffix(line, `\`), " # ")
	return page + ": " + strings.TrimSpace(line)
}

// leftOut returns the key in notRun of a command, or "".
func leftOut(page, command string) string {
	key := notRunKey(page, command)
	for entry := range notRun {
		if start, open := strings.CutSuffix(entry, "..."); entry == key || open && strings.HasPrefix(key, start) {
			return entry
		}
	}
	return ""
}

// commands returns the commands in the lines of a block. Lines that a backslash continues
// are one command.
func (b docBlock) commands() (commands []string) {
	open := false
	for _, line := range b.lines {
		if open {
			commands[len(commands)-1] += "\n" + line
		} else {
			commands = append(commands, line)
		}
		open = strings.HasSuffix(line, `\`)
	}
	return commands
}

// docRun is a script that bash runs at one time.
type docRun struct {
	block   docBlock
	script  string
	code    int      // expected exit code
	output  []string // expected output, if the page has it
	compare bool
}

var exitCodeSaid = regexp.MustCompile(`# exit code (\d+)`)

// runsOf returns the scripts of a page.
func runsOf(t *testing.T, p docPage) (runs []docRun) {
	t.Helper()
	code := func(script string) int {
		if said := exitCodeSaid.FindAllStringSubmatch(script, -1); said != nil {
			n, _ := strconv.Atoi(said[len(said)-1][1]) // digits
			return n
		}
		return 0
	}
	for i, b := range p.blocks {
		switch b.lang {
		case "sh":
			var commands []string
			for _, command := range b.commands() {
				if leftOut(b.page, command) == "" {
					commands = append(commands, command)
				}
			}
			script := strings.Join(commands, "\n") // may be empty
			runs = append(runs, docRun{block: b, script: script, code: code(script)})
		case "console":
			for n, line := range b.commands() {
				if command, found := strings.CutPrefix(line, "$ "); found {
					runs = append(runs, docRun{block: b, script: command, code: code(command), compare: true})
				} else if n == 0 {
					t.Errorf("%v: the first line is no command", b)
					break
				} else {
					last := &runs[len(runs)-1]
					last.output = append(last.output, line)
				}
			}
		case "text":
			if i == 0 || p.blocks[i-1].lang != "sh" {
				t.Errorf("%v: no block of sh is before this expected output", b)
				continue
			}
			last := &runs[len(runs)-1]
			last.output, last.compare = b.lines, true
		}
	}
	return runs
}

func TestDocsCommands(t *testing.T) {
	for _, p := range readDocs(t) {
		if testedElsewhere[p.name] != "" {
			continue
		}
		t.Run(p.name, func(t *testing.T) {
			runs := runsOf(t, p)
			if len(runs) == 0 {
				return
			}
			t.Parallel()
			for i, out := range runInWorld(t, p.name, runs) {
				r := runs[i]
				if out.code != r.code {
					t.Errorf("%v: exit code %d, want %d\n%s\n%s", r.block, out.code, r.code, r.script, out.text)
					continue
				}
				got := strings.Split(strings.TrimRight(out.text, "\n"), "\n")
				if want := r.output; r.compare && !sameOutput(want, got) {
					t.Errorf("%v: prints\n%s\nand not\n%s", r.block, out.text, strings.Join(want, "\n"))
				}
			}
		})
	}
}

type docOutput struct {
	text string
	code int
}

// runInWorld runs each of runs in the world of a page, one after another.
func runInWorld(t *testing.T, page string, runs []docRun) (outputs []docOutput) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("a world of its own needs root")
	}
	if err := exec.Command("unshare", "--mount", "mount", "-t", "tmpfs", "docs", "/mnt").Run(); err != nil {
		t.Skip("no mounts here: ", err)
	}
	program, err := exec.LookPath("sealift") // see TestMain
	if err != nil {
		t.Fatal(err)
	}
	if program, err = filepath.EvalSymlinks(program); err != nil {
		t.Fatal(err)
	}
	const end = "\n\x1e"
	var driver strings.Builder
	for _, r := range runs {
		quoted := "'" + strings.ReplaceAll("trap 'pwd >/dev/shm/directory' EXIT\n"+r.script, "'", `'\''`) + "'"
		fmt.Fprintf(&driver, "timeout 300 bash -eo pipefail -c %s </dev/null 2>&1; printf '%s%%d\\n' $?\n", quoted, end)
		driver.WriteString("cd \"$(cat /dev/shm/directory)\"\n")
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(docsRoot, "scripts", "apart"), //nolint:gosec // ours
		filepath.Join(docsRoot, "testdata", "docs", "world.sh"),
		strings.TrimSuffix(path.Base(page), ".md"), "bash", "-c", driver.String())
	cmd.Env = append(os.Environ(), "SEALIFT="+program, "WORLD="+t.TempDir(), "GORACE=atexit_sleep_ms=0")
	var out, complaints bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaints
	err = cmd.Run()
	if failed, ok := errors.AsType[*exec.ExitError](err); ok && failed.ExitCode() == lacking {
		t.Skip(strings.TrimSpace(complaints.String()))
	}
	if err != nil {
		t.Fatalf("%v\n%s%s", err, out.String(), complaints.String())
	}
	rest := out.String()
	for range runs {
		text, behind, found := strings.Cut(rest, end)
		number, behind, _ := strings.Cut(behind, "\n")
		code, err := strconv.Atoi(number)
		if !found || err != nil {
			t.Fatalf("the output ends too early: %q %s", rest, complaints.String())
		}
		outputs = append(outputs, docOutput{text, code})
		rest = behind
	}
	return outputs
}

// Times, rates and the spaces that align them may differ from run to run.
var varying = regexp.MustCompile(`\d+(\.\d+)?(e-\d+)? ?(ns|µs|ms|s|[kMGT]?i?B/s)(\b|$)`)

// sameOutput reports whether got equals want, in which "..." matches any lines.
func sameOutput(want, got []string) bool {
	if len(want) == 0 {
		return len(got) == 0 || len(got) == 1 && got[0] == ""
	}
	if want[0] == "..." {
		for i := range len(got) + 1 {
			if sameOutput(want[1:], got[i:]) || i == len(got) && len(want) == 1 {
				return true
			}
		}
		return false
	}
	plain := func(line string) string {
		return varying.ReplaceAllString(strings.TrimRight(line, " "), "#")
	}
	same := func(want, got string) bool {
		pattern := strings.ReplaceAll(regexp.QuoteMeta(plain(want)), `\.\.\.`, ".*")
		return regexp.MustCompile("^" + pattern + "$").MatchString(plain(got))
	}
	return len(got) > 0 && same(want[0], got[0]) && (len(want) == 1 && len(got) == 1 || sameOutput(want[1:], got[1:]))
}

func TestSameOutput(t *testing.T) {
	for _, c := range []struct {
		want, got string
		same      bool
	}{
		{"a", "a", true},
		{"a", "b", false},
		{"a\nb", "a", false},
		{"a", "a\nb", false},
		{"a\n...", "a", true},
		{"a\n...", "a\nb\nc", true},
		{"...\nc", "a\nb\nc", true},
		{"...\nd", "a\nb\nc", false},
		{"5.40 MB in 12 ms, 462 MB/s", "5.40 MB in 1.02 s, 5.3 MB/s", true},
		{"5.40 MB in 12 ms, 462 MB/s", "5.41 MB in 12 ms, 462 MB/s", false},
		{"3 files", "4 files", false},
		{"its digest is 12..., not 4...", "its digest is 123, not 456", true},
		{"its digest is 12..., not 4...", "its digest is 123, not 567", false},
	} {
		if got := sameOutput(strings.Split(c.want, "\n"), strings.Split(c.got, "\n")); got != c.same {
			t.Errorf("%q and %q: %v", c.want, c.got, got)
		}
	}
}

// TestDocsPictures draws the bars again, and runs the commands that were recorded.
func TestDocsPictures(t *testing.T) {
	t.Parallel()
	bars, err := exec.Command(filepath.Join(docsRoot, "scripts", "bars")).Output() //nolint:gosec // ours
	if errors.Is(err, exec.ErrNotFound) || exec.Command("python3", "--version").Run() != nil {
		t.Skip("python3 is not installed")
	}
	if err != nil || !bytes.Equal(bars, readSource(t, "docs/images/bench.svg")) {
		t.Errorf("docs/images/bench.svg is not what scripts/bars draws: %v", err)
	}
	const name = "docs/images/session.txt"
	commands := strings.Split(strings.TrimSpace(string(readSource(t, name))), "\n")
	picture := html.UnescapeString(string(readSource(t, "docs/images/session.svg")))
	var runs []docRun
	for _, command := range commands {
		if !strings.Contains(picture, ">$ "+command+"<") {
			t.Errorf("session.svg does not show %q", command)
		}
		runs = append(runs, docRun{script: "set +e\n" + command})
	}
	outputs := runInWorld(t, name, runs)
	for i, out := range outputs {
		if out.code != 0 {
			t.Errorf("%s: exit code %d\n%s", commands[i], out.code, out.text)
		}
	}
	if last := outputs[len(outputs)-1].text; !strings.Contains(last, "audio/take-0001.wav: FAILED\n") || !strings.Contains(last, "exit code 3\n") {
		t.Errorf("what has rotted is not found:\n%s", last)
	}
}
