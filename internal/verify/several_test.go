//go:build unix

package verify_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/fsys/faultfs"
	"github.com/seed65876f4f/sealift/internal/verify"
)

func TestOneManifestForSeveralDirectories(t *testing.T) {
	dir := tree(t, map[string]string{"one/a": "A", "two/a": "A", "two/b": "x", "three/a": "x", "m.lst": sha("A") + "  a\n" + sha("B") + "  b\n"})
	dirs := []string{filepath.Join(dir, "one"), filepath.Join(dir, "two"), filepath.Join(dir, "three")}
	want := []string{"OK a", "MISSING b", "OK a", "FAILED b", "FAILED a", "MISSING b"}
	reported, s, err := check(t, &verify.Options{Paths: dirs, Manifest: filepath.Join(dir, "m.lst"), Verbose: true})
	require.NoError(t, err)
	require.Equal(t, want, reported)
	require.Len(t, s.Manifests, 3)
	content, err := os.ReadFile(filepath.Join(dir, "m.lst"))
	require.NoError(t, err)
	reported, _, err = check(t, &verify.Options{Paths: dirs, Manifest: "-", Stdin: strings.NewReader(string(content)), Verbose: true})
	require.NoError(t, err)
	require.Equal(t, want, reported)
	for _, d := range dirs { // a name that exists in each directory
		require.NoError(t, os.WriteFile(filepath.Join(d, "list-of-sha256"), content, 0o644))
	}
	reported, _, err = check(t, &verify.Options{Paths: dirs, Manifest: "list-of-sha256", Verbose: true})
	require.NoError(t, err)
	require.Equal(t, want, reported)
}

// A file that several manifests list is read once.
func TestSeveralManifestsAreOneReading(t *testing.T) {
	defer goleak.VerifyNone(t)
	rapid.Check(t, func(rt *rapid.T) {
		dir := tree(t, nil)
		names := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-d]{1,3}`), 0, 12, rapid.ID).Draw(rt, "names")
		content := map[string]string{}
		for _, name := range names {
			content[name] = strings.Repeat(name, 1+len(name)*3000)
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content[name]), 0o644))
		}
		lists := map[string]func(string) string{"MD5SUMS": md, "SHA256SUMS": sha, "SHA512SUMS": sha5, "b.sha256": sha}
		var want, empty []string
		listed := map[string]bool{}
		for _, list := range []string{"MD5SUMS", "SHA256SUMS", "SHA512SUMS", "b.sha256"} {
			text, before := "# none\n", len(want)
			for range rapid.IntRange(0, 10).Draw(rt, "lines") {
				name := rapid.StringMatching(`[a-d]{1,2}`).Draw(rt, "name")
				if len(names) > 0 && rapid.Bool().Draw(rt, "known") {
					name = rapid.SampledFrom(names).Draw(rt, "which")
				}
				c, there := content[name]
				digest, verdict := lists[list](c), "OK"
				if !there {
					verdict = "MISSING"
				} else if rapid.IntRange(0, 4).Draw(rt, "wrong") == 0 {
					digest, verdict = lists[list]("other"), "FAILED"
				}
				listed[name] = listed[name] || there
				text += digest + "  " + name + "\n"
				want = append(want, verdict+" "+name)
			}
			if len(want) == before {
				empty = append(empty, "FAILURE "+list+": not a manifest: no line has a digest")
			}
			require.NoError(t, os.WriteFile(filepath.Join(dir, list), []byte(text), 0o644))
		}
		reads := map[string]int{}
		sys := faultfs.New(func(op fsys.Op, name string) error {
			if op == fsys.OpOpen {
				reads[name]++
			}
			return nil
		})
		reported, s, err := check(t, &verify.Options{FS: sys, Paths: []string{dir}, Verbose: true, Workers: 1})
		if len(want) == 0 {
			require.Error(t, err)
			return
		}
		require.NoError(t, err)
		require.Equal(t, append(empty, want...), reported)
		require.EqualValues(t, len(want), s.Matches+s.Mismatches+s.Missing)
	})
}

func TestSortedManifestsAreReadOnce(t *testing.T) {
	t.Parallel()
	files := map[string]string{}
	var m, s256 strings.Builder
	for i := range 50 {
		name, content := fmt.Sprintf("f%02d", i), fmt.Sprint("content ", i)
		files[name] = content
		if i%7 != 3 {
			fmt.Fprintf(&m, "%s  %s\n", md(content), name)
		}
		if i%5 != 3 {
			fmt.Fprintf(&s256, "%s  %s\n", sha(content), name)
		}
	}
	files["MD5SUMS"], files["SHA256SUMS"] = m.String(), s256.String()
	dir := tree(t, files)
	opened := map[string]int{}
	sys := faultfs.New(func(op fsys.Op, name string) error {
		if op == fsys.OpOpen {
			opened[name]++
		}
		return nil
	})
	_, s, err := check(t, &verify.Options{FS: sys, Paths: []string{dir}, Workers: 1})
	require.NoError(t, err)
	require.EqualValues(t, 83, s.Matches)
	require.EqualValues(t, 48, s.Files, "files, and not lines")
	for name, n := range opened {
		require.Equal(t, 1, n, name)
	}
	require.Len(t, opened, 50, "all but f03 and f38, and the two manifests")
}

// A directory may have a manifest for every file. They use no descriptors and little
// memory.
func TestThousandsOfManifests(t *testing.T) {
	files := map[string]string{}
	for i := range 1500 {
		name := fmt.Sprintf("f%04d", i)
		files[name] = name
		files[name+".sha256"] = sha(name) + "  " + name + "\n"
	}
	dir := tree(t, files)
	var most int
	sys := faultfs.New(func(op fsys.Op, _ string) error {
		if list, err := os.ReadDir("/proc/self/fd"); op == fsys.OpOpen && err == nil {
			most = max(most, len(list))
		}
		return nil
	})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	reported, s, err := check(t, &verify.Options{FS: sys, Paths: []string{dir}, Workers: 1})
	runtime.ReadMemStats(&after)
	require.NoError(t, err)
	require.Empty(t, reported)
	require.EqualValues(t, 1500, s.Matches)
	require.Less(t, most, 60)
	require.Less(t, int64(after.HeapSys)-int64(before.HeapSys), int64(100<<20))
}

// A manifest without a line is a failure, also beside other manifests.
func TestEveryManifestHasALine(t *testing.T) {
	dir := tree(t, map[string]string{"a": "A", "MD5SUMS": "garbage\n", "SHA256SUMS": sha("A") + "  a\n", "b.iso.sha256": "", "c.sha256": "# none\n"})
	reported, s, err := check(t, &verify.Options{Paths: []string{dir}, Verbose: true})
	require.NoError(t, err)
	const none = ": not a manifest: no line has a digest"
	require.Equal(t, []string{
		"FAILURE MD5SUMS" + none, "WARNING MD5SUMS: 1 line is improperly formatted (number 1)",
		"FAILURE b.iso.sha256" + none, "FAILURE c.sha256" + none, "OK a",
	}, reported)
	require.EqualValues(t, 3, s.Errors)
	require.NoError(t, os.Remove(filepath.Join(dir, "SHA256SUMS")))
	_, _, err = check(t, &verify.Options{Paths: []string{dir}})
	require.ErrorContains(t, err, "MD5SUMS'"+none)
}

// Consecutive lines for the same file share one reading.
func TestRepeatedLinesAreOneReading(t *testing.T) {
	line := sha("A") + "  a\n"
	dir := tree(t, map[string]string{"a": "A", "b": "B"})
	content := strings.Repeat(line, 500) + sha("B") + "  a\nMD5 (a) = " + md("A") + "\n" + sha("B") + "  b\n" + line
	require.NoError(t, os.WriteFile(filepath.Join(dir, "SHA256SUMS"), []byte(content), 0o644))
	reported, s, err := check(t, &verify.Options{Paths: []string{dir}})
	require.NoError(t, err)
	require.Equal(t, []string{"FAILED a"}, reported)
	require.EqualValues(t, 503, s.Matches)
	require.EqualValues(t, 3, s.Files)
	require.EqualValues(t, 3, s.Bytes)
	content = strings.Repeat(line, 10_000)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "SHA256SUMS"), []byte(content), 0o644))
	_, s, err = check(t, &verify.Options{Paths: []string{dir}})
	require.NoError(t, err)
	require.EqualValues(t, 10_000, s.Matches)
	require.EqualValues(t, 10, s.Files, "but not all of them wait in memory")
}
