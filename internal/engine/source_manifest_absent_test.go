//go:build linux

package engine

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/seed65876f4f/sealift/internal/event"
	"github.com/seed65876f4f/sealift/internal/filter"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/fsys/faultfs"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/quote"
	"github.com/seed65876f4f/sealift/internal/treetest"
)

// reportedAbsent runs with present and with check and returns the paths that are reported as
// absent, which must be the same.
func reportedAbsent(t testing.TB, o Options) []string {
	t.Helper()
	o.Targets = []string{o.Targets[0] + "-present"}
	o.SourceManifest = SourceManifestPresent
	out := runReported(t, o)
	require.Zero(t, out.summary.Mismatches+out.summary.Errors, "%s", out)
	require.LessOrEqual(t, len(out.bad()), 1, "one warning for all")
	warned := ""
	if len(out.bad()) == 1 {
		e := out.bad()[0]
		require.Equal(t, event.Warning, e.Kind)
		require.Equal(t, filepath.Base(e.Path), "SHA256SUMS")
		require.EqualValues(t, 1, out.summary.Warnings)
		warned = e.Err.Error()
		require.Contains(t, warned, "absent")
	}
	o.Targets = []string{o.Targets[0] + "-check"}
	o.SourceManifest = SourceManifestCheck
	out = runReported(t, o)
	require.Zero(t, out.summary.Warnings+out.summary.Errors, "%s", out)
	var paths []string
	for _, e := range out.bad() {
		require.Equal(t, []any{event.Mismatch, ""}, []any{e.Kind, e.Target})
		require.ErrorContains(t, e.Err, "absent")
		require.NotContains(t, e.Err.Error(), "\n")
		stageOf(t, e)
		paths = append(paths, e.Path)
	}
	require.EqualValues(t, len(paths), out.summary.Mismatches)
	require.Equal(t, len(paths) > 0, warned != "")
	if len(paths) > 1 {
		require.Contains(t, warned, fmt.Sprintf("%d files", len(paths)))
	}
	for _, path := range paths[:min(len(paths), 1)] {
		if len(paths) == 1 {
			require.Contains(t, warned, quoteName(path))
		}
	}
	require.LessOrEqual(t, strings.Count(warned, "absent-"), quote.MaxFew, "no list without an end")
	return paths
}

// A file that the source's manifest lists and the source lacks is a mismatch, or a warning
// with --source-manifest=present. With ignore it is neither.
func TestAbsentFiles(t *testing.T) {
	t.Parallel()
	line := func(path string) string { return sha("x") + "  " + path + "\n" }
	many := ""
	var names []string
	for i := range 30 {
		names = append(names, fmt.Sprintf("absent-%02d", i))
		many += line(names[i])
	}
	list := func(build func(l *filter.List) error) func(o *Options) {
		return func(o *Options) {
			o.Filter = &filter.List{}
			require.NoError(t, build(o.Filter))
		}
	}
	including := func(pattern string) func(o *Options) {
		return list(func(l *filter.List) error {
			return l.Add(filter.Rule{Include: true, Pattern: pattern}, filter.Rule{Pattern: "*"})
		})
	}
	only := func(paths ...string) func(o *Options) {
		return func(o *Options) {
			var err error
			o.Only, err = filter.ReadOnly(strings.NewReader(strings.Join(paths, "\n")), false)
			require.NoError(t, err)
		}
	}
	for name, c := range map[string]struct {
		manifest string
		change   func(o *Options)
		want     []string
	}{
		"nothing":              {manifest: line("here") + line("d/here")},
		"one":                  {manifest: line("here") + line("gone"), want: []string{"gone"}},
		"listed twice":         {manifest: line("gone") + line("./gone") + line("gone"), want: []string{"gone"}},
		"in no directory":      {manifest: line("no/such/file"), want: []string{"no/such/file"}},
		"many":                 {manifest: many, want: names},
		"odd name":             {manifest: `\` + sha("x") + `  new\nline` + "\n", want: []string{"new\nline"}},
		"a directory":          {manifest: line("d"), want: []string{"d"}},
		"symbolic links":       {manifest: line("link") + line("dangling"), want: []string{"dangling"}},
		"a fifo":               {manifest: line("fifo"), want: []string{"fifo"}},
		"through a link":       {manifest: line("to-d/here")},
		"left behind":          {manifest: line(".sealift-journal/lock") + line("d/.sealift-0123456789abcdef.tmp")},
		"itself":               {manifest: line("here")},
		"excluded":             {manifest: line("gone") + line("b/gone"), change: list(func(l *filter.List) error { return l.Exclude("gone") })},
		"excluded directory":   {manifest: line("gone") + line("b/c/gone"), change: list(func(l *filter.List) error { return l.Exclude("/b/") }), want: []string{"gone"}},
		"excluded files there": {manifest: line("here") + line("d/here"), change: list(func(l *filter.List) error { return l.Exclude("here") })},
		"included": {
			manifest: line("gone") + line("d/gone") + line("b/gone"),
			change:   including("d/**"), want: []string{"d/gone"},
		},
		"included by suffix": {
			manifest: line("a/b/c.txt") + line("a/b/c.jpg"),
			change:   including("*.txt"), want: []string{"a/b/c.txt"},
		},
		"included again": {
			manifest: line("gone.txt") + line("keep.txt"),
			change: list(func(l *filter.List) error {
				return l.Add(filter.Rule{Include: true, Pattern: "keep.txt"}, filter.Rule{Pattern: "*.txt"})
			}), want: []string{"keep.txt"},
		},
		"asked for":        {manifest: line("gone") + line("d/gone"), change: only("d", "here"), want: []string{"d/gone"}},
		"not asked for":    {manifest: line("gone") + line("d/gone") + line("dd/gone"), change: only("here", "d/here")},
		"asked for deeper": {manifest: line("d/e/gone") + line("d/gone") + line("e/gone") + line("d/e/f/gone"), change: only("d/e"), want: []string{"d/e/f/gone", "d/e/gone"}},
		"asked for itself": {manifest: line("d/gone"), change: only("."), want: []string{"d/gone"}},
	} {
		t.Run(name, func(t *testing.T) {
			src, dst := sourceWithManifest(t, map[string][]byte{"here": []byte("x"), "d/here": []byte("x"), "d/e/here": {}, ".sealift-journal/lock": {}, "d/.sealift-0123456789abcdef.tmp": {}},
				"SHA256SUMS", c.manifest)
			if name != "left behind" {
				require.NoError(t, os.RemoveAll(filepath.Join(src, ".sealift-journal")))
				require.NoError(t, os.Remove(filepath.Join(src, "d/.sealift-0123456789abcdef.tmp")))
			}
			require.NoError(t, os.Symlink("here", filepath.Join(src, "link")))
			require.NoError(t, os.Symlink("nowhere", filepath.Join(src, "dangling")))
			require.NoError(t, os.Symlink("d", filepath.Join(src, "to-d")))
			require.NoError(t, unix.Mkfifo(filepath.Join(src, "fifo"), 0o600))
			o := options(src, dst)
			if c.change != nil {
				c.change(&o)
			}
			if name == "left behind" { // another warning reports it
				o.SourceManifest = SourceManifestCheck
				require.Zero(t, runReported(t, o).summary.Mismatches)
				return
			}
			require.Equal(t, c.want, reportedAbsent(t, o))
		})
	}
}

// The run never opens paths of a hostile manifest that lead outside. It reports them as absent.
func TestHostileLinesOfASourceManifest(t *testing.T) {
	t.Parallel()
	secret := filepath.Join(treetest.MemoryDir(t), "secret")
	require.NoError(t, os.WriteFile(secret, []byte("secret"), 0o600))
	hostile := []string{
		secret, "../src/a", "..", "a/../../" + filepath.Base(filepath.Dir(secret)) + "/secret", "d/../../secret", "/", "//" + secret,
		"link/secret", "\x1b[2J", "-rf", "C:\\secret", strings.Repeat("x/", 5000) + "deep",
	}
	var lines strings.Builder
	for _, path := range hostile {
		fmt.Fprintf(&lines, "%s  %s\n", sha("secret"), path)
	}
	fmt.Fprintf(&lines, "%s  a\x00b\n%s  \n", sha("x"), sha("x"))
	for _, change := range []func(o *Options){
		func(*Options) {},
		func(o *Options) {
			o.Filter = &filter.List{}
			require.NoError(t, o.Filter.Exclude("[a-z]*/x"))
			require.NoError(t, o.Filter.Include("*"))
			require.NoError(t, o.Filter.Exclude("*"))
		},
		func(o *Options) {
			var err error
			o.Only, err = filter.ReadOnly(strings.NewReader("a\nSHA256SUMS\nlink\n"), false)
			require.NoError(t, err)
		},
	} {
		for _, mode := range []SourceManifestMode{SourceManifestPresent, SourceManifestCheck} {
			src, dst := sourceWithManifest(t, map[string][]byte{"a": []byte("x")}, "SHA256SUMS", lines.String())
			require.NoError(t, os.Symlink(filepath.Dir(secret), filepath.Join(src, "link")))
			sys := faultfs.New(func(op fsys.Op, name string) error {
				roots := op == fsys.OpOpenDir && !strings.HasPrefix(name, filepath.Dir(secret)) // opened by their paths
				if name == "secret" || strings.Contains(name, "/") && !roots || name == ".." {
					t.Errorf("%s of %q", op, name)
				}
				return nil
			})
			o := options(src, dst)
			change(&o)
			o.SourceManifest = mode
			o.FS = sys
			out := runReported(t, o)
			require.Zero(t, out.summary.Errors, "%s", out)
			require.Equal(t, "x", look(t, dst)["a"].content)
			for _, e := range out.bad() {
				require.NotContains(t, e.Err.Error(), "\x1b")
			}
			if mode == SourceManifestPresent {
				require.LessOrEqual(t, len(out.bad()), 2, "what is absent, and what is no line")
			}
			if mode == SourceManifestCheck && o.Only == nil && o.Filter == nil {
				var paths []string
				for _, e := range out.bad() {
					paths = append(paths, e.Path)
				}
				require.Contains(t, paths, secret)
				require.Contains(t, paths, "../src/a")
			}
		}
	}
}

// With -x, a listed path of many names that does not exist needs one check, and not one for each name.
func TestALongAbsentPathOnOneFileSystem(t *testing.T) {
	t.Parallel()
	src, dst := sourceWithManifest(t, map[string][]byte{"a": []byte("x")}, "SHA256SUMS",
		fmt.Sprintf("%s  %sfile\n", sha("x"), strings.Repeat("absent/", 1000)))
	checks := 0
	o := options(src, dst)
	o.OneFileSystem = true
	o.FS = faultfs.New(func(_ fsys.Op, name string) error {
		if name == "absent" {
			checks++
		}
		return nil
	})
	out := runReported(t, o)
	require.Zero(t, out.summary.Errors, "%s", out)
	require.Positive(t, checks)
	require.Less(t, checks, 10)
}

// A manifest that has the name given by --manifest is checked, also below the root.
func TestAManifestOfTheSourceWithAnotherName(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"sums/today", "./sums//today", "CHECKSUMS"} {
		lines := sha("x") + "  a\n" + sha("wrong") + "  d/b\n" + sha("x") + "  gone\n"
		src, dst := sourceWithManifest(t, map[string][]byte{"a": []byte("x"), "d/b": []byte("y")}, filepath.Clean(name), lines)
		write(t, src, "SHA256SUMS", []byte(sha("x")+"  a\n"), since) // checked as well
		o := options(src, dst)
		o.Manifest = name
		out := runReported(t, o)
		bad := out.bad()
		require.Len(t, bad, 2, "%s", out)
		slices.SortFunc(bad, func(a, b event.Event) int { return strings.Compare(a.Path, b.Path) })
		requireBroken(t, bad[0], "d/b")
		require.Equal(t, []any{event.Mismatch, "gone"}, []any{bad[1].Kind, bad[1].Path})
		require.FileExists(t, filepath.Join(dst, "a"))
		require.NoFileExists(t, filepath.Join(dst, "d/b"))
	}
	// One that leads out of the source is none.
	dir := treetest.MemoryDir(t)
	src := filepath.Join(dir, "src")
	write(t, src, "a", []byte("x"), since)
	write(t, dir, "SUMS", []byte(sha("y")+"  a\n"), since)
	o := options(src, filepath.Join(dir, "deep/dst"))
	o.Manifest = "../SUMS"
	mustRun(t, o)
}

// For a single file, only NAME.sha256 beside it is checked.
func TestTheManifestBesideASingleFileIsChecked(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		manifest, lines string
		hashes          []hash.Algorithm
		broken          bool
	}{
		{"file.sha256", sha("x") + "  file\n", nil, false},
		{"file.sha256", sha("y") + "  file\n", nil, true},
		{"file.sha256", sha("y") + " *./file\n", nil, true},
		{"file.sha256", "SHA256 (file) = " + sha("y") + "\n", nil, true},
		{"file.sha256", sha("x") + "  file\n" + sha("x") + "  absent\n", nil, false},
		{"file.sha256", sha("y") + "  other\n", nil, false},
		{"file.md5", digestOf(hash.MD5, []byte("y")) + "  file\n", []hash.Algorithm{hash.SHA256, hash.MD5}, true},
		{"file.md5", digestOf(hash.MD5, []byte("y")) + "  file\n", nil, false},
		{"SHA256SUMS", sha("y") + "  file\n", nil, false},
		{"copy.sha256", sha("y") + "  file\n", nil, false},
	} {
		for _, mode := range []SourceManifestMode{SourceManifestPresent, SourceManifestCheck} {
			src, dst := sourceWithManifest(t, map[string][]byte{"file": []byte("x")}, c.manifest, c.lines)
			copied := filepath.Join(dst, "copy")
			o := options(filepath.Join(src, "file"), copied)
			o.SourceManifest = mode
			if c.hashes != nil {
				o.Hashes = c.hashes
			}
			out := runReported(t, o)
			if !c.broken {
				require.Empty(t, out.bad(), "%+v", c)
				require.FileExists(t, copied+".sha256")
				continue
			}
			require.Len(t, out.bad(), 1)
			requireBroken(t, out.bad()[0], "file")
			require.NoFileExists(t, copied)
			require.NoFileExists(t, copied+".sha256")
		}
	}
}
