package engine

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/event"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/fsys/faultfs"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/policy"
	"github.com/seed65876f4f/sealift/internal/treetest"
)

// Under every policy, the run checks an existing file of the destination if its digest is known. It
// does not change the file if the source does not match its own manifest.
func TestExistingFilesAreCheckedAgainstTheSourcesManifest(t *testing.T) {
	t.Parallel()
	source, other := treetest.Pattern(100, 1), treetest.Pattern(100, 2)
	longer := treetest.Pattern(bigSize, 3)
	for _, c := range []struct {
		name  string
		have  []byte
		mtime time.Time
		want  string // for each of allPolicies: b broken, c conflict, k kept unread, x: broken and a conflict
	}{
		{"equal, same time", source, since, "b k b b b b"},
		{"equal, older", source, longAgo, "b k b b b b"},
		{"equal, newer", source, since.Add(time.Hour), "b k b b b b"},
		{"same size, same time", other, since, "x k b x b x"},
		{"same size, older", other, longAgo, "b k b b b x"},
		{"same size, newer", other, since.Add(time.Hour), "x k b b b x"},
		{"other size, older", longer, longAgo, "b k b b b c"},
		{"other size, newer", longer, since.Add(time.Hour), "c k b b b c"},
		{"nothing", nil, since, "b b b b b b"},
	} {
		for i, chosen := range allPolicies() {
			t.Run(c.name+"/"+chosen.String(), func(t *testing.T) {
				promise := sha("something else") + "  d/a\n" + sha("fine") + "  d/fine\n"
				src, dst := sourceWithManifest(t, map[string][]byte{"d/a": source, "d/fine": []byte("fine")}, "SHA256SUMS", promise)
				if c.have != nil {
					write(t, dst, "d/a", c.have, c.mtime)
				}
				o := options(src, dst)
				o.Policy = chosen
				out := runReported(t, o)
				have := look(t, dst)
				require.Equal(t, "fine", have["d/fine"].content)
				sums := readManifest(t, have["SHA256SUMS"].content)
				require.NotContains(t, sums, "d/a")
				require.Contains(t, sums, "d/fine")
				if c.have == nil {
					require.NotContains(t, have, "d/a")
				} else {
					require.Equal(t, string(c.have), have["d/a"].content)
					require.True(t, have["d/a"].mtime.Equal(c.mtime))
				}
				switch c.want[2*i] {
				case 'b':
					require.Len(t, out.bad(), 1)
					requireBroken(t, out.bad()[0], "d/a")
					require.Zero(t, out.summary.Skipped)
				case 'x':
					require.Len(t, out.bad(), 2)
					requireBroken(t, out.bad()[0], "d/a")
					require.Equal(t, event.Conflict, out.bad()[1].Kind)
				case 'c':
					require.Len(t, out.bad(), 1)
					require.Equal(t, event.Conflict, out.bad()[0].Kind)
				case 'k':
					require.Empty(t, out.bad())
					require.EqualValues(t, 1, out.summary.Skipped)
				}
			})
		}
	}
}

// A skipped file that a manifest of the destination lists is not read: the two lines are
// compared.
func TestTheLinesOfSkippedFilesAreCompared(t *testing.T) {
	t.Parallel()
	dir := treetest.MemoryDir(t)
	a, b, c := filepath.Join(dir, "a"), filepath.Join(dir, "b"), filepath.Join(dir, "c")
	for i, name := range []string{"one", "two", "three"} {
		write(t, a, name, treetest.Pattern(100, byte(i)), since)
	}
	require.NoError(t, os.Link(filepath.Join(a, "three"), filepath.Join(a, "three-too")))
	mustRun(t, options(a, b))
	mustRun(t, options(b, c))
	for _, chosen := range []policy.Policy{policy.Default, policy.Never, policy.Update} {
		o := options(b, c)
		o.Policy = chosen
		out := runReported(t, o)
		require.Empty(t, out.bad(), "the lines are the same")
		require.EqualValues(t, 4, out.summary.Skipped, "without the source's manifest")
	}
	// B's manifest lists other digests for one file, and for one of two names of another file.
	lines := sumLines(map[string][]byte{"one": treetest.Pattern(100, 0), "two": []byte("x"), "three": treetest.Pattern(100, 2), "three-too": []byte("x")})
	write(t, b, "SHA256SUMS", []byte(lines), since)
	for _, chosen := range []policy.Policy{policy.Default, policy.Update} {
		o := options(b, c)
		o.Policy = chosen
		out := runReported(t, o)
		bad := slices.DeleteFunc(out.bad(), func(e event.Event) bool { return e.Kind == event.Conflict || e.Kind == event.Warning || e.Path == "" })
		require.Len(t, bad, 2, "%s", out)
		requireBroken(t, bad[0], "three-too")
		requireBroken(t, bad[1], "two")
		require.EqualValues(t, 2, out.summary.Mismatches)
	}
}

// When the source has become corrupt, the destination keeps its files and correct lines.
func TestABrokenSourceChangesNoExistingFile(t *testing.T) {
	t.Parallel()
	for _, size := range []int{100, bigSize} {
		dir := treetest.MemoryDir(t)
		a, b, c := filepath.Join(dir, "a"), filepath.Join(dir, "b"), filepath.Join(dir, "c")
		write(t, a, "file", treetest.Pattern(size, 1), since)
		write(t, a, "fine", treetest.Pattern(size, 2), since)
		mustRun(t, options(a, b))
		mustRun(t, options(b, c))
		spoil(t, filepath.Join(b, "file"))
		o := options(b, c)
		o.Policy = policy.Checksum
		out := runReported(t, o)
		require.Len(t, out.bad(), 1)
		requireBroken(t, out.bad()[0], "file")
		have, err := os.ReadFile(filepath.Join(c, "file"))
		require.NoError(t, err)
		require.Equal(t, treetest.Pattern(size, 1), have)
	}
}

// A file of the source that does not match its manifest is a mismatch, and not a conflict at a destination that
// skips it. A new file at another destination does not change that.
func TestABrokenSourceIsNoConflict(t *testing.T) {
	t.Parallel()
	dir := treetest.MemoryDir(t)
	a, b, c := filepath.Join(dir, "a"), filepath.Join(dir, "b"), filepath.Join(dir, "c")
	write(t, a, "file", []byte("right"), since)
	mustRun(t, options(a, b))
	write(t, b, "file", []byte("wrong"), since)
	mustRun(t, options(a, c))
	out := runReported(t, options(b, c, filepath.Join(dir, "d")))
	require.Len(t, out.bad(), 1)
	requireBroken(t, out.bad()[0], "file")
	require.Zero(t, out.summary.Conflicts)
}

// A file that could not be read is a failure and not a mismatch. A file that does not match at
// one destination is not committed at the next.
func TestAMismatchAtOneDestinationAndAFailure(t *testing.T) {
	t.Parallel()
	for _, op := range []fsys.Op{fsys.OpWrite, fsys.OpLink, fsys.OpCreate, fsys.OpRead} {
		for _, rotten := range []bool{false, true} {
			content := treetest.Pattern(bigSize, 1)
			promise := sha(string(content))
			if rotten {
				promise = sha("other")
			}
			src, dst := sourceWithManifest(t, map[string][]byte{"z": content}, "SHA256SUMS", promise+"  z\n")
			targets := []string{dst + "1", dst + "2"}
			var mu sync.Mutex
			opened, failed := false, false
			sys := faultfs.New(func(o fsys.Op, name string) error {
				mu.Lock()
				defer mu.Unlock()
				opened = opened || o == fsys.OpOpen && name == "z"
				if o == op && opened && !failed {
					failed = true
					return syscall.EIO
				}
				return nil
			})
			o := options(src, targets...)
			o.Workers = 1
			o.FS = sys
			out := runReported(t, o)
			require.NotEmpty(t, out.bad())
			if rotten && op != fsys.OpRead { // the other destination, or another file was hit
				require.EqualValues(t, 1, out.summary.Mismatches)
			}
			for _, target := range targets {
				have, err := os.ReadFile(filepath.Join(target, "z"))
				if rotten {
					require.ErrorIs(t, err, os.ErrNotExist)
				} else if err == nil {
					require.Equal(t, content, have)
				}
			}
			if !rotten {
				require.Zero(t, out.summary.Mismatches)
				require.Positive(t, out.summary.Errors)
			}
		}
	}
}

// With --fail-fast the first mismatch with the source's manifest ends the run.
func TestFailFastAfterAMismatchWithTheSourcesManifest(t *testing.T) {
	t.Parallel()
	files := map[string][]byte{}
	var lines string
	for i := range 50 {
		name := fmt.Sprintf("f%02d", i)
		files[name] = treetest.Pattern(50, byte(i))
		lines += sha(string(files[name])) + "  " + name + "\n"
	}
	src, dst := sourceWithManifest(t, files, "SHA256SUMS", lines)
	spoil(t, filepath.Join(src, "f05"))
	o := options(src, dst)
	o.FailFast, o.Workers = true, 1
	out := runReported(t, o)
	require.Len(t, out.bad(), 1)
	requireBroken(t, out.bad()[0], "f05")
	require.NoFileExists(t, filepath.Join(dst, "f45"))
	require.NoFileExists(t, filepath.Join(dst, "SHA256SUMS"))
	require.EqualValues(t, 5, out.summary.Files)
}

// If the source's manifest can no longer be read, each file that it might list fails: no file
// is copied unchecked.
func TestASourceManifestThatCannotBeRead(t *testing.T) {
	t.Parallel()
	lines := sha("x") + "  a\n"
	for i := range 5000 { // too long to be held in memory
		lines += sha("x") + fmt.Sprintf("  absent%04d\n", i)
	}
	src, dst := sourceWithManifest(t, map[string][]byte{"a": []byte("x"), "b": []byte("y")}, "SHA256SUMS", lines)
	replaced := false
	sys := faultfs.New(func(op fsys.Op, name string) error {
		if op == fsys.OpOpen && name == "a" && !replaced {
			replaced = true // by something shorter, in place
			return os.WriteFile(filepath.Join(src, "SHA256SUMS"), []byte("#\n"), 0o600)
		}
		return nil
	})
	o := options(src, dst)
	o.Workers = 1
	o.FS = sys
	out := runReported(t, o)
	require.True(t, replaced)
	require.NotEmpty(t, out.bad())
	require.Equal(t, event.Failed, out.bad()[0].Kind)
	require.Positive(t, out.summary.Errors)
	require.NoFileExists(t, filepath.Join(dst, "a"))

	// The run reports a manifest that it cannot open, and copies the files that the manifest lists.
	src, dst = sourceWithManifest(t, map[string][]byte{"a": []byte("x")}, "SHA256SUMS", sha("y")+"  a\n")
	opens := 0
	sys = faultfs.New(func(op fsys.Op, name string) error {
		if op == fsys.OpOpen && name == "SHA256SUMS" {
			if opens++; opens == 1 { // the destination's own is looked for, and is not there
				return syscall.EIO
			}
		}
		return nil
	})
	out = runReported(t, in(sys, options(src, dst)))
	require.Len(t, out.bad(), 1)
	require.Equal(t, event.Failed, out.bad()[0].Kind)
	require.ErrorIs(t, out.bad()[0].Err, syscall.EIO)
}

// A run with a mismatch is stopped at each operation. It leaves nothing of the corrupt file
// and reports only that mismatch.
func TestCancellationWithAMismatch(t *testing.T) {
	t.Parallel()
	files := map[string][]byte{"a": treetest.Pattern(50, 1), "b": treetest.Pattern(bigSize, 2), "c": treetest.Pattern(10, 3)}
	lines := sumLines(files)
	src, dst := sourceWithManifest(t, files, "SHA256SUMS", lines)
	spoil(t, filepath.Join(src, "b"))
	for k := int64(1); ; k++ {
		ctx, cancel := context.WithCancel(t.Context())
		var calls atomic.Int64
		target := fmt.Sprint(dst, k)
		sys := faultfs.New(func(fsys.Op, string) error {
			if calls.Add(1) == k {
				cancel()
			}
			return nil
		})
		o := options(src, target)
		o.Workers, o.Hashes, o.Memory = 1, []hash.Algorithm{hash.SHA256}, 1
		o.BlockSize = 2 * bigSize // no lanes: the hook is not called at the same time
		out := &runReport{}
		o.Report = func(e event.Event) { out.events = append(out.events, e) }
		o.FS = sys
		_, err := Run(ctx, &o, &counters.Set{})
		cancel()
		require.NoFileExists(t, filepath.Join(target, "b"))
		for _, e := range out.bad() {
			requireBroken(t, e, "b")
		}
		for path := range look(t, target) {
			require.NotContains(t, path, ".tmp")
		}
		treetest.Remove(t, target)
		if err == nil && calls.Load() < k {
			require.Len(t, out.bad(), 1)
			break
		}
	}
}

// Where a file is corrupt at the destination, the manifest lacks it until the file is right.
func TestVerifyTakesALineFromTheSourcesManifest(t *testing.T) {
	t.Parallel()
	dir := treetest.MemoryDir(t)
	a, b, c := filepath.Join(dir, "a"), filepath.Join(dir, "b"), filepath.Join(dir, "c")
	write(t, a, "x", treetest.Pattern(bigSize, 1), since)
	write(t, a, "y", treetest.Pattern(100, 2), since)
	mustRun(t, options(a, b))
	for range 2 { // into an empty destination, and into one that was right
		out := runAndChange(t, verifying(VerifyFull, b, c), func() { spoil(t, filepath.Join(c, "x")) })
		require.Len(t, out.bad(), 1)
		require.Equal(t, []any{event.Mismatch, "x", c}, []any{out.bad()[0].Kind, out.bad()[0].Path, out.bad()[0].Target})
		require.Equal(t, []string{"y"}, listed(t, c))
		mustRun(t, verifying(VerifyFull, b, c))
		require.Equal(t, []string{"x", "y"}, listed(t, c))
	}
}
