package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/dest"
	"github.com/seed65876f4f/sealift/internal/event"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/filter"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/fsys/faultfs"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/incomplete"
	"github.com/seed65876f4f/sealift/internal/treetest"
)

// Every kind of failure leaves a marker that lists the path and its cause, in no
// manifest and with no journal. The same command, without the failure, removes it.
func TestAnIncompleteCopyIsMarked(t *testing.T) {
	t.Parallel()
	linuxOnly(t, "names are bytes")
	for name, c := range map[string]struct {
		verify VerifyMode
		fail   func(t *testing.T, src, dst string, run func(*fsys.FS, *counters.Set))
		mend   func(t *testing.T, src string)
		lines  []string
	}{
		"unreadable file": {
			fail: func(t *testing.T, _, _ string, run func(*fsys.FS, *counters.Set)) {
				run(failing(syscall.EACCES, fsys.OpOpen, "z", "new\nline"), &counters.Set{})
			},
			lines: []string{`$'d/new\nline': open: permission denied`, `'z': open: permission denied`},
		},
		"unreadable directory": {
			fail: func(t *testing.T, _, _ string, run func(*fsys.FS, *counters.Set)) {
				run(failing(syscall.EACCES, fsys.OpOpenDir, "d"), &counters.Set{})
			},
			lines: []string{`'d': scan: permission denied`},
		},
		"the source's manifest": {
			fail: func(t *testing.T, src, _ string, run func(*fsys.FS, *counters.Set)) {
				write(t, src, "MD5SUMS", []byte(strings.Repeat("0", 32)+"  z\n"), since)
				run(nil, &counters.Set{})
			},
			mend:  func(t *testing.T, src string) { require.NoError(t, os.Remove(filepath.Join(src, "MD5SUMS"))) },
			lines: []string{`'z': verify: not copied: its md5 is fbade9e36a3f36d3d676c1b808451dd7, but 'MD5SUMS' lists 00000000000000000000000000000000; restore it, or use --source-manifest=ignore`},
		},
		"read back": {
			verify: VerifyDest,
			fail: func(t *testing.T, _, dst string, run func(*fsys.FS, *counters.Set)) {
				var c counters.Set
				run(atVerifying(&c, func() { spoil(t, filepath.Join(dst, "z")) }), &c)
			},
			lines: []string{`'z': verify: the device returned other data`},
		},
		"full destination": {
			fail: func(t *testing.T, _, _ string, run func(*fsys.FS, *counters.Set)) {
				var once atomic.Bool
				sys := faultfs.New(func(op fsys.Op, _ string) error {
					if op == fsys.OpWrite && once.CompareAndSwap(false, true) {
						return nil // of the log
					} else if op == fsys.OpMkdir && once.Load() {
						return syscall.ENOSPC
					}
					return nil
				})
				run(sys, &counters.Set{})
			},
			lines: []string{"The copy ended before it had tried every file, so more paths may be missing.", "", "this directory: dropped at 'd': no space left on device"},
		},
		"no manifest": {
			fail: func(t *testing.T, _, _ string, run func(*fsys.FS, *counters.Set)) {
				run(failing(syscall.EIO, fsys.OpLink, "SHA256SUMS"), &counters.Set{})
			},
			lines: []string{"this directory: manifest: input/output error"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			src, dst := sourceAndDestination(t)
			for _, path := range []string{"a", "d/new\nline", "d/x", "z"} {
				write(t, src, path, []byte(path), since)
			}
			require.NoError(t, os.Mkdir(dst, 0o755))
			o := options(src, dst)
			o.Verify, o.Workers = c.verify, 1
			o.Hashes = []hash.Algorithm{hash.SHA256, hash.MD5}
			before := time.Now().Add(-time.Second)
			c.fail(t, src, dst, func(sys *fsys.FS, counters *counters.Set) { runCounted(t, in(sys, o), counters) })
			h, text := marked(t, dst, srcMarker)
			require.Equal(t, []string{srcMarker}, markersAt(t, dst))
			require.Equal(t, "'"+src+"'", h.Source)
			require.Equal(t, incomplete.NoFilters, h.Filters)
			date, err := time.Parse(time.RFC3339, h.Date)
			require.NoError(t, err)
			require.WithinRange(t, date, before, time.Now())
			require.True(t, strings.HasSuffix(h.Date, "Z"))
			require.Contains(t, text, "run the same command again")
			_, list, _ := strings.Cut(text, "complete.\n\n")
			lines := strings.Split(list, "\n")
			for i, want := range c.lines {
				require.Greater(t, len(lines), i, text)
				require.True(t, strings.HasPrefix(lines[i], want), text)
			}
			if name != "full destination" {
				require.Len(t, lines, len(c.lines)+1, text)
			}
			for _, manifest := range []string{"SHA256SUMS", "MD5SUMS"} {
				sums, _ := os.ReadFile(filepath.Join(dst, manifest))
				require.NotContains(t, string(sums), "SEALIFT")
			}
			if name != "no manifest" && name != "full destination" {
				require.NoDirExists(t, journalAt(dst))
			}
			if c.mend != nil {
				c.mend(t, src)
			}
			runReported(t, o)
			require.Empty(t, markersAt(t, dst))
			require.NoDirExists(t, journalAt(dst))
			treetest.Compare(t, src, dst, treetest.Options{Ignore: []string{"SHA256SUMS", "MD5SUMS", ".sealift-bad-z", "sealift.md5", "sealift.sha256"}})
		})
	}
}

// The paths below a root are relative to it.
func pathsBelow(t testing.TB, root string) (paths []string) {
	t.Helper()
	for path := range look(t, root) {
		if path != "." {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	return paths
}

// Each of two destinations has a marker for the files that are missing there. A dropped one
// lists all files that are not known to be there; a complete one has no marker, and loses that
// of an earlier run.
func TestMarkersOfSeveralDestinations(t *testing.T) {
	t.Parallel()
	linuxOnly(t, "Windows reports a full disk with another error")
	for _, sync := range []dest.SyncMode{dest.SyncEnd, dest.SyncNone} {
		dir := treetest.MemoryDir(t)
		src, one, two := filepath.Join(dir, "src"), filepath.Join(dir, "1"), filepath.Join(dir, "2")
		for i := range 40 {
			write(t, src, fmt.Sprintf("%02d/file", i), []byte{byte(i)}, since)
			write(t, src, fmt.Sprintf("f%02d", i), []byte{byte(i)}, since)
		}
		require.NoError(t, os.Mkdir(one, 0o755))
		require.NoError(t, os.Mkdir(two, 0o755))
		o := options(src, one, two)
		o.Workers, o.Sync = 1, sync
		runReported(t, in(failing(syscall.EACCES, fsys.OpOpen, "f07"), o))
		require.Equal(t, []string{srcMarker}, markersAt(t, one))
		require.Equal(t, []string{srcMarker}, markersAt(t, two))
		treetest.Remove(t, two)
		require.NoError(t, os.Mkdir(two, 0o755))

		var mkdirs atomic.Int64 // the first destination has the directory already
		sys := faultfs.New(func(op fsys.Op, name string) error {
			if op == fsys.OpMkdir && name == "20" && mkdirs.Add(1) == 1 {
				return syscall.ENOSPC
			}
			return nil
		})
		out := runReported(t, in(sys, o))
		require.NoError(t, out.summary.Targets[0].Lost)
		require.ErrorIs(t, out.summary.Targets[1].Lost, syscall.ENOSPC)
		require.Empty(t, markersAt(t, one))
		h, text := marked(t, two, srcMarker)
		var missing []string
		for _, path := range pathsBelow(t, src) {
			if _, err := os.Lstat(filepath.Join(two, path)); err != nil {
				missing = append(missing, path)
			}
		}
		require.NotEmpty(t, missing)
		var listed []string
		for line := range strings.Lines(text) {
			if path, ok := strings.CutSuffix(line, "': not copied: the destination was dropped\n"); ok {
				listed = append(listed, strings.TrimPrefix(path, "'"))
			}
		}
		require.Subset(t, listed, missing)
		for _, path := range listed { // directories there may lack their metadata
			info, err := os.Lstat(filepath.Join(two, path))
			require.True(t, err != nil || info.IsDir(), path)
		}
		require.True(t, slices.IsSorted(listed))
		require.EqualValues(t, len(listed), h.Missing)
		require.Contains(t, text, "this directory: dropped at '20': no space left on device (")

		runReported(t, o)
		require.Empty(t, markersAt(t, two))
	}
}

// A copy of an unfinished source is not complete: it leaves out the marker and the journal, and has a
// marker that names them. The next copy of the complete source removes it.
func TestAnUnfinishedSource(t *testing.T) {
	t.Parallel()
	for name, content := range map[string]string{
		srcMarker:                  "of any copy",
		"SEALIFT-INCOMPLETE-c.txt": incomplete.Head{Source: "'/c'", Filters: incomplete.NoFilters, Missing: 7}.String(),
		".sealift-journal/log.1":   "", ".sealift-a.mov.journal/log.1": "",
	} {
		sign, _, _ := strings.Cut(name, "/")
		src, dst := sourceAndDestination(t)
		write(t, src, "a", []byte("a"), since)
		write(t, src, ".sealift-notes", []byte("b"), since)
		write(t, src, name, []byte(content), since)
		o := options(src, dst)
		dry := o
		dry.DryRun = true
		for range 2 {
			require.EqualValues(t, 1, runReported(t, dry).summary.Mismatches, name)
			s := runReported(t, o).summary
			require.Equal(t, []int64{1, 0, 1}, []int64{s.Mismatches, s.Errors, s.Reserved}, name)
			require.Equal(t, []string{sign}, s.ReservedAt)
			h, text := marked(t, dst, srcMarker)
			require.EqualValues(t, 1, h.Missing)
			require.Contains(t, text, quoteName(sign)+": check: the source is not complete: ")
			require.Equal(t, []string{srcMarker}, markersAt(t, dst))
			require.NoDirExists(t, filepath.Join(dst, sign))
			sums, err := os.ReadFile(filepath.Join(dst, "SHA256SUMS"))
			require.NoError(t, err)
			require.Len(t, readManifest(t, string(sums)), 2)
		}
		treetest.Remove(t, filepath.Join(src, sign))
		s := runReported(t, o).summary
		require.Equal(t, []int64{0, 0}, []int64{s.Mismatches, s.Reserved}, name)
		require.Empty(t, markersAt(t, dst))
	}
}

// Below the root, and for a directory, the name of a marker or a journal is an ordinary name.
func TestNamesOfMarkersAndJournalsElsewhere(t *testing.T) {
	t.Parallel()
	src, dst := sourceAndDestination(t)
	for _, name := range []string{"d/" + srcMarker, "d/.sealift-journal/log.1", ".sealift-was-SHA256SUMS", ".sealift-bad-a", ".sealift-0.tmp", "SEALIFT-INCOMPLETE-d.txt/f"} {
		write(t, src, name, []byte(name), since)
	}
	out := runReported(t, options(src, dst))
	require.Equal(t, []int64{0, 0, 0, 6}, []int64{out.summary.Mismatches, out.summary.Errors, out.summary.Reserved, out.summary.Files})
}

// Dry runs, conflicts, single files and stopped runs write no marker. A run that --fail-fast
// ended writes one.
func TestRunsWithoutAMarker(t *testing.T) {
	t.Parallel()
	src, dst := sourceAndDestination(t)
	write(t, src, "a", []byte("new"), since)
	write(t, src, "b", []byte("b"), since)
	write(t, dst, "a", []byte("newer"), since.Add(time.Hour))
	o := options(src, dst)
	dry, file := o, options(filepath.Join(src, "b"), dst)
	dry.DryRun = true
	for _, o := range []Options{dry, file} {
		out := runReported(t, in(failing(syscall.EACCES, fsys.OpOpen, "b"), o))
		require.EqualValues(t, 1, out.summary.Errors)
		require.Empty(t, markersAt(t, dst))
	}
	out := runReported(t, o)
	require.EqualValues(t, 1, out.summary.Conflicts)
	require.Empty(t, markersAt(t, dst))

	write(t, src, "c", []byte("c"), since)
	ctx, cancel := context.WithCancel(t.Context())
	sys := faultfs.New(func(op fsys.Op, name string) error {
		if op == fsys.OpOpen && name == "c" {
			cancel()
			return syscall.EIO
		}
		return nil
	})
	stopped := in(sys, o)
	_, err := Run(ctx, &stopped, &counters.Set{})
	require.ErrorIs(t, err, context.Canceled)
	require.Empty(t, markersAt(t, dst))

	o.FailFast = true
	runReported(t, in(failing(syscall.EACCES, fsys.OpOpen, "c"), o))
	_, text := marked(t, dst, srcMarker)
	require.Contains(t, text, "The copy ended before it had tried every file")
	out = runReported(t, o) // conflicts alone are complete
	require.EqualValues(t, 1, out.summary.Conflicts)
	require.Empty(t, markersAt(t, dst))
}

// A copy with filters does not check the rest of the source, so it leaves the marker of a copy
// without filters. A copy without filters removes the markers of copies with filters.
func TestMarkersOfCopiesWithFilters(t *testing.T) {
	t.Parallel()
	src, dst := sourceAndDestination(t)
	write(t, src, "a", []byte("a"), since)
	write(t, src, "b", []byte("b"), since)
	whole := options(src, dst)
	part := whole
	part.Filter = &filter.List{}
	require.NoError(t, part.Filter.Exclude("b"))
	fail := func(o Options) {
		runReported(t, in(failing(syscall.EACCES, fsys.OpOpen, "a"), o))
	}
	fail(whole)
	runReported(t, part)
	require.Equal(t, []string{srcMarker}, markersAt(t, dst))
	require.NoError(t, os.Remove(filepath.Join(dst, "a")))
	fail(part)
	require.Len(t, markersAt(t, dst), 2)
	runReported(t, part)
	require.Equal(t, []string{srcMarker}, markersAt(t, dst))
	require.NoError(t, os.Remove(filepath.Join(dst, "a")))
	fail(part)
	runReported(t, whole)
	require.Empty(t, markersAt(t, dst))
}

// An event goes to the destinations that it is about, and warnings go to none.
func TestEventsInAMarker(t *testing.T) {
	t.Parallel()
	u := undone{{given: "x"}, {given: "y"}}
	marker := func(i int) string {
		dir := treetest.MemoryDir(t)
		root, err := fsys.OpenRoot(dir)
		require.NoError(t, err)
		defer root.Close()
		job := incomplete.Job{Root: root, Source: "/src"}
		require.NoError(t, job.Mark(&u[i].Missing))
		_, text := marked(t, dir, srcMarker)
		_, list, _ := strings.Cut(text, "complete.\n\n")
		return list
	}
	err := func(path string) error {
		return &failure.FileError{Path: path, Stage: failure.StageRead, Err: errors.New("why")}
	}
	for _, e := range []event.Event{
		{Kind: event.Warning, Path: "warning", Err: err("warning")},
		{Kind: event.Conflict, Path: "conflict", Target: "x", Err: err("conflict")},
	} {
		u.event(e)
	}
	require.True(t, u[0].Complete() && u[1].Complete())
	for _, e := range []event.Event{
		{Kind: event.Failed, Path: "both", Err: err("both")},
		{Kind: event.Failed, Path: "one", Target: "x", Err: err("one")},
		{Kind: event.Mismatch, Path: "one", Target: "x", Err: errors.New("not listed: the first cause is kept")},
		{Kind: event.Mismatch, Path: "two", Target: "y", Err: errors.New("other")},
		{Kind: event.Failed, Err: err("")},
		{Kind: event.Failed, Target: "x", Err: err("")},
		{Kind: event.DestinationLost, Target: "y", Err: errors.New("full")},
		{Kind: event.DestinationLost, Target: "y", Path: "two", Err: errors.New("gone")},
	} {
		u.event(e)
	}
	require.Equal(t, "the source's directory: read: why\nthis directory: read: why\n'both': read: why\n'one': read: why\n", marker(0))
	require.Equal(t, "the source's directory: read: why\nthis directory: dropped: full\nthis directory: dropped at 'two': gone\n'both': read: why\n'two': other\n", marker(1))
}
