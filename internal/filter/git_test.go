package filter

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// gitRepo is a work tree with an entry for every name that the patterns below
// could be about; git needs the real entries to tell directories from files.
type gitRepo struct {
	dir     string
	entries []string // directories end in "/"
}

func newGitRepo(t *testing.T) *gitRepo {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed: there is nothing to compare with")
	}
	repo := &gitRepo{dir: t.TempDir()}
	repo.git(t, nil, "init", "-q")
	// Characters beyond ASCII are left out, since git counts their bytes.
	names := []string{"a", "b", "ab", "a.c", "]", "-", "a*", "{a,b}", "[a", "#a", "!a", `a\`, "a ", "\xff", "\xfea"}
	for _, dir := range []string{"", "a/", "b/", "a/a/", "a/b/", "b/ab/", "a/a/b/"} {
		for _, name := range names {
			for _, entry := range []string{dir + name, dir + name + ".d/"} {
				full := filepath.Join(repo.dir, entry)
				if strings.HasSuffix(entry, "/") || entry == "a" || entry == "b" || entry == "a/a" ||
					entry == "a/b" || entry == "b/ab" || entry == "a/a/b" {
					require.NoError(t, os.MkdirAll(full, 0o755))
					entry = strings.TrimSuffix(entry, "/") + "/"
				} else {
					require.NoError(t, os.WriteFile(full, nil, 0o644))
				}
				repo.entries = append(repo.entries, entry)
			}
		}
	}
	return repo
}

// git runs git with no configuration but its own and returns its output.
func (r *gitRepo) git(t require.TestingT, stdin []byte, args ...string) []byte {
	cmd := exec.Command("git", args...)
	cmd.Dir = r.dir
	cmd.Env = append(os.Environ(), "HOME="+r.dir, "XDG_CONFIG_HOME="+r.dir, "LC_ALL=C",
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CEILING_DIRECTORIES="+filepath.Dir(r.dir))
	cmd.Stdin = bytes.NewReader(stdin)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if exit, ok := err.(*exec.ExitError); ok && exit.ExitCode() == 1 && args[0] == "check-ignore" {
		err = nil // nothing is ignored
	}
	require.NoError(t, err, "git %v: %s", args, stderr.String())
	return out
}

// ignored returns the entries that git ignores under the rules in file.
func (r *gitRepo) ignored(t require.TestingT, file string) map[string]bool {
	require.NoError(t, os.WriteFile(filepath.Join(r.dir, ".git", "info", "exclude"), []byte(file), 0o644))
	var stdin bytes.Buffer
	for _, entry := range r.entries {
		stdin.WriteString(strings.TrimSuffix(entry, "/") + "\x00")
	}
	ignored := make(map[string]bool)
	for _, name := range strings.Split(string(r.git(t, stdin.Bytes(), "check-ignore", "--no-index", "--stdin", "-z")), "\x00") {
		ignored[name] = true
	}
	return ignored
}

// linePieces make up the lines of random rule files: enough syntax to be
// wrong with, on few enough characters to match something.
var linePieces = []string{
	"a", "b", "a", "b", "ab", ".c", ".d", "*", "*", "**", "?", "/", "/", "/", "**/", "/**", "/**/",
	"[ab]", "[!a]", "[^b]", "[]a]", "[!]a]", "[a-c]", "[!-b]", "[[:alpha:]]", `[\]]`, "[a/b]", "[", "]", "-",
	"[[:punct:]x-]", "{a,b}", "{", `\*`, `\a`, `\\`, `\`, `\ `, " ", "#", "!", `\#`, `\!`, "\xff", "\xfe", ".", "***",
}

func drawLine(t *rapid.T) string {
	return strings.Join(rapid.SliceOfN(rapid.SampledFrom(linePieces), 1, 5).Draw(t, "pieces"), "")
}

// differsByIntent reports whether line is excluded from the comparison. Git reads an
// escaped slash in several ways. It treats the "**" of "a**/b" as a separate component,
// against its own manual, because it strips the literal "a" first. In "[b-a]", it leaves the
// range out and accepts the rest; Sealift refuses the pattern.
func differsByIntent(line string) bool {
	err := new(List).ExcludeFrom(strings.NewReader(line))
	return strings.Contains(line, `\/`) || gluedStars.MatchString(line) || err != nil && strings.Contains(err.Error(), "runs backwards")
}

var gluedStars = regexp.MustCompile(`[^/*!]\*\*|[^/*]!\*\*`)

// rulesOf returns the rules of a file without the lines that Sealift refuses.
func rulesOf(t require.TestingT, file string) *List {
	var kept strings.Builder
	for line := range strings.SplitAfterSeq(file, "\n") {
		if new(List).ExcludeFrom(strings.NewReader(line)) == nil {
			kept.WriteString(line)
		}
	}
	l := new(List)
	require.NoError(t, l.ExcludeFrom(strings.NewReader(kept.String())))
	return l
}

// TestAgainstGit compares rule files with git. A
// pattern that is refused here must be one that matches nothing there.
func TestAgainstGit(t *testing.T) {
	repo := newGitRepo(t)
	rapid.Check(t, func(t *rapid.T) {
		var file strings.Builder
		for range rapid.IntRange(1, 6).Draw(t, "lines") {
			line := drawLine(t) + rapid.SampledFrom([]string{"\n", "\n", "\r\n", " \n"}).Draw(t, "end")
			if !differsByIntent(line) {
				file.WriteString(line)
			}
		}
		l := rulesOf(t, file.String())
		ignored := repo.ignored(t, file.String())
		for _, entry := range repo.entries {
			got := !walkSlash(l, entry).Selected
			if want := ignored[strings.TrimSuffix(entry, "/")]; got != want {
				t.Fatalf("rules %q: %q is excluded: %v, git says %v", file.String(), entry, got, want)
			}
		}
	})
}
