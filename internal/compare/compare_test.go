//go:build unix

package compare_test

import (
	"context"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/compare"
	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/filter"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/pipe"
	"github.com/seed65876f4f/sealift/internal/treetest"
)

// A file and an empty directory of the same name are one difference.
func TestAnEmptyDirectoryInPlaceOfAFileIsOneDifference(t *testing.T) {
	t.Parallel()
	paths := trees(t, treetest.Dir{"f": treetest.File("f"), "x": treetest.File("x")}, treetest.Dir{"f": treetest.File("f"), "x": treetest.Dir{}})
	for _, verbose := range []bool{false, true} {
		for _, test := range []struct {
			paths []string
			want  string
		}{
			{paths, "type differs B x: regular file in A, directory in B"},
			{[]string{paths[1], paths[0]}, "type differs B x/: directory in A, regular file in B"},
		} {
			lines, s := run(t, compare.Options{Trees: test.paths, Verbose: verbose})
			require.Contains(t, lines, test.want)
			require.NotContains(t, strings.Join(lines, "\n"), "only in")
			require.EqualValues(t, 1, s.TypeDiffers)
			require.Empty(t, s.Only)
			require.EqualValues(t, 1, s.Differences())
		}
	}
}

func TestEveryDifferenceIsReportedOnceAndInPathOrder(t *testing.T) {
	t.Parallel()
	a := treetest.Dir{
		"same": treetest.File("same"), "size": treetest.File("123"), "byte": treetest.File("12345"), "gone": treetest.File("gone"),
		"d":    treetest.Dir{"x": treetest.File("1"), "only": treetest.Dir{"f": treetest.File("12"), "g": treetest.Dir{"h": treetest.File("3")}}, "none": treetest.Dir{}},
		"d-1":  treetest.File("sorts before d/x"),
		"link": treetest.Symlink("x"), "type": treetest.File(""), "turned": treetest.Dir{"f": treetest.File("1234")},
		"fifo": treetest.Fifo(), "kind": treetest.Symlink("same"),
	}
	b := treetest.Dir{
		"same": treetest.File("same"), "size": treetest.File("1234"), "byte": treetest.File("12 45"), "new": treetest.File("new"),
		"d":    treetest.Dir{"x": treetest.File("2"), "more": treetest.Dir{"f": treetest.File("")}},
		"d-1":  treetest.File("sorts before D/x"),
		"link": treetest.Symlink("y\x1b"), "type": treetest.Dir{"f": treetest.File("1")}, "turned": treetest.File(""),
		"fifo": treetest.Fifo(), "kind": treetest.File("same"),
	}
	want := []string{
		"differs B byte: content in B differs from byte 3 of 5",
		"differs B d-1: content in B differs from byte 14 of 16",
		"only in B d/more/ (1 files, 0 bytes)",
		"only in A d/none/ (0 files, 0 bytes)",
		"only in A d/only/ (2 files, 3 bytes)",
		"differs B d/x: content in B differs from byte 1 of 1",
		"only in A gone",
		"type differs B kind: symbolic link in A, regular file in B",
		"differs B link: link to 'x' in A, to $'y\\x1b' in B",
		"only in B new",
		"differs B size: 3 bytes in A, 4 in B",
		"type differs B turned/: directory in A, regular file in B",
		"only in A turned/ (1 files, 4 bytes)",
		"type differs B type: regular file in A, directory in B",
		"only in B type/ (1 files, 1 bytes)",
	}
	paths := trees(t, a, b)
	for _, workers := range []int{0, 1, 32} {
		lines, s := run(t, compare.Options{Trees: paths, Workers: workers})
		require.Equal(t, want, lines, workers)
		require.Equal(t, int64(5), s.Files)
		require.Equal(t, int64(5), s.Differ)
		require.Equal(t, int64(3), s.TypeDiffers)
		require.Equal(t, []compare.Only{{Trees: []int{1}, Files: 3, Bytes: 4, Others: 1}, {Trees: []int{0}, Files: 4, Bytes: 11, Others: 3}}, s.Only)
		require.Equal(t, int64(4+5+16+1), s.Bytes)
	}
	lines, _ := run(t, compare.Options{Trees: paths, OneWay: true})
	require.Equal(t, slices.DeleteFunc(slices.Clone(want), func(line string) bool { return strings.HasPrefix(line, "only in B") }), lines)

	lines, _ = run(t, compare.Options{Trees: paths, Verbose: true})
	require.Contains(t, lines, "equal d/")
	require.Contains(t, lines, "equal same")
	require.Contains(t, lines, "equal fifo")
	at := slices.Index(lines, "only in A d/only/")
	require.Equal(t, []string{"only in A d/only/", "only in A d/only/f", "only in A d/only/g/", "only in A d/only/g/h"}, lines[at:at+4])
}

func TestThreeTrees(t *testing.T) {
	t.Parallel()
	paths := trees(t,
		file{"all": treetest.File("1"), "ab": treetest.File("22"), "dir": file{"f": treetest.File("333"), "g": treetest.File("4")}},
		file{"all": treetest.File("1"), "ab": treetest.File("22"), "dir": file{"f": treetest.File("334")}, "bc": file{"x": treetest.File("5")}},
		file{"all": treetest.File("2"), "bc": file{"y": treetest.File("6")}},
	)
	lines, s := run(t, compare.Options{Trees: paths})
	require.Equal(t, []string{
		"only in AB ab",
		"differs C all: content in C differs from byte 1 of 1",
		"only in BC bc/ (2 files, 2 bytes)",
		"only in AB dir/",
		"differs B dir/f: content in B differs from byte 3 of 3",
		"only in A dir/g",
	}, lines)
	require.Equal(t, []compare.Only{
		{Trees: []int{0, 1}, Files: 2, Bytes: 5, Others: 1}, {Trees: []int{1, 2}, Files: 2, Bytes: 2, Others: 1}, {Trees: []int{0}, Files: 1, Bytes: 1},
	}, s.Only)
}

func TestWhatSealiftWroteIsNotCompared(t *testing.T) {
	t.Parallel()
	const line = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  empty\n"
	md5 := "d41d8cd98f00b204e9800998ecf8427e  empty\n"
	b := treetest.Dir{
		"empty": treetest.File(""), "SHA256SUMS": treetest.File(line), "sealift.md5": treetest.File(md5), "empty.sha256": treetest.File(line),
		"d":                file{"SHA256SUMS": treetest.File(strings.ReplaceAll(line, "empty", "a/b"))},
		"other.md5":        treetest.File(md5),                   // lists another file
		"MD5SUMS":          treetest.File("a comment\n" + md5),   // not in the form of Sealift
		"SHA512SUMS":       treetest.Dir{"f": treetest.File("")}, // not a file
		".sealift-journal": file{"lock": treetest.File("")}, ".sealift-was-SHA256SUMS": treetest.File(line),
		".sealift-bad-empty": treetest.File("set aside"),
	}
	paths := trees(t, file{"empty": treetest.File(""), "d": file{}}, b)
	want := []string{"only in B .sealift-bad-empty", "only in B .sealift-was-SHA256SUMS", "only in B MD5SUMS", "only in B SHA512SUMS/ (1 files, 0 bytes)", "only in B other.md5"}
	lines, s := run(t, compare.Options{Trees: paths})
	require.Equal(t, want, lines)
	require.Equal(t, int64(5), s.Own)

	lines, s = run(t, compare.Options{Trees: []string{paths[1], paths[0]}})
	require.Equal(t, []string{
		"only in A .sealift-bad-empty", "only in A .sealift-was-SHA256SUMS", "only in A MD5SUMS", "only in A SHA512SUMS/ (1 files, 0 bytes)",
		"only in A d/SHA256SUMS", "only in A empty.sha256", "only in A other.md5",
	}, lines)
	require.Equal(t, int64(3), s.Own)
}

// A copy writes a manifest in the place of the source's own one.
func TestOwnManifestsOfTheRootsAreNotCompared(t *testing.T) {
	t.Parallel()
	line := strings.Repeat("0", 64) + "  f\n"
	with := func(manifest string) file {
		return file{"f": treetest.File("f"), "SHA256SUMS": treetest.File(manifest)}
	}
	paths := trees(t, with(line), with(strings.ReplaceAll(line, "0", "1")), with("# of a publisher\n"+line))
	lines, s := run(t, compare.Options{Trees: paths[:2]})
	require.Empty(t, lines)
	require.Equal(t, []int64{1, 1}, []int64{s.Own, s.Files})
	lines, s = run(t, compare.Options{Trees: []string{paths[0], paths[2]}})
	require.Len(t, lines, 1)
	require.Contains(t, lines[0], "differs B SHA256SUMS")
	require.Zero(t, s.Own)
}

// A history is a manifest of Sealift. A directory ascmhl without a chain is not.
func TestAHistoryIsComparedOnlyIfAHasIt(t *testing.T) {
	t.Parallel()
	history := file{"0001_b.mhl": treetest.File("generation"), "ascmhl_chain.xml": treetest.File("chain")}
	clip := treetest.File("clip")
	paths := trees(t,
		file{"f": clip, "sub": file{"g": clip}},
		file{"f": clip, "sub": file{"g": clip, "ascmhl": history}, "ascmhl": history},
		file{"f": clip, "sub": file{"g": clip}, "ascmhl": file{"notes": treetest.File("no chain")}},
	)
	a, b, plain := paths[0], paths[1], paths[2]

	lines, s := run(t, compare.Options{Trees: []string{a, b}})
	require.Empty(t, lines)
	require.Equal(t, int64(2), s.Own)

	lines, s = run(t, compare.Options{Trees: []string{b, a}})
	require.Equal(t, []string{"only in A ascmhl/ (2 files, 15 bytes)", "only in A sub/ascmhl/ (2 files, 15 bytes)"}, lines)
	require.Zero(t, s.Own)

	lines, s = run(t, compare.Options{Trees: []string{a, b, plain}})
	require.Equal(t, []string{"only in C ascmhl/ (1 files, 8 bytes)"}, lines)
	require.Equal(t, int64(1), s.Own)
}

func TestMarkersAndJournalsOfUnfinishedCopiesAreReported(t *testing.T) {
	t.Parallel()
	marker := file{"f": treetest.File(""), "SEALIFT-INCOMPLETE-x.txt": treetest.File("anything")}
	paths := trees(t, file{"f": treetest.File("")}, marker)
	lines, s := run(t, compare.Options{Trees: paths})
	require.Len(t, lines, 1)
	require.Contains(t, lines[0], "incomplete B SEALIFT-INCOMPLETE-x.txt: ")
	require.Equal(t, int64(1), s.Incomplete)
	require.Zero(t, s.Differences())

	treetest.Create(t, paths[0], file{"SEALIFT-INCOMPLETE-x.txt": treetest.File("anything"), ".sealift-journal": file{"log": treetest.File("work")}})
	lines, s = run(t, compare.Options{Trees: paths, OneWay: true})
	require.Len(t, lines, 3, lines)
	require.Contains(t, lines[0], "incomplete A .sealift-journal: ")
	require.Contains(t, lines[2], "incomplete B SEALIFT-INCOMPLETE-x.txt: ")
	require.Equal(t, int64(1), s.Files)
}

func TestFilters(t *testing.T) {
	t.Parallel()
	paths := trees(t,
		file{"a.mov": treetest.File("1"), "a.tmp": treetest.File("1"), "skip": file{"f": treetest.File("1")}, "d": file{"b.tmp": treetest.File("")}},
		file{"a.mov": treetest.File("1"), "b.tmp": treetest.File("1"), "skip": file{"g": treetest.File("1")}, "d": file{"c": treetest.File("")}},
	)
	var rules filter.List
	require.NoError(t, rules.Exclude("*.tmp"))
	require.NoError(t, rules.Exclude("/skip/"))
	lines, s := run(t, compare.Options{Trees: paths, Filter: &rules})
	require.Equal(t, []string{"only in B d/c"}, lines)
	require.Equal(t, int64(3), s.LeftOut)

	// A directory that only leads to a selected file is not a difference.
	var include filter.List
	require.NoError(t, include.Include("*.mov"))
	require.NoError(t, include.Exclude("*"))
	more := trees(t, file{"a.mov": treetest.File("1"), "x": file{"y": file{"b.tmp": treetest.File("1")}}, "z": file{"e": file{}, "c.mov": treetest.File("12")}}, file{"a.mov": treetest.File("1")})
	for _, verbose := range []bool{false, true} {
		lines, s = run(t, compare.Options{Trees: more, Filter: &include, Verbose: verbose})
		want := []string{"only in A z/ (1 files, 2 bytes)"}
		if verbose {
			want = []string{"equal a.mov", "only in A z/c.mov"}
		}
		require.Equal(t, want, lines)
		require.Equal(t, []compare.Only{{Trees: []int{0}, Files: 1, Bytes: 2, Others: 1}}, s.Only)
	}

	only, err := filter.ReadOnly(strings.NewReader("a.mov\nskip/f\nnowhere\nd/e/f\n"), false)
	require.NoError(t, err)
	lines, s = run(t, compare.Options{Trees: paths, Only: only})
	require.Equal(t, []string{
		"unreadable A d/e: scan: file does not exist", "only in A skip/f", "unreadable A nowhere: scan: file does not exist",
	}, lines)
	require.Equal(t, int64(2), s.LeftOut, "a.tmp and d/b.tmp")
}

func TestWhatIsRefused(t *testing.T) {
	t.Parallel()
	paths := trees(t, file{"sub": file{"f": treetest.File("")}, "file": treetest.File("")}, file{"d": file{"l": treetest.Symlink("gone")}})
	a, empty := paths[0], paths[1]
	link := filepath.Join(filepath.Dir(a), "link")
	require.NoError(t, os.Symlink(filepath.Join(a, "sub"), link))
	var rules filter.List
	require.NoError(t, rules.Exclude("*"))
	for _, c := range []struct {
		want   string
		filter *filter.List
		trees  []string
	}{
		{"A ('%[1]s') and B ('%[1]s/sub/..') are the same directory", nil, []string{a, a + "/sub/.."}},
		{"A ('%[1]s') and C ('%[1]s') are the same directory", nil, []string{a, empty, a}},
		{"B ('%[1]s/sub') is inside A ('%[1]s')", nil, []string{a, a + "/sub"}},
		{"A ('%[2]s') is inside B ('%[1]s')", nil, []string{link, a}},
		{"A ('%[3]s') contains no file; is the card mounted?", nil, []string{empty, a}},
		{"the filters leave no file of A ('%[1]s') to compare", &rules, []string{a, empty}},
		{"A ('%[1]s/nowhere') cannot be opened: no such file or directory", nil, []string{a + "/nowhere", a}},
		{"B ('%[1]s/file') is not a directory; to compare two files, use cmp", nil, []string{empty, a + "/file"}},
	} {
		_, err := compare.Run(t.Context(), &compare.Options{Trees: c.trees, Filter: c.filter}, &counters.Set{})
		var refused *failure.RefusedError
		require.ErrorAs(t, err, &refused)
		require.Equal(t, fmt.Sprintf(strings.ReplaceAll(c.want, "%!", ""), a, link, empty)[:len(refused.Reason)], refused.Reason)
	}
}

func TestQuickComparesTimesAndReadsNothing(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 20, 9, 30, 1, 500_000_000, time.UTC)
	// One change time in a hundred looks like a time stamp of NTFS, which stores multiples
	// of 100 ns.
	same, later := treetest.Mtime(at), treetest.Mtime(at.Add(100*time.Nanosecond))
	paths := trees(t, file{"f": treetest.File("123", same), "g": treetest.File("1", same)}, file{"f": treetest.File("321", same), "g": treetest.File("1", later)})
	reads := func(call fsys.Call) error {
		if call.Op == fsys.OpRead || call.Op == fsys.OpOpen {
			return fmt.Errorf("%s %s is forbidden", call.Op, call.Name)
		}
		return nil
	}
	lines, s := run(t, compare.Options{Trees: paths, Quick: true, FS: &fsys.FS{Fault: reads}})
	require.Equal(t, []string{"differs B g: modified 2026-11-20 09:30:01.500000000 UTC in A, 2026-11-20 09:30:01.500000100 in B"}, lines)
	require.Zero(t, s.Bytes)
	require.Equal(t, int64(2), s.Files)
}

// Files of any size near the limits of blocks differ from a random byte on, or not at all.
// Each way of reading them finds that.
func TestContentIsComparedToTheLastByte(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // no secret
	sizes := []int{1, 4095, pipe.DefaultBlockSize - 1, pipe.DefaultBlockSize, pipe.DefaultBlockSize + 1, 5*pipe.DefaultBlockSize + 77, 12 * pipe.DefaultBlockSize}
	a, b, c := treetest.Dir{}, treetest.Dir{}, treetest.Dir{}
	var want []string
	for i, size := range sizes {
		content := treetest.Pattern(size, byte(i))
		for _, at := range []int{-1, 0, size - 1, random.IntN(size)} {
			name := fmt.Sprintf("%d-%02d-%d", i, len(want), at)
			changed := slices.Clone(content)
			if at >= 0 {
				changed[at] ^= 1
				want = append(want, fmt.Sprintf("differs B %s: content in B differs from byte %d of %d", name, at+1, size))
			}
			if _, known := a[name]; known {
				want = want[:len(want)-1]
				continue
			}
			a[name], b[name], c[name] = treetest.File(string(content)), treetest.File(string(changed)), treetest.File(string(content))
		}
	}
	slices.Sort(want)
	paths := trees(t, a, b, c)
	for _, cache := range []pipe.CacheMode{pipe.CacheKeep, pipe.CacheDrop, pipe.CacheDirect} {
		lines, s := run(t, compare.Options{Trees: paths, Cache: cache})
		slices.Sort(lines)
		require.Equal(t, want, lines, cache)
		require.Equal(t, int64(len(a)), s.Files)
	}
	_, s := run(t, compare.Options{Trees: paths, BytesPerSecond: 100 << 20})
	require.Equal(t, int64(len(want)), s.Differ)
	lines, _ := run(t, compare.Options{Trees: []string{paths[0], paths[2]}})
	require.Empty(t, lines)
}

// Holes that all trees have are not read; 1 TiB of them would need minutes.
func TestHolesOfAllTreesAreNotRead(t *testing.T) {
	t.Parallel()
	hole := func(text string) treetest.Dir {
		return file{"f": treetest.Sparse(1<<40, map[int64]string{0: "begin", 1<<39 + 3: text, 1<<40 - 3: "end"})}
	}
	paths := trees(t, hole("middle"), hole("MIDDLE"), hole("middle"))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var lines []string
	s, err := compare.Run(ctx, &compare.Options{Trees: paths, Report: func(e compare.Event) { lines = append(lines, text(e)) }}, &counters.Set{})
	require.NoError(t, err)
	require.Equal(t, []string{fmt.Sprintf("differs B f: content in B differs from byte %d of %d", int64(1<<39+4), int64(1)<<40)}, lines)
	require.Equal(t, int64(1)<<40, s.Bytes)
}

// For random trees, compare finds the same differences as a plain comparison of their
// paths.
func TestRandomTreesAgainstAPlainComparison(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // no secret
	names := []string{"a", "a-", "a.b", "ab", "b", "\xff", "z "}
	var tree func(depth int) treetest.Dir
	tree = func(depth int) treetest.Dir {
		d := treetest.Dir{}
		for _, name := range names {
			switch n := random.IntN(10); {
			case n < 3 && depth < 3:
				d[name] = tree(depth + 1)
			case n < 6:
				d[name] = treetest.File(string(rune('0' + random.IntN(2))))
			case n == 6:
				d[name] = treetest.Symlink(string(rune('0' + random.IntN(2))))
			}
		}
		return d
	}
	for range 100 {
		a, b := tree(0), tree(0)
		a["file"] = treetest.File("")
		paths := trees(t, a, b)
		var want []string
		all := plain(t, paths[0])
		for path, is := range plain(t, paths[1]) {
			if other, ok := all[path]; !ok || is != other {
				all[path] = "different"
			} else {
				delete(all, path)
			}
		}
		for path := range all {
			want = append(want, path)
		}
		slices.Sort(want)
		seen := map[string]bool{}
		var order []string
		lines, _ := run(t, compare.Options{Trees: paths, Verbose: true})
		for _, line := range lines {
			if strings.HasPrefix(line, "equal ") {
				continue
			}
			path := line
			for _, verdict := range []string{"differs B ", "type differs B ", "only in A ", "only in B "} {
				path = strings.TrimPrefix(path, verdict)
			}
			path, _, _ = strings.Cut(path, ":")
			order = append(order, path)
			seen[strings.TrimSuffix(path, "/")] = true
		}
		var got []string
		for path := range seen {
			got = append(got, path)
		}
		slices.Sort(got)
		require.Equal(t, want, got)
		require.True(t, slices.IsSorted(order), order)
	}
}

// plain returns a description of every path of a tree.
func plain(t *testing.T, root string) map[string]string {
	t.Helper()
	paths := map[string]string{}
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == root {
			return err
		}
		is := d.Type().String()
		switch {
		case d.Type().IsRegular():
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			is += string(content)
		case d.Type() == fs.ModeSymlink:
			target, err := os.Readlink(path)
			if err != nil {
				return err
			}
			is += target
		}
		paths[strings.TrimPrefix(path, root+"/")] = is
		return nil
	}))
	return paths
}
