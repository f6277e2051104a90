package filter

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestAgainstRsync compares random rules with rsync, over random trees. It leaves out the
// differences that docs/migrating.md lists, except one: rsync searches no directory that it
// excludes. So the entries below these directories are not compared.
func TestAgainstRsync(t *testing.T) {
	if version, _ := exec.Command("rsync", "--version").Output(); !strings.HasPrefix(string(version), "rsync  version 3.") {
		t.Skip("rsync 3 is not installed: there is nothing to compare with")
	}
	names := rapid.SampledFrom([]string{"a", "b", "ab", "a.c", "b.c"})
	pieces := rapid.SampledFrom([]string{"a", "b", "ab", "*", "a*", "*.c", "?", "??", "[ab]", "[!a]", "[^b]*", "[a-b].[[:alpha:]]"})
	patterns := rapid.Custom(func(t *rapid.T) string {
		p := strings.Join(rapid.SliceOfN(pieces, 1, 3).Draw(t, "pieces"), "/")
		switch rapid.IntRange(0, 7).Draw(t, "form") {
		case 0, 1:
			p = "/" + p
		case 2:
			p = "/" + p + "/**"
		case 3:
			p = "**/" + p
		case 4:
			p = rapid.SampledFrom([]string{"*", "**", "*/", "/*", "/**", "**/"}).Draw(t, "all")
		default:
			p = pieces.Draw(t, "name")
		}
		if !strings.HasSuffix(p, "/") && rapid.IntRange(0, 3).Draw(t, "end") == 0 {
			p += "/"
		}
		return p
	})
	var both, below int
	rapid.Check(t, func(t *rapid.T) {
		var l List
		args := []string{"-rn", "--out-format=%n"}
		add := func(rule Rule) {
			require.NoError(t, l.Add(rule))
			flag := "--exclude="
			if rule.Include {
				flag = "--include="
			}
			args = append(args, flag+rule.Pattern)
		}
		for range rapid.IntRange(1, 6).Draw(t, "rules") {
			add(Rule{Include: rapid.Bool().Draw(t, "include"), Pattern: patterns.Draw(t, "pattern")})
		}
		add(Rule{Pattern: rapid.OneOf(rapid.Just("*"), patterns).Draw(t, "last")}) // an include needs an exclude
		root, err := os.MkdirTemp("", "filter")
		require.NoError(t, err)
		defer os.RemoveAll(root) //nolint:errcheck // a directory of a test
		for range rapid.IntRange(1, 20).Draw(t, "files") {
			file := filepath.Join(append([]string{root}, rapid.SliceOfN(names, 1, 4).Draw(t, "file")...)...)
			if os.MkdirAll(filepath.Dir(file), 0o700) == nil && os.Mkdir(file, 0o700) == nil && rapid.IntRange(0, 3).Draw(t, "empty") > 0 {
				require.NoError(t, os.Remove(file))
				require.NoError(t, os.WriteFile(file, nil, 0o600))
			}
		}

		var want, got []string
		out, err := exec.Command("rsync", append(args, root+"/", filepath.Join(root, "none"))...).Output()
		require.NoError(t, err, "%q", args)
		for line := range strings.SplitSeq(string(out), "\n") {
			if line != "" && line != "./" && !strings.HasPrefix(line, "created directory") {
				want = append(want, line)
			}
		}
		var visit func(dir string, verdict Verdict, reached bool)
		visit = func(dir string, verdict Verdict, reached bool) {
			entries, err := os.ReadDir(filepath.Join(root, dir))
			require.NoError(t, err)
			for _, e := range entries {
				path := strings.TrimPrefix(dir+"/"+e.Name(), "/")
				v := l.Match(path, e.IsDir(), verdict)
				switch {
				case v.Selected && !reached:
					below++
				case v.Selected && e.IsDir():
					got = append(got, path+"/")
				case v.Selected:
					got = append(got, path)
				}
				if e.IsDir() && v.Searched {
					visit(path, v, reached && v.Selected)
				}
			}
		}
		visit("", l.Root(), true)
		slices.Sort(want)
		slices.Sort(got)
		require.Equal(t, want, got, "%q", args)
		both += len(got)
	})
	t.Logf("%d entries are selected by both, %d more in directories that rsync excludes", both, below)
	require.Positive(t, both)
	require.Positive(t, below)
}
