package engine

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/treetest"
)

// linkTree is a tree of a few names, of which some are hard links of each other.
type linkTree string

var linkNames = []string{"a", "b", "d/c", "d/e", "f"}

// linkFile is what a name of a linkTree leads to.
type linkFile struct {
	content string
	mtime   time.Time
	info    fs.FileInfo
}

func (f linkFile) same(other linkFile) bool {
	return f.info != nil && other.info != nil && os.SameFile(f.info, other.info)
}

func (f linkFile) equal(other linkFile) bool {
	return f.same(other) && f.content == other.content && f.mtime.Equal(other.mtime)
}

func (l linkTree) path(name string) string { return filepath.Join(string(l), filepath.FromSlash(name)) }

// state returns the files of the tree by name.
func (l linkTree) state(t require.TestingT) map[string]linkFile {
	files := map[string]linkFile{}
	for _, name := range linkNames {
		info, err := os.Stat(l.path(name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		require.NoError(t, err)
		content, err := os.ReadFile(l.path(name))
		require.NoError(t, err)
		files[name] = linkFile{string(content), info.ModTime(), info}
	}
	return files
}

// change makes a drawn change to one name.
func (l linkTree) change(t *rapid.T, name string) {
	require.NoError(t, os.MkdirAll(filepath.Dir(l.path(name)), 0o755)) //nolint:gosec // a test's
	what := rapid.SampledFrom([]string{"write", "write", "link", "link", "link", "touch", "remove", "separate"}).Draw(t, "change of "+name)
	now := l.state(t)
	have, exists := now[name]
	write := func(content string, mtime time.Time) {
		_ = os.Remove(l.path(name))
		require.NoError(t, os.WriteFile(l.path(name), []byte(content), 0o644)) //nolint:gosec // a test's
		require.NoError(t, os.Chtimes(l.path(name), mtime, mtime))
	}
	drawTime := func() time.Time { return rapid.SampledFrom([]time.Time{longAgo, longAgo, before}).Draw(t, "time") }
	switch {
	case what == "write":
		write(rapid.SampledFrom([]string{"one", "two", "three"}).Draw(t, "content"), drawTime())
	case what == "link" && len(now) > 0:
		other := rapid.SampledFrom(slices.Sorted(maps.Keys(now))).Draw(t, "other name")
		if other != name {
			_ = os.Remove(l.path(name))
			require.NoError(t, os.Link(l.path(other), l.path(name)))
		}
	case what == "touch" && exists:
		mtime := drawTime()
		require.NoError(t, os.Chtimes(l.path(name), mtime, mtime))
	case what == "remove":
		_ = os.Remove(l.path(name))
	case what == "separate" && exists:
		write(have.content, have.mtime)
	}
}

// Trees with hard links are changed at random on both sides, and copied. No name loses right
// content. A name gets no content but that of the source; where size and time made the run trust a
// file with other content, a new name may get that.
func TestCopiesOfHardLinksLoseNothing(t *testing.T) {
	t.Parallel()
	base := treetest.MemoryDir(t)
	runs := 0
	rapid.Check(t, func(t *rapid.T) {
		runs++
		src, dst := linkTree(filepath.Join(base, fmt.Sprint(runs, "s"))), linkTree(filepath.Join(base, fmt.Sprint(runs, "d")))
		defer os.RemoveAll(string(src)) //nolint:errcheck // only disk space
		defer os.RemoveAll(string(dst)) //nolint:errcheck // only disk space
		names := rapid.SliceOfN(rapid.SampledFrom(linkNames), 1, 8)
		require.NoError(t, os.MkdirAll(src.path("d"), 0o755)) //nolint:gosec // a test's
		for _, name := range names.Draw(t, "names of the source") {
			src.change(t, name)
		}
		o := options(string(src), string(dst))
		o.Workers = rapid.SampledFrom([]int{1, 3}).Draw(t, "workers")
		if rapid.IntRange(0, 3).Draw(t, "hashes") == 0 {
			o.Hashes = []hash.Algorithm{}
		}
		if rapid.IntRange(0, 4).Draw(t, "first copy") > 0 {
			_, err := Run(t.Context(), &o, new(counters.Set))
			require.NoError(t, err)
		}
		for range rapid.IntRange(1, 3).Draw(t, "rounds") {
			for _, name := range rapid.SliceOfN(rapid.SampledFrom(linkNames), 0, 3).Draw(t, "names of the source") {
				src.change(t, name)
			}
			for _, name := range rapid.SliceOfN(rapid.SampledFrom(linkNames), 0, 5).Draw(t, "names of the destination") {
				dst.change(t, name)
			}
			o.Policy = rapid.SampledFrom(allPolicies()).Draw(t, "policy")
			copyHardLinks(t, o, src, dst)
		}
	})
}

// copyHardLinks copies src to dst and checks the result.
func copyHardLinks(t *rapid.T, o Options, src, dst linkTree) {
	want, was := src.state(t), dst.state(t)
	o.DryRun = true
	_, err := Run(t.Context(), &o, new(counters.Set))
	require.NoError(t, err)
	require.True(t, maps.EqualFunc(was, dst.state(t), linkFile.equal), "a dry run changes nothing")
	o.DryRun = false
	var mu sync.Mutex
	conflicts := map[string]bool{}
	o.Report = func(e Event) {
		mu.Lock()
		defer mu.Unlock()
		if e.Kind == EventConflict {
			conflicts[e.Path] = true
		}
	}
	summary, err := Run(t.Context(), &o, new(counters.Set))
	require.NoError(t, err)
	require.Zero(t, summary.Errors)
	have := dst.state(t)

	trusted := map[string]bool{} // contents that size and time make right, by the source's file
	quick := func(name string) bool {
		old, exists := was[name]
		return exists && len(old.content) == len(want[name].content) && old.mtime.Equal(want[name].mtime) &&
			(o.Policy == PolicyDefault || o.Policy == PolicyProtect || o.Policy == PolicyUpdate)
	}
	for name := range want {
		if quick(name) || o.Policy == PolicyNever {
			for other := range want {
				if want[other].same(want[name]) {
					trusted[other+was[name].content] = true
				}
			}
		}
	}
	for _, name := range linkNames {
		source, wanted := want[name]
		old, existed := was[name]
		now, exists := have[name]
		switch {
		case !wanted:
			require.Equal(t, existed, exists, name)
			require.Equal(t, old.content, now.content, name)
			continue
		case !exists:
			require.Fail(t, "it is missing", name)
		case existed && old.content == source.content:
			require.Equal(t, source.content, now.content, "%s loses the right content", name)
		case existed && (o.Policy == PolicyNever || o.Policy == PolicyProtect):
			require.Equal(t, old.content, now.content, "%s is replaced", name)
		case conflicts[name]:
			require.Equal(t, old.content, now.content, "%s is replaced", name)
		case existed && quick(name):
			require.Contains(t, []string{old.content, source.content}, now.content, name)
		case existed:
			require.Equal(t, source.content, now.content, name)
		case now.content != source.content:
			require.True(t, trusted[name+now.content], "%s: new, with the content %q", name, now.content)
		}
		if o.Policy == PolicyNever && existed {
			require.True(t, old.same(now), "%s is not touched", name)
		}
	}
	if len(conflicts) > 0 || o.Policy == PolicyNever {
		return
	}
	for _, a := range linkNames {
		for _, b := range linkNames {
			if _, wanted := want[a]; wanted && want[a].same(want[b]) {
				require.True(t, have[a].same(have[b]), "%s and %s are one file", a, b)
			}
		}
	}
}
