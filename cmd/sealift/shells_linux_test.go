package main

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/screentest"
)

// completionIn has, for each shell, a start file with the completion, a prompt that the
// test can wait for, and a function that prints the program's arguments.
var completionIn = map[string]struct {
	rc   string // the file that replaces {rc} below
	text string
	args []string
}{
	"bash": {"bashrc", `source /usr/share/bash-completion/bash_completion
source <(sealift completion bash)
sealift() { if [[ $1 == __complete* ]]; then command sealift "$@"; else (IFS=:; set -- "${@%/}"; echo "RAN:$*:"); fi; }
bind 'set enable-bracketed-paste off'
PS1='READY'; PROMPT_COMMAND=
`, []string{"--noprofile", "--rcfile", "{rc}", "-i"}},
	"zsh": {".zshrc", `autoload -U compinit; compinit -u -D
source <(sealift completion zsh)
sealift() { if [[ $1 == __complete* ]]; then command sealift "$@"; else print -r -- "RAN:${(j.:.)@}:"; fi }
PROMPT=READY; unsetopt zle_bracketed_paste
`, []string{"-d", "-i"}},
	"fish": {"config.fish", `sealift completion fish | source
function sealift; if string match -q '__complete*' -- $argv[1]; command sealift $argv; else; echo RAN:(string join : -- $argv | string trim --right --chars /):; end; end
function fish_prompt; echo READY; end
set fish_greeting
`, []string{"--no-config", "--init-command", "source {rc}", "-i"}},
}

// TestCompletionInShells types into real shells, with a TAB.
func TestCompletionInShells(t *testing.T) {
	t.Parallel()
	for shell, c := range completionIn {
		t.Run(shell, func(t *testing.T) {
			t.Parallel()
			if _, err := exec.LookPath(shell); err != nil {
				t.Skipf("%s is not installed", shell)
			}
			if _, err := os.Stat("/usr/share/bash-completion/bash_completion"); shell == "bash" && err != nil {
				t.Skip("bash-completion is not installed")
			}
			dir := t.TempDir()
			rc := filepath.Join(dir, c.rc)
			require.NoError(t, os.WriteFile(rc, []byte(c.text), 0o600))
			require.NoError(t, os.Mkdir(filepath.Join(dir, "tree"), 0o755)) //nolint:gosec // a directory
			for _, name := range []string{"trunk.txt", "listed.txt"} {
				require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
			}
			ours, theirs := screentest.OpenPair(t, 80, 25)
			defer ours.Close()
			cmd := exec.CommandContext(t.Context(), shell) //nolint:gosec // one of three
			for _, arg := range c.args {
				cmd.Args = append(cmd.Args, strings.ReplaceAll(arg, "{rc}", rc))
			}
			cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = dir, theirs, theirs, theirs
			cmd.Env = append(os.Environ(), "HOME="+dir, "ZDOTDIR="+dir, "XDG_CONFIG_HOME="+dir, "XDG_DATA_HOME="+dir, "TMPDIR="+dir,
				"TERM=xterm", "LC_ALL=C.UTF-8", "GORACE=atexit_sleep_ms=0")
			cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
			require.NoError(t, cmd.Start())
			theirs.Close()
			kill := func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) } // which ends all reading
			defer time.AfterFunc(time.Minute, kill).Stop()                         // only loaded machines need this long
			screen := &screen{from: ours}
			for _, typed := range [][2]string{
				{"sealift veri\t", "verify"},
				{"sealift copy --overwrite-policy alw\t", "copy:--overwrite-policy:always"},
				{"sealift copy --hash sha256,bl\t", "copy:--hash:sha256,blake3"},
				{"sealift copy --verify=fu\t", "copy:--verify=full"},
				{"sealift verify --manifest lis\t", "verify:--manifest:listed.txt"},
				{"sealift compare tr\t", "compare:tree"}, // and not trunk.txt
				{"sealift compare --cache dir\ttr\t", "compare:--cache:direct:tree"},
				{"sealift copy lis\ttr\t", "copy:listed.txt:tree"},
				{"sealift completion fi\t", "completion:fish"},
			} {
				if shell == "fish" { // with cobra's scripts, fish offers files as well
					typed[0] = strings.Replace(typed[0], "tr\t", "tre\t", 1)
				}
				if !screen.shows("READY") {
					break
				}
				_, err := io.WriteString(ours, typed[0]+"\r")
				require.NoError(t, err)
				if !screen.shows("RAN:" + typed[1] + ":") { // zsh removes a slash at the end again
					t.Errorf("%q does not become %q: %q", typed[0], typed[1], screen.text)
					break
				}
			}
			kill()         // a shell that is asked to end may ask for confirmation
			_ = cmd.Wait() // the shell was killed
		})
	}
}

// screen is the output of a terminal that no test has matched yet.
type screen struct {
	from *os.File
	text string
}

// shows waits for a text, and discards the output up to it.
func (s *screen) shows(text string) bool {
	for piece := make([]byte, 4096); ; {
		if _, after, found := strings.Cut(s.text, text); found {
			s.text = after
			return true
		}
		n, err := s.from.Read(piece)
		if err != nil {
			return false
		}
		s.text += string(piece[:n])
	}
}

// TestCompletionScriptsAreSane lets shells read the scripts without running them.
// PowerShell is not available, so its script must at least have matching brackets and
// quotes.
func TestCompletionScriptsAreSane(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"bash", "zsh", "fish", "powershell"} {
		shell(t, dir, "sealift completion "+name+" >"+name)
		if _, err := exec.LookPath(name); err == nil && name != "powershell" {
			shell(t, dir, name+" -n "+name)
		}
	}
	script, err := os.ReadFile(filepath.Join(dir, "powershell"))
	require.NoError(t, err)
	var open []rune
	var inside rune // quotes
	for line := range strings.Lines(string(script)) {
		escaped := false
		for _, c := range line {
			switch {
			case escaped:
				escaped = false
			case inside != '\'' && c == '`':
				escaped = true
			case inside != 0:
				if c == inside {
					inside = 0
				}
			case c == '\'' || c == '"':
				inside = c
			case c == '#':
				line = ""
			case strings.ContainsRune("([{", c):
				open = append(open, c)
			case strings.ContainsRune(")]}", c):
				if assert.NotEmpty(t, open, line) {
					assert.Contains(t, []string{"()", "[]", "{}"}, string(open[len(open)-1])+string(c), line)
					open = open[:len(open)-1]
				}
			}
			if line == "" {
				break // a comment
			}
		}
		assert.Zero(t, inside, "%q stays open in %s", inside, line)
		inside = 0
	}
	assert.Empty(t, open)
	assert.Contains(t, string(script), "Register-ArgumentCompleter")
}

// TestManPagesAreSane checks the pages with mandoc. A build without a known commit has no
// date.
func TestManPagesAreSane(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("mandoc"); err != nil {
		t.Skip("mandoc is not installed")
	}
	dir := t.TempDir()
	shell(t, dir, "sealift man pages")
	pages, err := filepath.Glob(filepath.Join(dir, "pages", "*.1"))
	require.NoError(t, err)
	assert.Contains(t, pages, filepath.Join(dir, "pages", "sealift.1"))
	assert.Greater(t, len(pages), 1, "each command has a page")
	for _, page := range pages {
		_, complaints, _ := program(t, dir, "mandoc -T lint -W warning "+page)
		for complaint := range strings.Lines(complaints) {
			assert.Contains(t, complaint, "missing date, using \"\": TH")
		}
		_, text, _ := program(t, dir, "mandoc -T ascii "+page+" | col -b")
		for _, section := range []string{"NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXAMPLES", "EXIT STATUS", "SEE ALSO"} {
			assert.Contains(t, text, "\n"+section+"\n", page)
		}
	}
}
