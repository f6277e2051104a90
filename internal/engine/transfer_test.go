//go:build linux

package engine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/dest"
	"github.com/seed65876f4f/sealift/internal/event"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/fsys/faultfs"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/metadata"
	"github.com/seed65876f4f/sealift/internal/policy"
	"github.com/seed65876f4f/sealift/internal/treetest"
)

// mutations are changes of a file by another process while it is read.
var mutations = map[string]func(path string, n int) error{
	"append": func(path string, _ int) error {
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			return err
		}
		_, err = f.WriteString("more")
		return errors.Join(err, f.Close())
	},
	"truncate": func(path string, n int) error { return os.Truncate(path, int64(50-n)) },
	"touch": func(path string, n int) error {
		return os.Chtimes(path, time.Unix(int64(n), 0), time.Unix(int64(n), 0))
	},
	"overwrite": func(path string, n int) error {
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		_, err = f.WriteAt([]byte{byte(n)}, 3)
		return errors.Join(err, f.Close())
	},
}

// A file that changes while it is read is read again, three times at most, and then reported.
// The existing file at the destination stays.
func TestASourceThatChangesWhileItIsRead(t *testing.T) {
	t.Parallel()
	for name, mutate := range mutations {
		for _, size := range []int{100, bigSize} {
			for _, times := range []int{1, 2, 3, 99} {
				for _, old := range []string{"", "same size", "other"} {
					t.Run(fmt.Sprint(name, size, " x", times, " ", old), func(t *testing.T) {
						src, dst := sourceAndDestination(t)
						path := filepath.Join(src, "file")
						write(t, src, "file", treetest.Pattern(size, 1), since)
						var existing []byte
						chosen := policy.Always
						switch old {
						case "same size":
							existing, chosen = treetest.Pattern(size, 2), policy.Checksum
							existing[0] = treetest.Pattern(1, 1)[0]
						case "other":
							existing = []byte("old")
						}
						if existing != nil {
							write(t, dst, "file", existing, longAgo)
						}
						// One mutation in each reading, after the first stat and before the last one.
						var mu sync.Mutex
						reading, done, tick := true, 0, 0
						sys := faultfs.New(func(op fsys.Op, _ string) error {
							mu.Lock()
							defer mu.Unlock()
							switch {
							case op == fsys.OpWrite: // the file is being moved
								reading = true
							case op == fsys.OpStat && reading && tick > 0 && done < times:
								reading = false
								done++
								return mutate(path, done)
							case op == fsys.OpRead:
								tick++
							}
							return nil
						})
						o := options(src, dst)
						o.Policy, o.Workers = chosen, 1
						var errs []error
						o.Report = func(e event.Event) {
							if e.Err != nil {
								errs = append(errs, e.Err)
							}
						}
						o.FS = sys
						s, err := Run(t.Context(), &o, &counters.Set{})
						require.NoError(t, err)
						require.Positive(t, done)
						now, err := os.ReadFile(path)
						require.NoError(t, err)
						have, err := os.ReadFile(filepath.Join(dst, "file"))
						if s.Errors == 0 {
							require.Less(t, done, 4)
							require.NoError(t, err)
							require.Equal(t, string(now), string(have), "what is there is the file's last state")
							return
						}
						require.GreaterOrEqual(t, done, 3)
						require.Len(t, errs, 1)
						require.ErrorIs(t, errs[0], errChanged)
						if existing == nil {
							require.ErrorIs(t, err, os.ErrNotExist)
						} else {
							require.Equal(t, string(existing), string(have))
						}
						_, err = os.ReadFile(filepath.Join(dst, "SHA256SUMS"))
						require.ErrorIs(t, err, os.ErrNotExist, "what was not committed is not listed, and an empty list is none")
					})
				}
			}
		}
	}
}

// Files in /proc report size 0. A file of size 0 there is read to its end.
func TestASourceOfNoSizeButContent(t *testing.T) {
	t.Parallel()
	dir := treetest.MemoryDir(t)
	for _, block := range []int{4096, 16} { // inline, and longer than one block
		dst := filepath.Join(dir, fmt.Sprint("dst", block))
		o := options("/proc/self/cmdline", dst)
		o.BlockSize, o.Preserve, o.Targets = block, metadata.PreserveNone, []string{dst, dst + "-2"}
		s, err := Run(t.Context(), &o, &counters.Set{})
		require.NoError(t, err)
		require.Zero(t, s.Errors)
		want, err := os.ReadFile("/proc/self/cmdline")
		require.NoError(t, err)
		require.Greater(t, len(want), 16)
		for _, target := range o.Targets {
			have, err := os.ReadFile(target)
			require.NoError(t, err)
			require.Equal(t, string(want), string(have))
			sums, err := os.ReadFile(target + ".sha256")
			require.NoError(t, err)
			require.Equal(t, sha(string(want)), readManifest(t, string(sums))[filepath.Base(target)])
		}
		require.EqualValues(t, len(want), s.Bytes)
	}
}

func TestASourceThatVanishes(t *testing.T) {
	t.Parallel()
	src, dst := sourceAndDestination(t)
	write(t, src, "gone", []byte("x"), since)
	write(t, src, "here", []byte("y"), since)
	write(t, src, "exchanged", []byte("z"), since)
	sys := faultfs.New(func(op fsys.Op, name string) error {
		switch {
		case op == fsys.OpOpen && name == "gone":
			return os.Remove(filepath.Join(src, "gone"))
		case op == fsys.OpOpen && name == "exchanged":
			os.Remove(filepath.Join(src, "exchanged"))
			return os.Symlink("/etc/passwd", filepath.Join(src, "exchanged"))
		}
		return nil
	})
	o := options(src, dst)
	o.Workers = 1
	errs := map[string]error{}
	o.Report = func(e event.Event) {
		if e.Err != nil {
			errs[e.Path] = e.Err
		}
	}
	o.FS = sys
	s, err := Run(t.Context(), &o, &counters.Set{})
	require.NoError(t, err)
	require.EqualValues(t, 2, s.Errors)
	require.ErrorIs(t, errs["gone"], failure.ErrVanished)
	require.ErrorIs(t, errs["exchanged"], errExchanged)
	require.NoFileExists(t, filepath.Join(dst, "gone"))
	require.NoFileExists(t, filepath.Join(dst, "exchanged"))
	require.FileExists(t, filepath.Join(dst, "here"))
}

// The first destination has a copy of the source. The source then changes while it is read for the
// second destination. Both get the last state, although the copy at the first one is newer by then.
func TestASourceThatChangesAfterOneDestinationHasIt(t *testing.T) {
	t.Parallel()
	for _, chosen := range []policy.Policy{policy.Default, policy.Update, policy.Checksum, policy.Always} {
		dir := treetest.MemoryDir(t)
		src, targets := filepath.Join(dir, "src"), threeTargets(dir)[:2]
		write(t, src, "file", []byte("first"), since)
		appeared, changed := false, false
		o := options(src, targets...)
		o.Policy, o.Workers = chosen, 1
		o.FS = &fsys.FS{Fault: func(c fsys.Call) error {
			switch {
			case c.Op == fsys.OpLink && c.Name == "file" && strings.HasPrefix(c.Path, targets[1]) && !appeared:
				appeared = true
				write(t, targets[1], "file", []byte("other"), longAgo) // the name is taken
			case c.Op == fsys.OpRead && c.Path == filepath.Join(src, "file") && appeared && !changed:
				changed = true
				write(t, src, "file", []byte("last state"), longAgo)
			}
			return nil
		}}
		s, err := Run(t.Context(), &o, &counters.Set{})
		require.NoError(t, err)
		require.True(t, changed)
		require.Zero(t, s.Errors+s.Conflicts)
		for _, target := range targets {
			have := look(t, target)
			require.Equal(t, "last state", have["file"].content, chosen)
			require.Equal(t, map[string]string{"file": sha("last state")}, readManifest(t, have["SHA256SUMS"].content))
		}
	}
}

// The manifest of the source changes while it is copied to a destination that uses another name. It is
// not copied to the destination that uses its name.
func TestAManifestOfTheSourceThatChangesWhileItIsRead(t *testing.T) {
	t.Parallel()
	dir := treetest.MemoryDir(t)
	src, targets := filepath.Join(dir, "src"), threeTargets(dir)[:2]
	write(t, src, "a", []byte("x"), since)
	write(t, src, "SHA256SUMS", []byte(sumLines(map[string][]byte{"a": []byte("x")})), since)
	write(t, targets[1], "SHA256SUMS", []byte("of a publisher"), longAgo)
	created, changed := 0, false
	o := options(src, targets...)
	o.Policy, o.Workers = policy.Always, 1
	o.FS = &fsys.FS{Fault: func(c fsys.Call) error {
		if c.Op == fsys.OpRead && c.Path == filepath.Join(src, "SHA256SUMS") && created >= 2 && !changed {
			changed = true
			return os.Chtimes(c.Path, longAgo, longAgo)
		}
		if c.Op == fsys.OpCreate && c.Path == targets[1] { // the probe of the file system, then a file
			created++
		}
		return nil
	}}
	out := runReported(t, o)
	require.True(t, changed)
	require.Empty(t, out.bad())
	require.EqualValues(t, 1, out.summary.Targets[0].Counts.Created)
	require.EqualValues(t, 1, out.summary.Targets[1].Counts.Replaced)
}

// A name appears at one of two destinations between the decision and the commit. The policy
// decides about it; the other destination is complete.
func TestANameThatAppearsAtOneDestination(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		chosen    policy.Policy
		content   string
		mtime     time.Time
		stays     bool
		conflicts int64
		listed    bool
	}{
		{policy.Default, "other", longAgo, false, 0, true},
		{policy.Default, "newer", since.Add(time.Hour), true, 1, false},
		{policy.Default, "first", since, true, 0, true},
		{policy.Never, "other", longAgo, true, 0, false},
		{policy.Always, "newer", since.Add(time.Hour), false, 0, true},
		{policy.Checksum, "first", longAgo, true, 0, true},
	} {
		dir := treetest.MemoryDir(t)
		src, targets := filepath.Join(dir, "src"), threeTargets(dir)[:2]
		write(t, src, "file", []byte("first"), since)
		appeared := false
		o := options(src, targets...)
		o.Policy, o.Workers = c.chosen, 1
		o.FS = &fsys.FS{Fault: func(call fsys.Call) error {
			if call.Op == fsys.OpLink && call.Name == "file" && strings.HasPrefix(call.Path, targets[1]) && !appeared {
				appeared = true
				write(t, targets[1], "file", []byte(c.content), c.mtime)
			}
			return nil
		}}
		s, err := Run(t.Context(), &o, &counters.Set{})
		require.NoError(t, err)
		require.True(t, appeared)
		require.Zero(t, s.Errors)
		require.Equal(t, c.conflicts, s.Conflicts, "%+v", c)
		require.EqualValues(t, 1, s.Files)
		first, second := look(t, targets[0]), look(t, targets[1])
		require.Equal(t, "first", first["file"].content)
		require.Equal(t, map[string]string{"file": sha("first")}, readManifest(t, first["SHA256SUMS"].content))
		want := "first"
		if c.stays {
			want = c.content
		}
		require.Equal(t, want, second["file"].content, "%+v", c)
		lines := readManifest(t, second["SHA256SUMS"].content)
		if c.listed {
			require.Equal(t, map[string]string{"file": sha("first")}, lines, "%+v", c)
		} else {
			require.Empty(t, lines, "%+v", c)
		}
	}
}

// One name of a file is exchanged, while it is read, for another file of the same size and
// time. It is not linked to what was copied under the other name, with and without digests
// that would show the difference.
func TestANameExchangedForAFileOfTheSameSizeAndTime(t *testing.T) {
	t.Parallel()
	for _, hashes := range [][]hash.Algorithm{nil, {hash.SHA256}} {
		dir := treetest.MemoryDir(t)
		src, targets := filepath.Join(dir, "src"), threeTargets(dir)[:2]
		write(t, src, "a", []byte("first"), since)
		require.NoError(t, os.Link(filepath.Join(src, "a"), filepath.Join(src, "b")))
		exchanged := false
		o := options(src, targets...)
		o.Workers, o.Hashes = 1, hashes
		o.FS = &fsys.FS{Fault: func(c fsys.Call) error {
			switch {
			case c.Op == fsys.OpLink && c.Path == filepath.Join(targets[1], "b") && !exchanged:
				return syscall.EMLINK // the second destination reads the file again
			case (c.Op == fsys.OpRead || c.Op == fsys.OpCopyRange) && c.Path == filepath.Join(src, "b") && !exchanged:
				exchanged = true
				write(t, dir, "new", []byte("later"), since)
				return os.Rename(filepath.Join(dir, "new"), filepath.Join(src, "b"))
			}
			return nil
		}}
		s, err := Run(t.Context(), &o, &counters.Set{})
		require.NoError(t, err)
		require.True(t, exchanged)
		require.Zero(t, s.Errors)
		for _, target := range targets {
			have := look(t, target)
			require.Equal(t, "first", have["a"].content)
			require.Equal(t, "later", have["b"].content)
		}
	}
}

// Policy "never" does not change a file that an interrupted run may have damaged, even if the file
// cannot be read. The run warns, and counts the file as left alone.
func TestPolicyNeverLeavesAPartialFileThatCannotBeRead(t *testing.T) {
	t.Parallel()
	src, dst := sourceAndDestination(t)
	write(t, src, "file", []byte("whole"), since)
	write(t, src, "z", []byte("z"), since)
	o := options(src, dst)
	o.Sync, o.Workers, o.FailFast = dest.SyncEnd, 1, true
	o.FS = faultfs.New(func(op fsys.Op, name string) error {
		if op == fsys.OpOpen && name == "z" {
			return syscall.EIO // the run ends, and its journal stays
		}
		return nil
	})
	_, err := Run(t.Context(), &o, &counters.Set{})
	require.NoError(t, err)
	write(t, dst, "file", []byte("torn!"), since)

	o.Policy, o.FailFast = policy.Never, false
	o.FS = &fsys.FS{Fault: func(c fsys.Call) error {
		if c.Op == fsys.OpRead && c.Path == filepath.Join(dst, "file") {
			return syscall.EIO
		}
		return nil
	}}
	var kept, warned int
	o.Report = func(e event.Event) {
		switch {
		case e.Path != "file":
		case e.Kind == event.Skipped && e.Action == "kept":
			kept++
		case e.Kind == event.Warning:
			warned++
		}
	}
	s, err := Run(t.Context(), &o, &counters.Set{})
	require.NoError(t, err)
	require.Equal(t, []int{1, 1}, []int{kept, warned}, "%+v", s)
	have := look(t, dst)
	require.Equal(t, "torn!", have["file"].content)
	require.Equal(t, map[string]string{"z": sha("z")}, readManifest(t, have["SHA256SUMS"].content))
}
