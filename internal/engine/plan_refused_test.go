package engine

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/policy"
	"github.com/seed65876f4f/sealift/internal/resume"
	"github.com/seed65876f4f/sealift/internal/treetest"
)

func TestAPlanIsRefusedWhereACopyIs(t *testing.T) {
	needsSymlinks(t)
	foreign := treetest.Dir{"SHA256SUMS": treetest.File("# not ours\n"), "sealift.sha256": treetest.File("x")}
	for name, test := range map[string]struct {
		target treetest.Dir
		change func(*planCase)
		why    string
	}{
		"history":             {change: func(p *planCase) { p.opts.MHL = &MHL{} }, why: "--mhl and --bag"},
		"media hash list":     {change: func(p *planCase) { p.opts.MediaList = &MediaList{} }, why: "--mhl and --bag"},
		"bag":                 {change: func(p *planCase) { p.opts.Bag = &BagOptions{} }, why: "--mhl and --bag"},
		"a file":              {change: func(p *planCase) { p.opts.Source += "/a" }, why: "is a file"},
		"no source":           {change: func(p *planCase) { p.opts.Source += "x" }, why: "no such file"},
		"inside the source":   {change: func(p *planCase) { p.opts.Targets[0] = p.source + "/d/x" }, why: "inside it"},
		"equal destinations":  {change: func(p *planCase) { p.opts.Targets = append(p.opts.Targets, p.target+"/.") }, why: "the same"},
		"plan in source":      {change: func(p *planCase) { p.into = p.source + "/d/plan" }, why: "is the source or inside it"},
		"plan in destination": {change: func(p *planCase) { p.into = p.target + "/plan" }, why: "is the destination"},
		"plan is destination": {target: treetest.Dir{}, change: func(p *planCase) {
			require.NoError(p, os.Symlink(p.target, p.base+"/link"))
			p.into = p.base + "/link"
		}, why: "is the destination"},
		"plan is a file":       {change: func(p *planCase) { p.into = p.source + "/a" }, why: "is not a directory"},
		"plan of others":       {change: func(p *planCase) { makeMode(p, p.into, 0o777) }, why: "may write to it"},
		"plan is not empty":    {change: func(p *planCase) { makeMode(p, p.into+"/x", 0o700) }, why: "it is not empty"},
		"manifest of another":  {target: foreign, change: func(*planCase) {}, why: "not a manifest that Sealift wrote"},
		"manifest in source":   {change: func(p *planCase) { p.opts.Manifest = p.source + "/m" }, why: "inside the source"},
		"backup":               {target: treetest.Dir{"old": treetest.File("")}, change: func(p *planCase) { p.opts.BackupDir = "old" }, why: "backup"},
		"an unfinished copy":   {target: treetest.Dir{".sealift-journal": treetest.Dir{resume.LogName("/other"): treetest.File("x"), "lock": treetest.File("")}}, change: func(*planCase) {}, why: "interrupted copy"},
		"another plan at work": {change: func(p *planCase) { p.planned(); p.into += "b" }, why: "is at work"},
		"a copy at work":       {target: treetest.Dir{}, change: lockDestination, why: "another sealift"},
		"policy never":         {change: func(p *planCase) { p.opts.Policy = policy.Never }, why: "--overwrite-policy never cannot be planned"},
		"policy protect":       {change: func(p *planCase) { p.opts.Policy = policy.Protect }, why: "--overwrite-policy protect cannot be planned"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlanCase(t, treetest.Dir{"a": treetest.File("1"), "d": treetest.Dir{}}, test.target)
			test.change(p)
			before := p.listing(p.base)
			plan, err := p.plan(t.Context())
			var refused *failure.RefusedError
			require.ErrorAs(t, err, &refused)
			assert.Nil(t, plan)
			assert.Contains(t, refused.Error(), test.why)
			assert.Equal(t, before, p.listing(p.base))
		})
	}
}

func makeMode(p *planCase, path string, mode os.FileMode) {
	require.NoError(p, os.MkdirAll(path, 0o700))
	require.NoError(p, os.Chmod(path, mode))
}

// lockDestination takes the lock of another copy.
func lockDestination(p *planCase) {
	root, err := fsys.OpenRoot(p.target)
	require.NoError(p, err)
	p.Cleanup(root.Close)
	j, err := resume.OpenJournal(root, resume.JournalName(""))
	require.NoError(p, err)
	p.Cleanup(j.Close)
}

// A source that cannot be read makes no plan, because the copy would lack files. The
// destination does not change.
func TestASourceThatCannotBeReadIsNotPlanned(t *testing.T) {
	p := newPlanCase(t, treetest.Dir{"a": treetest.File("1"), "d": treetest.Dir{"b": treetest.File("2")}}, nil)
	failed := errors.New("unreadable")
	p.opts.FS = &fsys.FS{Fault: func(c fsys.Call) error {
		if c.Op == fsys.OpStat && c.Name == "b" {
			return failed
		}
		return nil
	}}
	plan, err := p.plan(t.Context())
	require.NoError(t, err)
	assert.Nil(t, plan)
	require.Len(t, p.events, 1)
	assert.Equal(t, "d/b", p.events[0].Path)
	require.ErrorIs(t, p.events[0].Err, failed)
	assert.NoDirExists(t, p.target)
	p.opts.FS = nil
	p.planned()
}

func TestAStoppedPlanIsNoPlan(t *testing.T) {
	p := newPlanCase(t, treetest.Dir{"a": treetest.File("1")}, nil)
	ctx, cancel := context.WithCancelCause(t.Context())
	stopped := errors.New("stopped")
	p.opts.FS = &fsys.FS{Fault: func(c fsys.Call) error {
		if c.Op == fsys.OpStat && c.Name == "a" {
			cancel(stopped)
		}
		return nil
	}}
	plan, err := p.plan(ctx)
	require.ErrorIs(t, err, stopped)
	assert.Nil(t, plan)
	assert.Empty(t, p.events)
	assert.NoDirExists(t, p.target)
}

// A planner that dies at any operation has changed no file of the destination, and the same
// command makes the plan.
func TestAKilledPlannerIsRunAgain(t *testing.T) {
	for n := int64(0); ; n += sweepStride(9) {
		p := newPlanCase(t, treetest.Dir{"a": treetest.File("1"), "d": treetest.Dir{"b": treetest.File("2")}}, treetest.Dir{
			"a": treetest.File("1"), "SHA256SUMS": treetest.File(lineOf("1", "a")),
		})
		p.opts.Workers, p.opts.Targets = 1, append(p.opts.Targets, filepath.Join(p.base, "dst2"))
		left := n
		killed := errors.New("killed")
		p.opts.FS = &fsys.FS{Fault: func(fsys.Call) error {
			if left--; left < 0 { // everything fails from here on, so nothing is cleaned up
				return killed
			}
			return nil
		}}
		plan, err := p.plan(t.Context())
		if plan != nil && left >= 0 {
			require.Greater(t, n, int64(100))
			return
		}
		if err == nil && plan == nil {
			require.NotEmpty(t, p.events, n)
		}
		p.opts.FS = nil
		if _, err := os.Lstat(filepath.Join(p.into, "plan.json")); err != nil {
			p.events = nil
			_, err = p.plan(t.Context())
			require.NoError(t, err, "operation %d", n)
			require.Empty(t, p.events, "operation %d", n)
		}
		s := p.open(p.into)
		entries := p.entries(s)
		require.Len(t, entries, 2)
		require.FileExists(t, filepath.Join(p.base, "dst2/.sealift-journal/root"), "operation %d", n)
		require.FileExists(t, filepath.Join(p.target, ".sealift-was-SHA256SUMS"))
	}
}
