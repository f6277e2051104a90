package engine

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/filter"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/fsys/faultfs"
	"github.com/seed65876f4f/sealift/internal/treetest"
)

// A merge that has closed one destination and not the other is run again, and closes the other one.
func TestTheSecondMergeClosesTheRemainingDestination(t *testing.T) {
	c := newMergeCase(t, planTree())
	targets := []string{"one", "two"}
	treetest.Create(t, filepath.Join(c.base, "split", "one"), treetest.Dir{"a": treetest.Directory(treetest.Dir{})}) // is in the way
	s := c.plan(2, targets)
	for i := range s.Plan.Shards {
		c.task(s, i, nil)
	}
	o, err := OptionsOfPlan(s.Plan)
	require.NoError(t, err)
	o.FS = &fsys.FS{Fault: faultfs.When(func(call fsys.Call) bool {
		return call.Op == fsys.OpRemove && call.Name == "plan" && strings.Contains(call.Path, "/two/")
	}, faultfs.Fail(syscall.EIO))}
	first, err := Merge(t.Context(), &MergeOptions{Plan: s, Copy: o}, &counters.Set{})
	require.NoError(t, err)
	require.EqualValues(t, 1, first.Summary.Errors)
	require.EqualValues(t, 1, first.Summary.Targets[0].Left)
	require.NoDirExists(t, filepath.Join(c.base, "split", "one", ".sealift-journal"))

	second := c.merge(c.store())
	require.True(t, second.Already)
	assert.EqualValues(t, 1, second.Summary.Conflicts)
	require.NoDirExists(t, filepath.Join(c.base, "split", "two", ".sealift-journal"))
}

// A planned copy of the files that --files-from names removes no marker of a copy of the whole tree.
func TestAPlanOfNamedFilesLeavesTheMarkerOfAWholeCopy(t *testing.T) {
	c := newMergeCase(t, planTree())
	o := c.at("split", []string{"one"})
	o.FS = &fsys.FS{Fault: faultfs.When(func(call fsys.Call) bool {
		return call.Op == fsys.OpOpen && call.Path == filepath.Join(c.source, "B")
	}, faultfs.Fail(syscall.EIO))}
	_, err := Run(t.Context(), o, &counters.Set{})
	require.NoError(t, err)
	marker := filepath.Join(c.base, "split", "one", "SEALIFT-INCOMPLETE-src.txt")
	require.FileExists(t, marker)

	c.opts.Only, err = filter.ReadOnly(strings.NewReader("a\n"), false)
	require.NoError(t, err)
	c.split(1, []string{"one"})
	require.FileExists(t, marker)
}
