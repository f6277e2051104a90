package engine

import (
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/event"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/treetest"
)

// The destination holds the good file and its NAME.sha256; the source rots: both
// stay.
func TestTheGoodCopyKeepsItsManifest(t *testing.T) {
	t.Parallel()
	src, dst := sourceAndDestination(t)
	require.NoError(t, os.Mkdir(dst, 0o700))
	write(t, src, "file", treetest.Pattern(100, 1), since)
	write(t, src, "file.sha256", []byte(sha(string(treetest.Pattern(100, 1)))+" *file\n"), since)
	o := options(filepath.Join(src, "file"), dst)
	mustRun(t, o)
	touchManifests(t, filepath.Join(dst, "file.sha256"))
	write(t, src, "file", treetest.Pattern(100, 9), since.Add(100)) // newer, and not what its manifest says
	out := runReported(t, o)
	require.EqualValues(t, 1, out.summary.Mismatches, "%s", out)
	content, err := os.ReadFile(filepath.Join(dst, "file"))
	require.NoError(t, err)
	require.Equal(t, treetest.Pattern(100, 1), content)
	require.FileExists(t, filepath.Join(dst, "file.sha256"))
}

// One absent file, listed by two manifests, is one mismatch.
func TestAnAbsentFileCountsOnce(t *testing.T) {
	t.Parallel()
	src, dst := sourceWithManifest(t, map[string][]byte{"a": []byte("x")}, "SHA256SUMS", sha("z")+"  gone\n")
	write(t, src, "MD5SUMS", []byte(digestOf(hash.MD5, []byte("z"))+"  gone\n"), since)
	o := options(src, dst)
	o.Hashes = []hash.Algorithm{hash.SHA256, hash.MD5}
	require.EqualValues(t, 1, runReported(t, o).summary.Mismatches)
}

// "find -type f -exec sha256sum {} + >SHA256SUMS" lists the manifest while it was empty. That
// line is not checked.
func TestAManifestThatListsItself(t *testing.T) {
	t.Parallel()
	src, dst := sourceWithManifest(t, map[string][]byte{"a": []byte("x")}, "SHA256SUMS", sha("")+"  ./SHA256SUMS\n"+sha("x")+"  ./a\n")
	mustRun(t, options(src, dst))
}

// With --fail-fast the files in flight are not read to their ends.
func TestFailFastStopsReading(t *testing.T) {
	t.Parallel()
	src, dst := sourceAndDestination(t)
	write(t, src, "a-bad", treetest.Pattern(100, 1), since)
	write(t, src, "big", treetest.Pattern(2000*sweepBlock, 2), since)
	c := &counters.Set{}
	sys := atVerifying(c, func() { spoil(t, filepath.Join(dst, "a-bad")) })
	var after atomic.Int64
	reported := atomic.Bool{}
	first := sys.Fault
	sys.Fault = func(c fsys.Call) error {
		if c.Op == fsys.OpRead && reported.Load() {
			after.Add(1)
		}
		return first(c)
	}
	o := verifying(VerifyDest, src, dst)
	o.Workers, o.FailFast = 2, true
	o.Report = func(e event.Event) {
		if e.Kind == event.Mismatch {
			reported.Store(true)
		}
	}
	o.FS = sys
	_, err := Run(t.Context(), &o, c)
	require.NoError(t, err)
	t.Log(after.Load())
	require.Less(t, after.Load(), int64(100), "reads after the first failure was reported")
}
