package engine

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/event"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/treetest"
)

// differences makes a source and a destination that differ in every way that a run counts.
func differences(t *testing.T) (src, dst string) {
	dir := treetest.MemoryDir(t)
	src, dst = filepath.Join(dir, "src"), filepath.Join(dir, "dst")
	older := since.Add(-time.Hour)
	for name, have := range map[string]struct {
		content string
		mtime   time.Time
	}{
		"same": {"same", since}, "touched": {"touched", older}, "older": {"OLDER", older},
		"newer": {"NEWER", since.Add(time.Hour)}, "longer": {"a longer one", older},
		"unlisted": {"UNLISTED", since}, "damaged": {"DAMAGED", since}, "mode": {"mode", since},
		"shared": {"shared", since}, "link": {"link", since}, "busy/in": {"in", since}, "quiet/in": {"in", since},
	} {
		write(t, src, name, []byte(filepath.Base(name)), since)
		write(t, dst, name, []byte(have.content), have.mtime)
	}
	for _, name := range []string{"new", "sub/new", "busy/new"} {
		write(t, src, name, []byte("new"), since)
	}
	listed := ""
	for _, name := range []string{"damaged", "link", "mode", "same", "shared"} {
		listed += sha(name) + "  " + name + "\n"
	}
	write(t, dst, "SHA256SUMS", []byte(listed), since)
	require.NoError(t, os.Chmod(filepath.Join(src, "mode"), 0o604))
	require.NoError(t, os.Chmod(filepath.Join(src, "shared"), 0o604))
	require.NoError(t, os.Link(filepath.Join(dst, "shared"), filepath.Join(dir, "outside")))
	require.NoError(t, os.Link(filepath.Join(src, "link"), filepath.Join(src, "link2")))
	for _, pair := range []string{"pair", "old"} { // new, and linked to each other at the destination
		write(t, src, pair, []byte(pair), since)
		require.NoError(t, os.Link(filepath.Join(src, pair), filepath.Join(src, pair+"2")))
	}
	write(t, dst, "old", []byte("an old one"), older)
	require.NoError(t, os.Link(filepath.Join(dst, "old"), filepath.Join(dst, "old2")))
	for _, name := range []string{"busy", "quiet"} { // busy gets a new file, which changes its time
		for _, in := range []string{src, dst} {
			require.NoError(t, os.Chtimes(filepath.Join(in, name), since, since))
		}
	}
	require.NoError(t, os.Mkdir(filepath.Join(src, "mode.d"), 0o700))
	require.NoError(t, os.Mkdir(filepath.Join(dst, "mode.d"), 0o755))
	return src, dst
}

// actions are what a run has reported of each path.
func (o *runReport) actions() (list []string) {
	for _, e := range o.events {
		switch e.Kind {
		case event.Copied, event.Skipped:
			list = append(list, e.Path+": "+e.Action+", "+e.Reason)
		case event.Conflict:
			list = append(list, e.Path+": conflict: "+e.Err.Error())
		}
	}
	slices.Sort(list)
	return list
}

// A dry run reports for each entry just what the run then does, and counts the same.
func TestADryRunReportsWhatTheRunDoes(t *testing.T) {
	t.Parallel()
	for _, chosen := range allPolicies() {
		for _, hashes := range [][]hash.Algorithm{{hash.SHA256}, nil} {
			src, dst := differences(t)
			o := options(src, dst)
			o.Policy, o.Hashes, o.Workers = chosen, hashes, 1
			o.DryRun = true
			before := look(t, dst)
			dry := runReported(t, o)
			require.Equal(t, before, look(t, dst))
			o.DryRun = false
			wet := runReported(t, o)
			require.Zero(t, wet.summary.Errors)
			require.Equal(t, wet.actions(), dry.actions(), "policy %s, %v", chosen, hashes)
			require.Equal(t, wet.summary.Counts, dry.summary.Counts)
			require.Equal(t, wet.summary.Conflicts, dry.summary.Conflicts)
			require.Equal(t, wet.summary.Skipped, dry.summary.Skipped)
			require.Equal(t, wet.summary.Targets[0].Counts, dry.summary.Targets[0].Counts)
		}
	}
}

// Each destination has counts of its own. Together, each entry counts where most happened.
func TestCounts(t *testing.T) {
	t.Parallel()
	src, dst := differences(t)
	o := options(src, dst, filepath.Join(filepath.Dir(dst), "empty"))
	o.Workers = 1
	out := runReported(t, o)
	// Created: new, sub, sub/new, busy/new, link2, pair, pair2. Replaced: older, longer,
	// shared, old, old2.
	// Updated: touched, mode, mode.d. Up to date: same, damaged, which is
	// listed and not read, link, busy/in, quiet/in.
	require.Equal(t, Counts{Created: 7, Replaced: 5, Updated: 3, UpToDate: 5}, out.summary.Targets[0].Counts)
	require.EqualValues(t, 2, out.summary.Conflicts) // newer, unlisted
	// Files: 20 with hard links. Directories: busy, quiet, sub, mode.d.
	require.Equal(t, Counts{Created: 24}, out.summary.Targets[1].Counts)
	require.Equal(t, Counts{Created: 24}, out.summary.Counts)

	second := runReported(t, o)
	require.Equal(t, Counts{UpToDate: 18}, second.summary.Targets[0].Counts)
	require.Equal(t, Counts{UpToDate: 20}, second.summary.Targets[1].Counts)
	require.Zero(t, second.summary.Bytes)
}
