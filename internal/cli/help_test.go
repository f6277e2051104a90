package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/pipe"
	"github.com/seed65876f4f/sealift/internal/policy"
)

func TestHelpSaysWhatACommandDoesAndEndsWithExitCodes(t *testing.T) {
	for _, line := range []string{"--help", "help", "copy --help", "help copy", "completion --help", "man --help", "version --help", "help help", "verify --help", "compare --help", "sum --help", "help sum", "du --help", "help du", "stream --help"} {
		r := command(t, succeeds, "", strings.Fields(line)...)
		if r.code != 0 || r.stderr != "" || r.options != nil {
			t.Errorf("%s: exit code %d, stderr %q", line, r.code, r.stderr)
		}
		if !regexp.MustCompile(`^[A-Z][^\n.]+\.\n\nUsage:\n  sealift .*\n(\n(.+\n)+)*\nExamples:\n(  .+\n)*  sealift .+\n(  .+\n)*\n`).MatchString(r.stdout) {
			t.Errorf("%s begins with %.400q", line, r.stdout)
		}
		_, list, _ := strings.Cut(r.stdout, "\nExit codes (details: man sealift")
		want := "0 1 2"
		switch {
		case strings.Contains(line, "copy") || line == "help" || line == "--help":
			want = "0 1 2 3 4 129 130 143"
		case strings.Contains(line, "verify"), strings.Contains(line, "compare"), strings.Contains(line, "sum"):
			want = "0 1 2 3 129 130 143"
		case strings.Contains(line, "du"), strings.Contains(line, "stream"):
			want = "0 1 2 129 130 143"
		}
		if got := strings.Join(regexp.MustCompile(`(?m)^  \d+`).FindAllString(list, -1), ""); strings.Join(strings.Fields(got), " ") != want {
			t.Errorf("%s: exit codes %s, want %s:\n%s", line, got, want, r.stdout)
		}
		if strings.Count(list, "\n") != len(strings.Fields(want))+1 {
			t.Errorf("%s: exit codes have one line each:\n%s", line, list)
		}
	}
}

// The complete help of each command fits into 80 columns. The rows of a flag are not broken.
func TestHelpFitsInto80Columns(t *testing.T) {
	root := rootThat(runs{})
	for _, c := range append(root.Commands(), root) {
		help := command(t, succeeds, "", strings.Fields(c.CommandPath() + " --help")[1:]...).stdout
		for text := range strings.Lines(help) {
			if len(text) > 81 {
				t.Errorf("%s: too long: %s", c.Name(), text)
			}
		}
		for _, section := range flagSections(c) {
			for _, f := range section.flags {
				_, rows, _ := strings.Cut(f.Usage, "\n")
				for row := range strings.SplitSeq(rows, "\n") {
					if !strings.Contains(help, row+"\n") {
						t.Errorf("%s --%s: broken: %s", c.Name(), f.Name, row)
					}
				}
			}
		}
		for _, bad := range []string{"help for", "`", "default default", ":  and"} {
			if strings.Contains(help, bad) {
				t.Errorf("%s has %q", c.Name(), bad)
			}
		}
	}
}

func TestHelpOfCopyExplainsEveryFlagAndValue(t *testing.T) {
	help := command(t, succeeds, "", "copy", "--help").stdout
	for _, flag := range strings.Fields(`-o, -x, -n, -q, -v, --output --hash --manifest --overwrite-policy --sync --sparse --reflink
		--preserve --include --exclude --exclude-from --files-from --from0 --one-file-system --workers
		--memory --bwlimit --dirty-window --cache --dry-run --fail-fast --quiet --verbose --log-file --progress --json --verify[=MODE] --source-manifest`) {
		if !strings.Contains(help, " "+flag) {
			t.Errorf("%s is missing", flag)
		}
	}
	_, speed, _ := strings.Cut(help, "\nSpeed and memory:\n")
	speed, _, _ = strings.Cut(speed, "\n\n")
	for _, want := range []string{"--dirty-window SIZE  limit unwritten data per destination (default auto)\n", "--cache MODE         choose what stays in the page cache (default auto)\n"} {
		if !strings.Contains(speed, want) {
			t.Errorf("%q is not about speed and memory", want)
		}
	}
	for _, mode := range pipe.CacheModes.List() {
		if !regexp.MustCompile(`(?m)^ {27}` + mode + ` +[a-z]`).MatchString(speed) {
			t.Errorf("cache mode %s is not explained", mode)
		}
	}
	last := 0
	for _, heading := range []string{"Usage:", "Examples:", "What to copy:", "Manifest:", "Safety:", "Output:", "Speed and memory:", "Other flags:", "Notes:"} {
		at := strings.Index(help, "\n"+heading+"\n")
		if at <= last {
			t.Errorf("%s is at %d, after %d", heading, at, last)
		}
		last = at
	}
	for _, policy := range policy.All.List() {
		if !regexp.MustCompile(`(?m)^ {30,}` + policy + ` +(skip|replace) `).MatchString(help) {
			t.Errorf("policy %s is not explained", policy)
		}
	}
	for _, want := range []string{"--bwlimit RATE ", "--sparse MODE        choose how to write holes (default auto)\n",
		"--verify[=MODE] ", "(default off)\n                                 off   do not read it back\n", "of SRC (default check)\n"} {
		if !strings.Contains(help, want) {
			t.Errorf("%q is missing", want)
		}
	}
}

// -h of each command fits on a page of 45 lines, in 80 columns, and names the place of the rest.
// -h of du prints sizes for people, as that of GNU du.
func TestShortHelpFitsOnOnePage(t *testing.T) {
	root := rootThat(runs{})
	for _, c := range append(root.Commands(), root) {
		line := strings.Fields(c.CommandPath() + " -h")[1:]
		if c.Name() == "du" {
			continue
		}
		r := command(t, succeeds, "", line...)
		if r.code != 0 || r.stderr != "" {
			t.Errorf("%s: exit code %d, stderr %q", line, r.code, r.stderr)
		}
		if n := strings.Count(r.stdout, "\n"); n > 45 {
			t.Errorf("%s: %d lines", line, n)
		}
		for text := range strings.Lines(r.stdout) {
			if len(text) > 81 {
				t.Errorf("%s: too long: %s", line, text)
			}
		}
		if !regexp.MustCompile(`^[A-Z][^\n.]+\.\n\nUsage:\n(  sealift.*\n)+\nExamples:\n(  .+\n){1,3}\n`).MatchString(r.stdout) {
			t.Errorf("%s begins with %.400q", line, r.stdout)
		}
		if !strings.HasSuffix(r.stdout, "\nThe rest: "+c.CommandPath()+" --help, man "+pageName(c)+"\n") {
			t.Errorf("%s ends with %q", line, r.stdout[max(0, len(r.stdout)-100):])
		}
		for name := range strings.FieldsSeq(shortFlags[c.Name()] + " help") {
			if f := c.Flag(name); f == nil || !strings.Contains(r.stdout, " --"+name) {
				t.Errorf("%s: --%s is missing", line, name)
			}
		}
		if full := command(t, succeeds, "", append(line, "--help")...).stdout; !strings.Contains(full, "\nExit codes") {
			t.Errorf("%s --help is not the complete help: %s", line, full)
		}
	}
	if r := command(t, succeeds, "", "verify", "-h"); !strings.Contains(r.stdout, "read from: auto, drop, direct\n                         (default auto)\n") {
		t.Errorf("the values of --cache: %s", r.stdout)
	}
	for name := range shortFlags {
		if c, _, err := root.Find([]string{name}); err != nil || c == root {
			t.Errorf("there is no command %s", name)
		}
	}
}

// Flags that few need are in no list of help, man page and completion; a note names them.
func TestHiddenFlagsAreInANote(t *testing.T) {
	for _, c := range rootThat(runs{}).Commands() {
		help := command(t, succeeds, "", c.Name(), "--help").stdout
		list, notes, _ := strings.Cut(help, "\nNotes:\n")
		for name := range strings.FieldsSeq(hiddenFlags[c.Name()]) {
			if strings.Contains(list, "--"+name+" ") || !strings.Contains(notes, "--"+name) {
				t.Errorf("%s --%s: %s", c.Name(), name, help)
			}
			if page := manPage(c, build{}); strings.Contains(page, `\fB`+roff("--"+name)) || !strings.Contains(page, roff("--"+name)) {
				t.Errorf("the man page of %s, --%s: %s", c.Name(), name, page)
			}
			if offered := command(t, succeeds, "", "__complete", c.Name(), "--"+name[:3]).stdout; strings.Contains(offered, "--"+name) {
				t.Errorf("%s: --%s is completed", c.Name(), name)
			}
		}
	}
}

// Each flag of the formats has one line, because the description of the command explains it.
func TestHelpOfFormatsIsShort(t *testing.T) {
	for _, name := range strings.Fields("copy verify repair scrub compare sum du stream") {
		help := command(t, succeeds, "", name, "--help").stdout
		for flag := range strings.FieldsSeq("--mhl --mhl-author --mhl-location --mhl-comment --mhl-ignore --detect-renames --bag --bag-info --backup-dir") {
			_, rest, found := strings.Cut(help, "      "+flag)
			if !found || !strings.ContainsAny(rest[:1], " =[") {
				continue
			}
			_, rest, _ = strings.Cut(rest, "\n")
			if next, _, _ := strings.Cut(rest, "\n"); next != "" && !strings.Contains(next, " --") {
				t.Errorf("%s %s has more than one line: %s", name, flag, next)
			}
		}
	}
}

// Each flag is under a heading for its purpose. All commands have the same headings, except for
// the first one.
func TestFlagsHaveTheSameHeadingsInEveryCommand(t *testing.T) {
	order := []string{groupShards, groupManifest, groupSafety, groupScript, groupOutput, "Sizes in the output", groupSpeed}
	for _, c := range rootThat(runs{}).Commands() {
		sections := flagSections(c)
		for _, f := range sections[len(sections)-1].flags {
			if f.Name != "help" {
				t.Errorf("%s: --%s has no heading", c.Name(), f.Name)
			}
		}
		last := -1
		for i, section := range sections[:len(sections)-1] {
			at := slices.Index(order, section.title)
			if at <= last && !(i == 0 && strings.HasPrefix(section.title, "What to ")) {
				t.Errorf("%s: heading %q", c.Name(), section.title)
			}
			last = max(last, at)
		}
	}
}

func TestHelpListsEveryCommandInOrder(t *testing.T) {
	help := command(t, succeeds, "", "--help").stdout
	_, list, _ := strings.Cut(help, "\nCommands:\n")
	list, _, _ = strings.Cut(list, "\n\n")
	var names []string
	for line := range strings.Lines(list) {
		names = append(names, strings.Fields(line)[0])
	}
	if got := strings.Join(names, " "); got != "copy verify repair scrub compare sum du stream plan run merge completion man version help" {
		t.Errorf("commands: %s", got)
	}
}

func TestEachShellHasItsCompletionScript(t *testing.T) {
	for shell, want := range map[string]string{
		"bash":       "# bash completion V2 for sealift",
		"zsh":        "#compdef sealift",
		"fish":       "# fish completion for sealift",
		"powershell": "# powershell completion for sealift",
	} {
		r := command(t, succeeds, "", "completion", shell)
		if r.code != 0 || !strings.HasPrefix(r.stdout, want) {
			t.Errorf("%s: exit code %d, %.60q", shell, r.code, r.stdout)
		}
	}
	for line, want := range map[string]string{
		"__complete copy --sync ":                "end\nfile\nnone\n",
		"__complete copy --hash ":                "none\nsha256\n",
		"__complete copy --hash sha256,":         "sha256,sha512\nsha256,sha1\n",
		"__complete copy --preserve mode,times,": "mode,times,owner\n",
		"__complete version ":                    ":4\n",
		"__complete copy --inc":                  "--include\tcopy only paths that match PATTERN\n",
		"__complete completion ":                 "bash\nzsh\nfish\npowershell\n",
		"__complete copy --overw":                "--overwrite-policy\t",
		"__complete help ":                       "copy\nverify\nrepair\nscrub\ncompare\nsum\ndu\nstream\nplan\nrun\nmerge\ncompletion\n",
		"__complete copy --verify=":              "off\ndest\nfull\n",
		"__complete copy --source-manifest ":     "check\npresent\nignore\n",
		"__complete verify --cache ":             "auto\ndrop\ndirect\n",
		"__complete copy --cache ":               "auto\nkeep\ndrop\ndirect\n:4\n",
		"__complete copy --dirty-window ":        "auto\noff\n:4\n",
		"__complete verify --progress ":          "auto\nbar\n",
		"__complete verify ":                     ":0\n", // directories and manifests
		"__complete verify --ha":                 ":4\n",
		"__complete sum --hash ":                 "sha256\nsha512\n",
		"__complete sum --hash md5,":             "md5,sha256\n",
		"__complete sum ":                        ":0\n", // files
		"__complete du ":                         ":0\n",
		"__complete du --block-size ":            "human-readable\nsi\n",
		"__complete du -d ":                      ":4\n",
		"__complete du --top ":                   ":4\n",
		"__complete stream --cache ":             "auto\nkeep\ndrop\ndirect\n",
		"__complete stream --sync=":              "end\nnone\n",
		"__complete stream ":                     ":0\n", // files
		"__complete copy --preserv":              "--preserve\t",
	} {
		r := command(t, succeeds, "", strings.Split(line, " ")...)
		if r.code != 0 || !strings.HasPrefix(r.stdout, want) {
			t.Errorf("%s: exit code %d, %q", line, r.code, r.stdout)
		}
	}
}

func TestManPagesSayWhatHelpSays(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "man1")
	if r := command(t, succeeds, "", "man", dir); r.code != 0 || r.stdout != "" || r.stderr != "" {
		t.Fatalf("exit code %d, stdout %q, stderr %q", r.code, r.stdout, r.stderr)
	}
	for _, name := range []string{"sealift", "sealift-copy", "sealift-verify", "sealift-sum", "sealift-du", "sealift-completion", "sealift-man", "sealift-version"} {
		page, err := os.ReadFile(filepath.Join(dir, name+".1"))
		if err != nil {
			t.Error(err)
			continue
		}
		for _, want := range []string{".SH NAME", name + ` \-`, ".SH EXIT STATUS\n.TP\n0\n", ".TP\n1\n", ".SH SEE ALSO\n.BR sealift"} {
			if !strings.Contains(strings.ReplaceAll(string(page), `\-`, "-"), strings.ReplaceAll(want, `\-`, "-")) {
				t.Errorf("%s lacks %q", name, want)
			}
		}
		for code, pages := range map[string]string{
			"\n143\n": "sealift sealift-copy sealift-verify sealift-sum sealift-du",
			"\n3\n":   "sealift sealift-copy sealift-verify sealift-compare sealift-sum",
			"\n4\n":   "sealift sealift-copy",
		} {
			if strings.Contains(string(page), code) != slices.Contains(strings.Fields(pages), name) {
				t.Errorf("%s: exit code %q:\n%s", name, code, page)
			}
		}
		if bytes.Contains(page, []byte("=[")) || bytes.Contains(page, []byte(`[=\(dq`)) || bytes.Contains(page, []byte("hash\\-file\\fR")) {
			t.Errorf("%s has a flag in the manner of Go", name)
		}
	}
	root, _ := os.ReadFile(filepath.Join(dir, "sealift.1"))
	for _, want := range []string{".SH SYNOPSIS\n.nf\n.B sealift COMMAND [flags]\n.fi\n", ".SH COMMANDS\n.TP\n\\fBcopy\\fR\nCopy a tree"} {
		if !bytes.Contains(root, []byte(want)) {
			t.Errorf("sealift.1 lacks %q", want)
		}
	}
	page, _ := os.ReadFile(filepath.Join(dir, "sealift-copy.1"))
	for _, want := range []string{`\fB\-\-include\fR \fIPATTERN\fR`, `\fB\-o\fR, \fB\-\-output\fR \fIDST\fR`, `\fB\-\-from0\fR` + "\n", ".nf\ndefault   skip", `\(aq*.tmp\(aq`,
		`\fB\-\-verify\fR[=\fIMODE\fR]` + "\n", `\fB\-\-dirty\-window\fR \fISIZE\fR` + "\n", `\fB\-\-cache\fR \fIMODE\fR` + "\n", ".nf\nauto    like drop"} {
		if !bytes.Contains(page, []byte(want)) {
			t.Errorf("sealift-copy.1 lacks %q", want)
		}
	}
	built := build{Version: "v1.2.3", Time: time.Date(2026, 11, 20, 20, 0, 0, 0, time.UTC)}
	for _, c := range rootThat(runs{}).Commands() {
		if page := manPage(c, built); !strings.Contains(page, `" "1" "2026-11-20" "sealift v1.2.3" "Sealift Manual"`) {
			t.Errorf("%s: not of the commit: %.100s", c.Name(), page)
		}
	}
	if got := roff("a\\b\n.c 'd'"); got != `a\eb`+"\n"+`\&.c \(aqd\(aq` {
		t.Errorf("roff: %q", got)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if r := command(t, succeeds, "", "man", file); r.code != 1 || !strings.HasPrefix(r.stderr, "sealift: ") {
		t.Errorf("into a file: exit code %d, stderr %q", r.code, r.stderr)
	}
}

// A user who finds a file of Sealift in a destination can look up its name.
func TestManPageOfCopyHasTheNamesOfItsFiles(t *testing.T) {
	dir := t.TempDir()
	require.Equal(t, 0, command(t, succeeds, "", "man", dir).code)
	page, err := os.ReadFile(filepath.Join(dir, "sealift-copy.1"))
	require.NoError(t, err)
	for _, name := range []string{"SHA256SUMS", "sealift.sha256", ".sealift-journal", ".sealift-was-", ".sealift-bad-", "SEALIFT-INCOMPLETE-"} {
		require.Contains(t, string(page), roff(name))
	}
}

func TestVersionPrintsTheBuild(t *testing.T) {
	info := &debug.BuildInfo{
		Main: debug.Module{Version: "v0.1.0"},
		Settings: []debug.BuildSetting{
			{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.time", Value: "2026-11-20T20:00:00Z"}, {Key: "vcs.modified", Value: "true"},
		},
	}
	b := buildFrom(info, "")
	if b.Version != "v0.1.0" || b.Commit != "abc" || !b.Modified || !b.Time.Equal(time.Date(2026, 11, 20, 20, 0, 0, 0, time.UTC)) {
		t.Errorf("%+v", b)
	}
	if b := buildFrom(info, "v9"); b.Version != "v9" {
		t.Errorf("the linker's version is lost: %+v", b)
	}
	if b := buildFrom(nil, ""); b.Version != "(devel)" {
		t.Errorf("%+v", b)
	}

	root := newRootCmd(newVersionCmd(b))
	var stdout, stderr bytes.Buffer
	execute(t.Context(), root, []string{"version"}, strings.NewReader(""), &stdout, &stderr)
	want := "sealift v0.1.0\ncommit abc of 2026-11-20, modified\nbuilt with " + b.Go + " for " + b.Platform + "\n"
	if stdout.String() != want {
		t.Errorf("got %q, want %q", &stdout, want)
	}
	stdout.Reset()
	execute(t.Context(), newRootCmd(newVersionCmd(b)), []string{"version", "--json"}, strings.NewReader(""), &stdout, &stderr)
	var got map[string]any
	if err := json.Unmarshal(stdout.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]any{"schema": 1.0, "version": "v0.1.0", "commit": "abc", "time": "2026-11-20T20:00:00Z", "modified": true, "go": b.Go, "platform": b.Platform} {
		if got[key] != want {
			t.Errorf("%s = %v, want %v", key, got[key], want)
		}
	}
}
