package engine

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/dest"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/fsys/faultfs"
	"github.com/seed65876f4f/sealift/internal/incomplete"
)

// Where no marker can be written, the journal stays: also that of a run that found
// everything else up to date.
func TestTheJournalStaysWithoutAMarker(t *testing.T) {
	t.Parallel()
	src, dst := sourceAndDestination(t)
	write(t, src, "a", []byte("a"), since)
	write(t, src, "b", []byte("b"), since)
	o := options(src, dst)
	runReported(t, o)
	for _, failFast := range []bool{false, true} {
		o.FailFast = failFast
		sys := faultfs.New(func(op fsys.Op, name string) error {
			if op == fsys.OpStat && name == "b" || op == fsys.OpLink && name == srcMarker {
				return syscall.EACCES
			}
			return nil
		})
		out := runReported(t, in(sys, o))
		require.EqualValues(t, 1, out.summary.Errors)
		require.EqualValues(t, 1, out.summary.Warnings, "%v", out.bad())
		require.Contains(t, out.String(), "cannot write '"+srcMarker+"': permission denied; the journal stays")
		require.Empty(t, markersAt(t, dst))
		root, err := fsys.OpenRoot(dst)
		require.NoError(t, err)
		signs, err := incomplete.Find(root)
		root.Close()
		require.NoError(t, err)
		require.Len(t, signs, 1)
		require.True(t, signs[0].Journal)
		o.FailFast = false
		mustRun(t, o)
		require.NoDirExists(t, journalAt(dst))
	}
}

// A marker that cannot be removed or checked is a failure: the destination would say
// that it is incomplete.
func TestAMarkerThatStays(t *testing.T) {
	t.Parallel()
	for _, op := range []fsys.Op{fsys.OpRemove, fsys.OpOpen} {
		src, dst := sourceAndDestination(t)
		write(t, src, "a", []byte("a"), since)
		o := options(src, dst)
		runReported(t, in(failing(syscall.EACCES, fsys.OpOpen, "a"), o))
		out := runReported(t, in(failing(syscall.EIO, op, srcMarker), o))
		require.EqualValues(t, 1, out.summary.Errors)
		require.Contains(t, out.String(), "the marker of an earlier incomplete copy")
		require.NotContains(t, out.String(), "the journal stays")
		require.NoDirExists(t, journalAt(dst))
		require.NotEmpty(t, markersAt(t, dst))
		mustRun(t, o)
		require.Empty(t, markersAt(t, dst))
	}
}

// A failure after the journal is removed is in a new marker. If that cannot be written,
// no message claims that the journal stays.
func TestAFailureAfterTheJournalIsRemoved(t *testing.T) {
	t.Parallel()
	for _, unmarked := range []bool{false, true} {
		src, dst := sourceAndDestination(t)
		write(t, src, "a", []byte("a"), since)
		require.NoError(t, os.Mkdir(dst, 0o755))
		failed := false
		sys := faultfs.New(func(op fsys.Op, name string) error {
			_, journal := os.Lstat(journalAt(dst))
			_, manifest := os.Lstat(filepath.Join(dst, "SHA256SUMS"))
			switch {
			case journal == nil || manifest != nil: // not the end yet
			case op == fsys.OpSync && !failed:
				failed = true
				return syscall.EIO
			case failed && unmarked && op == fsys.OpLink:
				return syscall.ENOSPC
			}
			return nil
		})
		o := options(src, dst)
		o.Sync = dest.SyncEnd
		out := runReported(t, in(sys, o))
		require.True(t, failed)
		require.EqualValues(t, 1, out.summary.Errors, "%v", out.bad())
		require.NoDirExists(t, journalAt(dst))
		require.NotContains(t, out.String(), "the journal stays")
		if unmarked {
			require.Empty(t, markersAt(t, dst))
			require.Contains(t, out.String(), "cannot write '"+srcMarker+"': no space left on device; the journal is already removed, so run the same command again")
		} else {
			_, text := marked(t, dst, srcMarker)
			require.Contains(t, text, "this directory: sync: input/output error\n")
		}
	}
}

// A failure after the destination has the permissions of a read-only source is marked,
// and the permissions stay.
func TestAFailureInAReadOnlyDestination(t *testing.T) {
	t.Parallel()
	linuxOnly(t, "Windows has no modes")
	if os.Geteuid() == 0 {
		t.Skip("root can write into every directory")
	}
	src, dst := sourceAndDestination(t)
	write(t, src, "a", []byte("a"), since)
	require.NoError(t, os.Chmod(src, 0o555))
	failed := false
	sys := faultfs.New(func(op fsys.Op, _ string) error {
		info, err := os.Stat(dst)
		if err == nil && info.Mode().Perm() == 0o555 && op == fsys.OpSync && !failed {
			failed = true
			return syscall.EIO
		}
		return nil
	})
	o := options(src, dst)
	o.Sync = dest.SyncEnd
	out := runReported(t, in(sys, o))
	require.True(t, failed)
	require.EqualValues(t, 1, out.summary.Errors, "%v", out.bad())
	require.Equal(t, []string{srcMarker}, markersAt(t, dst))
	info, err := os.Stat(dst)
	require.NoError(t, err)
	require.EqualValues(t, 0o555, info.Mode().Perm())
	mustRun(t, o)
	require.Empty(t, markersAt(t, dst))
}
