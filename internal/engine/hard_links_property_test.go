package engine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/event"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/policy"
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

// copyTo makes a copy of the tree with equal hard links, and with its manifest.
func (l linkTree) copyTo(t require.TestingT, to linkTree) {
	require.NoError(t, os.MkdirAll(to.path("d"), 0o755)) //nolint:gosec // a test's
	files := l.state(t)
	for i, name := range linkNames {
		f, exists := files[name]
		if !exists {
			continue
		}
		first := slices.IndexFunc(linkNames, func(other string) bool { return f.same(files[other]) })
		if first < i {
			require.NoError(t, os.Link(to.path(linkNames[first]), to.path(name)))
			continue
		}
		require.NoError(t, os.WriteFile(to.path(name), []byte(f.content), 0o644)) //nolint:gosec // a test's
		require.NoError(t, os.Chtimes(to.path(name), f.mtime, f.mtime))
	}
	d, err := os.Stat(l.path("d"))
	require.NoError(t, err)
	require.NoError(t, os.Chtimes(to.path("d"), d.ModTime(), d.ModTime()))
	if lines, err := os.ReadFile(l.path("SHA256SUMS")); err == nil {
		require.NoError(t, os.WriteFile(to.path("SHA256SUMS"), lines, 0o644)) //nolint:gosec // a test's
	}
}

// lines returns the manifest of the tree: the digests by name.
func (l linkTree) lines(t require.TestingT) map[string]string {
	b, err := os.ReadFile(l.path("SHA256SUMS"))
	if errors.Is(err, fs.ErrNotExist) {
		return map[string]string{}
	}
	require.NoError(t, err)
	lines := map[string]string{}
	for line := range strings.Lines(string(b)) {
		digest, name, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "  ")
		lines[name] = digest
	}
	return lines
}

// linkVerdict is what happens to one name.
type linkVerdict int

const (
	isLeft     linkVerdict = iota // stays as it is, because of policy "never" or a conflict
	isSkipped                     // stays as it is, because it is up to date by size and time
	isEqual                       // was compared equal; gets the source's metadata
	isMoved                       // is created, or gets a new file
	isConflict                    // stays as it is, and is reported
)

// linkOracle judges a copy of hard links by the rules of docs/overwriting.md.
type linkOracle struct {
	policy   policy.Policy
	hashing  bool
	src, dst map[string]linkFile // before the run
	lines    map[string]string   // of the destination, before the run
}

// policyOf applies the overwrite policy to one name.
func (o *linkOracle) policyOf(name string) linkVerdict {
	want := o.src[name]
	have, exists := o.dst[name]
	sameSize, sameTime, same := len(have.content) == len(want.content), have.mtime.Equal(want.mtime), have.content == want.content
	cautious := o.policy == policy.Default || o.policy == policy.Protect
	switch {
	case !exists:
		return isMoved
	case o.policy == policy.Never:
		return isLeft
	case o.policy == policy.Always:
		return isMoved
	case o.policy != policy.Checksum && sameSize && sameTime:
		if o.hashing && o.lines[name] == "" {
			return o.compare(name)
		}
		return isSkipped
	case o.policy != policy.Update && same:
		return isEqual
	case o.policy == policy.Protect, cautious && have.mtime.After(want.mtime):
		return isConflict
	}
	return isMoved
}

// compare judges a file that is up to date by size and time, and is compared.
func (o *linkOracle) compare(name string) linkVerdict {
	switch {
	case o.dst[name].content == o.src[name].content:
		return isEqual
	case o.policy != policy.Protect && o.lines[name] == sha(o.src[name].content):
		return isMoved // it is damaged
	}
	return isConflict
}

// isShared reports whether the existing file of the name also has a name outside its group.
func (o *linkOracle) isShared(name string) bool {
	for other, have := range o.dst {
		if have.same(o.dst[name]) && !o.src[other].same(o.src[name]) {
			return true
		}
	}
	return false
}

// judge returns the verdicts about the names of one file of the source.
func (o *linkOracle) judge(names []string) map[string]linkVerdict {
	verdicts := map[string]linkVerdict{}
	changes, digests := false, false
	for _, name := range names {
		v := o.policyOf(name)
		_, exists := o.dst[name]
		digests = digests || exists && o.hashing && (v == isEqual || v == isConflict && len(o.dst[name].content) == len(o.src[name].content))
		if v == isEqual && !o.dst[name].mtime.Equal(o.src[name].mtime) && o.isShared(name) {
			v = isMoved
		}
		verdicts[name] = v
		changes = changes || v == isMoved
	}
	for _, name := range names {
		contradicted := digests && o.lines[name] != sha(o.src[name].content)
		if verdicts[name] == isSkipped && (changes || contradicted) {
			verdicts[name] = o.compare(name)
		}
	}
	return verdicts
}

// check judges the state after a run, and its conflicts and lines.
func (o *linkOracle) check(t require.TestingT, have map[string]linkFile, lines map[string]string, conflicts map[string]bool) {
	for _, name := range linkNames {
		if _, wanted := o.src[name]; !wanted {
			require.Equal(t, o.dst[name].info != nil, have[name].info != nil, name)
			require.True(t, o.dst[name].info == nil || o.dst[name].equal(have[name]), "%s is not in the source", name)
			require.Equal(t, o.lines[name] != "" && have[name].info != nil, lines[name] != "", "the line of %s", name)
			continue
		}
		names := slices.DeleteFunc(slices.Clone(linkNames), func(other string) bool { return !o.src[other].same(o.src[name]) })
		verdicts := o.judge(names)
		changes := slices.ContainsFunc(names, func(other string) bool { return verdicts[other] == isMoved })
		v := verdicts[name]
		old, source, now := o.dst[name], o.src[name], have[name]
		require.Equal(t, v == isConflict, conflicts[name], "conflict of %s", name)
		if v == isLeft || v == isSkipped || v == isConflict {
			require.True(t, old.same(now), "%s is replaced", name)
			require.Equal(t, old.content, now.content, name)
			require.Equal(t, o.lines[name], lines[name], "the line of %s", name)
			continue
		}
		require.Equal(t, source.content, now.content, name)
		require.True(t, source.mtime.Equal(now.mtime), "the time of %s", name)
		if o.hashing {
			require.Equal(t, sha(source.content), lines[name], "the line of %s", name)
		}
		require.True(t, changes || old.same(now), "%s is replaced", name)
		for _, other := range names {
			if w := verdicts[other]; changes && (w == isMoved || w == isEqual) {
				require.True(t, now.same(have[other]), "%s and %s are one file", name, other)
			}
		}
		if o.policy == policy.Never || o.policy == policy.Always {
			for other, was := range o.dst {
				require.False(t, was.same(now), "%s is a link of the old file %s", name, other)
			}
		}
	}
}

// linkRun is the outcome of a run.
type linkRun struct {
	counts    []int64
	dst       Counts
	actions   map[string]string
	conflicts map[string]bool
}

func runLinks(t require.TestingT, o Options) linkRun {
	var mu sync.Mutex
	out := linkRun{actions: map[string]string{}, conflicts: map[string]bool{}}
	o.Report = func(e event.Event) {
		mu.Lock()
		defer mu.Unlock()
		switch e.Kind {
		case event.Conflict:
			out.conflicts[e.Path] = true
		case event.Copied, event.Skipped:
			if e.Entry != fsys.Directory {
				out.actions[e.Path] = e.Action
			}
		}
	}
	s, err := Run(context.Background(), &o, new(counters.Set))
	require.NoError(t, err)
	require.Zero(t, s.Errors)
	out.counts, out.dst = []int64{s.Files, s.HardLinks, s.Skipped, s.Conflicts, s.Mismatches}, s.Targets[0].Counts
	return out
}

// Trees with hard links are changed at random on both sides, and copied. An oracle judges the result.
// It does not depend on the number of workers; a dry run reports the same and changes nothing; and a
// repetition changes nothing.
func TestCopiesOfHardLinks(t *testing.T) {
	t.Parallel()
	base := treetest.MemoryDir(t)
	runs := 0
	rapid.Check(t, func(t *rapid.T) {
		runs++
		src, dst := linkTree(filepath.Join(base, fmt.Sprint(runs, "s"))), linkTree(filepath.Join(base, fmt.Sprint(runs, "d")))
		twin := dst + "-twin"
		defer os.RemoveAll(string(src))  //nolint:errcheck // only disk space
		defer os.RemoveAll(string(dst))  //nolint:errcheck // only disk space
		defer os.RemoveAll(string(twin)) //nolint:errcheck // only disk space
		names := rapid.SliceOfN(rapid.SampledFrom(linkNames), 1, 8)
		require.NoError(t, os.MkdirAll(src.path("d"), 0o755)) //nolint:gosec // a test's
		require.NoError(t, os.MkdirAll(dst.path("d"), 0o755)) //nolint:gosec // a test's
		for _, name := range names.Draw(t, "names of the source") {
			src.change(t, name)
		}
		o := options(string(src), string(dst))
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
			require.NoError(t, os.RemoveAll(string(twin)))
			dst.copyTo(t, twin)
			judgeLinks(t, o, src, dst, twin)
		}
	})
}

// judgeLinks copies src to dst with one worker and to twin, which equals dst, with eight.
func judgeLinks(t *rapid.T, o Options, src, dst, twin linkTree) {
	was := dst.state(t)
	oracle := &linkOracle{policy: o.Policy, hashing: len(o.Hashes) > 0, src: src.state(t), dst: was, lines: dst.lines(t)}
	o.DryRun = true
	o.Workers = rapid.SampledFrom([]int{1, 8}).Draw(t, "workers of the dry run")
	dry := runLinks(t, o)
	require.True(t, maps.EqualFunc(was, dst.state(t), linkFile.equal), "a dry run changes nothing")
	o.DryRun, o.Workers = false, 1
	out := runLinks(t, o)
	require.Equal(t, out, dry, "a dry run")
	have := dst.state(t)
	oracle.check(t, have, dst.lines(t), out.conflicts)

	many := o
	many.Targets, many.Workers = []string{string(twin)}, 8
	require.Equal(t, out, runLinks(t, many), "eight workers")
	other := twin.state(t)
	for _, a := range linkNames {
		require.Equal(t, have[a].content, other[a].content, a)
		require.True(t, have[a].mtime.Equal(other[a].mtime), a)
		for _, b := range linkNames {
			require.Equal(t, have[a].same(have[b]), other[a].same(other[b]), "%s and %s", a, b)
		}
	}
	require.Equal(t, dst.lines(t), twin.lines(t))

	lines := dst.lines(t)
	again := runLinks(t, o)
	require.Equal(t, lines, dst.lines(t), "a repetition")
	if o.Policy != policy.Always {
		require.True(t, maps.EqualFunc(have, dst.state(t), linkFile.equal), "a repetition changes nothing")
		require.Zero(t, again.counts[0], "a repetition copies nothing")
		require.Zero(t, again.counts[1], "a repetition links nothing")
	}
}
