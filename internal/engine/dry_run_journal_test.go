package engine

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/dest"
	"github.com/seed65876f4f/sealift/internal/event"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/fsys/faultfs"
	"github.com/seed65876f4f/sealift/internal/policy"
	"github.com/seed65876f4f/sealift/internal/resume"
	"github.com/seed65876f4f/sealift/internal/treetest"
)

// deeds returns the reports of a run about entries, sorted by path.
func deeds(events []event.Event) (list []string) {
	for _, e := range events {
		switch e.Kind {
		case event.Copied, event.Skipped:
			list = append(list, e.Path+" "+e.Action)
		case event.Conflict, event.Failed, event.Mismatch:
			list = append(list, fmt.Sprintf("%s %d %v", e.Path, e.Kind, e.Err))
		case event.Warning, event.DestinationLost:
			list = append(list, e.Path+": "+e.Err.Error())
		}
	}
	slices.Sort(list)
	return list
}

// After a copy was interrupted, a dry run reports what the next run does: which files it
// resumes, and which of them are its own under policy protect. It changes nothing.
func TestDryRunReadsTheJournal(t *testing.T) {
	t.Parallel()
	linuxOnly(t, "times of change show what an interrupted run has done")
	src := filepath.Join(treetest.MemoryDir(t), "src")
	for i := range 6 {
		write(t, src, fmt.Sprintf("d%d/f", i), treetest.Pattern(100+i, byte(i)), since)
	}
	write(t, src, "e", treetest.Pattern(resume.LeastPartial+9<<20, 7), since)
	var resumedFiles, resumedBytes, differ int64
	policies := []policy.Policy{policy.Default, policy.Protect, policy.Never, policy.Always}
	for n := int64(100); n < 600; n += 53 {
		tried := policies // by each policy in the long form, otherwise by one and then the next
		if !everyInstant() {
			tried = policies[n%4:][:1]
		}
		for _, chosen := range tried {
			dst := filepath.Join(treetest.MemoryDir(t), "dst")
			write(t, dst, "d1/f", []byte("old"), longAgo)
			o := sweepOptions(src, []string{dst}, dest.SyncEnd)
			o.Policy, o.DirtyWindow, o.BlockSize = chosen, DirtyWindowOff, 256<<10
			ctx, cancel := context.WithCancel(t.Context())
			first := o
			first.FS = &fsys.FS{Fault: faultfs.OnIndex(n, func(fsys.Call) error { cancel(); return nil })}
			_, err := Run(ctx, &first, &counters.Set{})
			cancel()
			if err == nil {
				continue // it ended before
			}
			require.ErrorIs(t, err, context.Canceled)
			before := look(t, dst)

			o.DryRun = true
			dry := runReported(t, o)
			require.Equal(t, before, look(t, dst), "a dry run changes nothing")
			o.DryRun = false
			real := runReported(t, o)
			require.Equal(t, deeds(real.events), deeds(dry.events), "stopped at operation %d, policy %s", n, chosen)
			require.Equal(t, real.summary.Counts, dry.summary.Counts)
			require.Equal(t, real.summary.Bytes, dry.summary.Bytes)
			require.Equal(t, real.summary.ResumedFiles, dry.summary.ResumedFiles)
			require.Equal(t, real.summary.ResumedBytes, dry.summary.ResumedBytes)
			resumedFiles = max(resumedFiles, real.summary.ResumedFiles)
			if real.summary.ResumedBytes > resume.LeastPartial && real.summary.Bytes > 0 {
				resumedBytes++
			}
			differ++
		}
	}
	require.Greater(t, differ, int64(5))
	require.Positive(t, resumedFiles, "some run has resumed files")
	require.Positive(t, resumedBytes, "some run has continued the large file")
}

// A journal of a copy with other options stays where it is in a dry run.
func TestDryRunSetsNoJournalAside(t *testing.T) {
	t.Parallel()
	src, dst := oldAndNew(t)
	ctx, cancel := context.WithCancel(t.Context())
	o := sweepOptions(src, []string{dst}, dest.SyncEnd)
	o.FS = &fsys.FS{Fault: faultfs.OnOp(faultfs.OnName("b", func(fsys.Call) error { cancel(); return nil }), fsys.OpOpen)}
	_, err := Run(ctx, &o, &counters.Set{})
	require.ErrorIs(t, err, context.Canceled)
	before := look(t, dst)
	logs, err := filepath.Glob(filepath.Join(dst, resume.JournalName(""), "log.*"))
	require.NoError(t, err)
	require.Len(t, logs, 1)
	o = sweepOptions(src, []string{dst}, dest.SyncEnd)
	o.Sparse, o.DryRun = SparseNever, true
	out := runReported(t, o)
	require.Len(t, out.bad(), 1)
	require.ErrorContains(t, out.bad()[0].Err, "other options")
	require.Equal(t, before, look(t, dst))
}
