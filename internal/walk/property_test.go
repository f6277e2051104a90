package walk

import (
	"context"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/seed65876f4f/sealift/internal/filter"
)

// drawTree draws a tree whose names are full of bytes around the slash.
func drawTree(t *rapid.T) []string {
	name := rapid.StringOfN(rapid.SampledFrom([]rune("ab!-.0 ~é")), 1, 3, -1).Filter(func(s string) bool {
		return s != "." && s != ".." && (runtime.GOOS != "windows" || strings.Trim(s, ". ") == s)
	})
	path := rapid.Custom(func(t *rapid.T) string { return strings.Join(rapid.SliceOfN(name, 1, 4).Draw(t, "names"), "/") })
	isDir := map[string]bool{} // false: a file
	for _, p := range rapid.SliceOfN(path, 0, 25).Draw(t, "paths") {
		if _, taken := isDir[p]; taken {
			continue
		}
		ok := true
		for up := p; ; {
			i := strings.LastIndexByte(up, '/')
			if i < 0 {
				break
			}
			up = up[:i]
			if d, there := isDir[up]; there && !d {
				ok = false
			}
		}
		if !ok {
			continue
		}
		for i, c := range p {
			if c == '/' {
				isDir[p[:i]] = true
			}
		}
		isDir[p] = rapid.IntRange(0, 5).Draw(t, "kind") == 0
	}
	list := []string{}
	for p, d := range isDir {
		if d {
			p += "/"
		}
		list = append(list, p)
	}
	slices.Sort(list)
	return list
}

func split(tree []string) (files, dirs []string) {
	files, dirs = []string{}, []string{""}
	for _, p := range tree {
		if d, ok := strings.CutSuffix(p, "/"); ok {
			dirs = append(dirs, d)
		} else {
			files = append(files, p)
		}
	}
	slices.Sort(files)
	slices.Sort(dirs)
	return files, dirs
}

func TestOneWorkerMeetsPathsInByteOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		paths := drawTree(t)
		root := makeTree(t, paths...)
		defer os.RemoveAll(root)
		v := newRecorder()
		walkTree(context.Background(), t, root, 16, v, Options{Workers: 1})
		files, _ := split(paths)
		require.Equal(t, files, v.paths("entry"))
		require.Empty(t, v.failed)
		requireOrderly(t, v)
	})
}

func TestEverythingIsVisitedOnce(t *testing.T) {
	defer goleak.VerifyNone(t)
	rapid.Check(t, func(t *rapid.T) {
		paths := drawTree(t)
		root := makeTree(t, paths...)
		defer os.RemoveAll(root)
		v := newRecorder()
		o := Options{Workers: rapid.IntRange(1, 8).Draw(t, "workers")}
		if rapid.Bool().Draw(t, "found") {
			o.Found = v.found
		}
		walkTree(context.Background(), t, root, rapid.IntRange(1, 8).Draw(t, "handles"), v, o)
		files, dirs := split(paths)
		require.ElementsMatch(t, files, v.paths("entry"))
		require.ElementsMatch(t, dirs, v.paths("enter"))
		require.ElementsMatch(t, dirs, v.paths("leave"))
		require.Empty(t, v.failed)
		requireOrderly(t, v)
	})
}

// Entries that are read during the listing obey the same filters, lists of paths and
// reserved names.
func TestTheSameIsFound(t *testing.T) {
	root := tree(t, "a/1.txt", "a/2.bin", "b/c/3.txt", "d.bin", ".sealift-x", ".sealift-journal/log", "a/.sealift-0123456789abcdef.tmp", "e/")
	rules := &filter.List{}
	require.NoError(t, rules.Exclude("*.bin"))
	only, err := filter.ReadOnly(strings.NewReader("a\nd.bin\nb/c/3.txt\nb/none\n"), false)
	require.NoError(t, err)
	for _, o := range []Options{{}, {Filter: rules}, {Only: only}, {Filter: rules, Only: only}} {
		o.Workers, o.SkipReserved = 1, func(*Dir, string) {}
		visit := func(found bool) (entries, left, failed []string) {
			v, o := newRecorder(), o
			if found {
				o.Found = v.found
			}
			walkTree(t.Context(), t, root, 4, v, o)
			for path := range v.failed {
				failed = append(failed, path)
			}
			return v.paths("entry"), v.paths("leave"), failed
		}
		entries, left, failed := visit(false)
		gotEntries, gotLeft, gotFailed := visit(true)
		require.ElementsMatch(t, entries, gotEntries)
		require.ElementsMatch(t, left, gotLeft)
		require.ElementsMatch(t, failed, gotFailed)
	}
}
