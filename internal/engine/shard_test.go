package engine

import (
	"context"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/event"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/metadata"
	"github.com/seed65876f4f/sealift/internal/record"
	"github.com/seed65876f4f/sealift/internal/resume"
	"github.com/seed65876f4f/sealift/internal/shard"
	"github.com/seed65876f4f/sealift/internal/treetest"
)

// plannedCopy is a copy that is split into shards.
type plannedCopy struct {
	testing.TB
	path   string // of the plan
	opts   Options
	shards int
}

// planCopy plans a copy as sealift plan does, without its refusals.
func planCopy(t testing.TB, o Options, shards int, lines func(*shard.Planner)) *plannedCopy {
	t.Helper()
	return planCopyIn(t, filepath.Join(t.TempDir(), "plan"), o, shards, lines)
}

// planCopyIn is planCopy for a plan in the directory path, which it makes.
func planCopyIn(t testing.TB, path string, o Options, shards int, lines func(*shard.Planner)) *plannedCopy {
	t.Helper()
	c := &plannedCopy{TB: t, path: path, opts: o}
	require.NoError(t, os.Mkdir(c.path, 0o700))
	source, err := fsys.OpenRoot(o.Source)
	require.NoError(t, err)
	defer source.Close()
	info, err := source.Stat()
	require.NoError(t, err)
	po := shard.PlanOptions{
		Copy: planned(&o), Source: shard.RootOf(o.Source, info), Shards: shards,
		Links: o.Preserve&metadata.PreserveLinks != 0, Lists: []shard.List{{Name: "LIST", Hash: o.Hashes[0]}},
	}
	var roots []*fsys.Dir
	for _, target := range o.Targets {
		require.NoError(t, os.MkdirAll(target, 0o755))
		root, err := fsys.OpenRoot(target)
		require.NoError(t, err)
		defer root.Close()
		info, err := root.Stat()
		require.NoError(t, err)
		po.Targets = append(po.Targets, shard.RootOf(target, info))
		roots = append(roots, root)
	}
	dir, err := fsys.OpenRoot(c.path)
	require.NoError(t, err)
	defer dir.Close()
	p, err := shard.NewPlanner(dir, po)
	require.NoError(t, err)
	defer p.Close()
	c.addTree(p, source)
	if lines != nil {
		lines(p)
	}
	plan, err := p.Write(context.Background())
	require.NoError(t, err)
	c.shards = len(plan.Shards)
	for _, root := range roots {
		j, err := resume.OpenJournal(root, resume.JournalName(""))
		require.NoError(t, err)
		require.NoError(t, j.MarkPlan(resume.PlanMark{ID: plan.ID, Path: c.path}))
		j.Close()
	}
	return c
}

// addTree adds everything in the source to the plan.
func (c *plannedCopy) addTree(p *shard.Planner, source *fsys.Dir) {
	finder := fsys.NewFinder(source, 8)
	defer finder.Close()
	require.NoError(c, filepath.WalkDir(c.opts.Source, func(path string, _ fs.DirEntry, err error) error {
		require.NoError(c, err)
		rel, err := filepath.Rel(c.opts.Source, path)
		require.NoError(c, err)
		if rel == "." {
			return p.AddDirectory(shard.Directory{})
		}
		rel = filepath.ToSlash(rel)
		info, err := finder.Lstat(rel)
		require.NoError(c, err)
		if info.Kind == fsys.Directory {
			return p.AddDirectory(shard.Directory{Path: rel})
		}
		return p.Add(shard.Entry{Path: rel, Kind: info.Kind, Size: info.Size}, info.ID, info.Nlink)
	}))
}

// store opens the plan through sys.
func (c *plannedCopy) store(sys *fsys.FS) *shard.Store {
	c.Helper()
	s, err := c.open(sys)
	require.NoError(c, err)
	return s
}

func (c *plannedCopy) open(sys *fsys.FS) (*shard.Store, error) {
	dir, err := sys.OpenRoot(c.path)
	if err != nil {
		return nil, err
	}
	c.Cleanup(dir.Close)
	return shard.Open(dir)
}

// run copies one shard, with everything opened through sys.
func (c *plannedCopy) run(ctx context.Context, sys *fsys.FS, index int) *runReport {
	c.Helper()
	out := &runReport{}
	o := in(sys, c.opts)
	o.Report = func(e event.Event) { out.events = append(out.events, e) }
	s, err := c.open(sys)
	if err != nil {
		out.err = failure.Refuse("plan: %s", err) // as the command does
		return out
	}
	out.summary, out.err = RunShard(ctx, &o, s, index, shard.AttemptOptions{Patience: time.Millisecond, Poll: time.Millisecond}, &counters.Set{})
	return out
}

// runAll copies all shards.
func (c *plannedCopy) runAll() {
	c.Helper()
	for i := range c.shards {
		out := c.run(context.Background(), nil, i)
		require.NoError(c, out.err, "%s", out)
		require.False(c, out.anything(), "%s", out)
	}
}

// lines merges the parts of a destination.
func (c *plannedCopy) lines(target int) (lines []record.Outcome) {
	c.Helper()
	s := c.store(nil)
	for i := range c.shards {
		state, err := s.Status(i)
		require.NoError(c, err)
		require.NotNil(c, state.Finished, "shard %d is not finished", i)
		require.NoError(c, s.Part(state.Finished, shard.PartReader{Line: func(at int, l *record.Outcome) error {
			if at == target {
				lines = append(lines, *l)
			}
			return nil
		}}))
	}
	slices.SortStableFunc(lines, func(a, b record.Outcome) int { return strings.Compare(a.Path, b.Path) })
	return lines
}

// manifest returns the merged lines as a manifest.
func (c *plannedCopy) manifest(target int) string {
	var b strings.Builder
	for _, l := range c.lines(target) {
		if l.Digests != nil {
			name, escaped := strings.NewReplacer(`\`, `\\`, "\n", `\n`, "\r", `\r`).Replace(l.Path), ""
			if name != l.Path {
				escaped = `\`
			}
			b.WriteString(escaped + c.opts.Hashes[0].Text(l.Digests[0]) + "  " + name + "\n")
		}
	}
	return b.String()
}

// outcomes returns what a finished shard has counted and recorded.
func (c *plannedCopy) outcomes(index int) (counts ShardResult, list []shard.Outcome) {
	c.Helper()
	s := c.store(nil)
	state, err := s.Status(index)
	require.NoError(c, err)
	require.NotNil(c, state.Finished)
	require.NoError(c, json.Unmarshal(state.Finished.Counts, &counts))
	require.NoError(c, s.Part(state.Finished, shard.PartReader{Outcome: func(o *shard.Outcome) error {
		list = append(list, *o)
		return nil
	}}))
	return counts, list
}

// completeDirs gives the directories of a destination the metadata of the source's, and removes
// the journal.
func (c *plannedCopy) completeDirs(target string) {
	c.Helper()
	require.NoError(c, os.RemoveAll(filepath.Join(target, resume.JournalName(""))))
	var dirs []string
	require.NoError(c, filepath.WalkDir(c.opts.Source, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && path != c.opts.Source {
			dirs = append(dirs, path)
		}
		return err
	}))
	for _, path := range slices.Backward(dirs) {
		rel, err := filepath.Rel(c.opts.Source, path)
		require.NoError(c, err)
		info, err := os.Lstat(path)
		require.NoError(c, err)
		to := filepath.Join(target, rel)
		if err := os.Mkdir(to, 0o700); err == nil {
			c.Logf("%s has no entries", rel)
		}
		require.NoError(c, os.Chmod(to, info.Mode()))
		require.NoError(c, os.Chtimes(to, info.ModTime(), info.ModTime()))
	}
}

// shardTree has what a copy meets: links, holes, special files, names that need quoting.
func shardTree() treetest.Dir {
	file := func(size int, seed byte, options ...treetest.Option) treetest.Node {
		return treetest.File(string(treetest.Pattern(size, seed)), append(options, treetest.Mtime(longAgo))...)
	}
	pair := treetest.Linked("pair")
	return treetest.Dir{
		"a\nb\\":   file(10, 1, treetest.Mode(0o4711)),
		"a":        treetest.Directory(treetest.Dir{"x": file(bigSize, 2), "pair": file(40, 3, pair), "b": treetest.Dir{"y": file(1, 4)}}, treetest.Mode(0o750), treetest.Mtime(longAgo)),
		"a-b":      treetest.Dir{"x": file(20, 5), "link": treetest.Symlink("../a/x", treetest.Mtime(longAgo))},
		"empty":    treetest.Directory(treetest.Dir{}, treetest.Mtime(longAgo)),
		"mate":     file(40, 3, pair),
		"\xff.dat": file(30, 6),
		"pipe":     treetest.Fifo(treetest.Mtime(longAgo)),
		"sparse":   treetest.Sparse(1<<20, map[int64]string{4096: "data"}, treetest.Mtime(longAgo)),
		"z":        treetest.Dir{"1": file(0, 7), "2": file(300, 8), "3": file(3*sweepBlock, 9)},
	}
}

func newShardSource(t testing.TB) (src, dst string) {
	t.Helper()
	if os.PathSeparator == '\\' {
		t.Skip("Windows has no such names and kinds")
	}
	base := treetest.MemoryDir(t)
	src, dst = filepath.Join(base, "src"), filepath.Join(base, "dst")
	treetest.Create(t, src, shardTree())
	return src, dst
}

func TestShardsMakeTheTreeOfOneCopy(t *testing.T) {
	t.Parallel()
	src, dst := newShardSource(t)
	one, two := dst+"1", dst+"2"
	whole := dst + "whole"
	o := options(src, one, two)
	o.Verify = VerifyDest
	c := planCopy(t, o, 4, nil)
	require.Equal(t, 4, c.shards)
	c.runAll()
	out := runReported(t, options(src, whole))
	require.False(t, out.anything(), "%s", out)
	want, err := os.ReadFile(filepath.Join(whole, "SHA256SUMS"))
	require.NoError(t, err)
	var files, links int64
	for i, target := range o.Targets {
		assert.Equal(t, string(want), c.manifest(i))
		c.completeDirs(target)
		treetest.Compare(t, src, target, treetest.Options{})
	}
	for i := range c.shards {
		counts, list := c.outcomes(i)
		assert.Empty(t, list)
		files, links = files+counts.Files, links+counts.HardLinks
		assert.Equal(t, counts.Targets[0].Present, counts.Targets[0].Verified)
	}
	assert.Equal(t, []int64{out.summary.Files, out.summary.HardLinks}, []int64{files, links})
}

func TestAFinishedShardIsNotCopiedAgain(t *testing.T) {
	t.Parallel()
	src, dst := newShardSource(t)
	c := planCopy(t, options(src, dst), 1, nil)
	c.runAll()
	out := c.run(context.Background(), nil, 0)
	require.ErrorAs(t, out.err, new(*shard.FinishedError))
	require.Nil(t, out.summary)
	_, err := os.Lstat(filepath.Join(c.path, "work/00000/000002"))
	require.ErrorIs(t, err, fs.ErrNotExist)
}

func TestATaskRefusesOtherRoots(t *testing.T) {
	t.Parallel()
	src, dst := newShardSource(t)
	c := planCopy(t, options(src, dst), 2, nil)
	refused := func(why string) {
		t.Helper()
		out := c.run(context.Background(), nil, 0)
		require.ErrorAs(t, out.err, new(*failure.RefusedError))
		require.ErrorContains(t, out.err, why)
		require.False(t, fileExists(filepath.Join(c.path, "work/00000/000001")), "an attempt was begun")
	}
	c.opts.Targets = []string{t.TempDir()}
	refused("not the destination of the plan")
	c.opts.Targets = []string{filepath.Join(dst, "absent")}
	refused("not the destination of the plan")
	require.NoFileExists(t, c.opts.Targets[0])
	c.opts.Targets = []string{dst}
	c.opts.Source = t.TempDir()
	refused("not the source of the plan")
	c.opts.Source = src
	shardFile := filepath.Join(c.path, "shards/00000")
	text, err := os.ReadFile(shardFile)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(shardFile, append(text, 'x'), 0o600))
	refused("its size or digest differs")
}

// Run refuses a destination in which a plan is in progress.
func TestOtherCopiesWaitForTheMerge(t *testing.T) {
	t.Parallel()
	src, dst := newShardSource(t)
	c := planCopy(t, options(src, dst), 1, nil)
	o := options(src, dst)
	_, err := Run(t.Context(), &o, &counters.Set{})
	require.ErrorAs(t, err, new(*failure.RefusedError))
	require.ErrorContains(t, err, c.path)
	require.ErrorContains(t, err, "sealift merge")
	require.NoFileExists(t, filepath.Join(dst, "mate"))
}
