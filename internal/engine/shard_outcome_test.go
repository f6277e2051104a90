package engine

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/event"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/record"
	"github.com/seed65876f4f/sealift/internal/shard"
	"github.com/seed65876f4f/sealift/internal/treetest"
)

// fileSource makes a source of small files.
func fileSource(t testing.TB, names ...string) (src, dst string) {
	t.Helper()
	base := treetest.MemoryDir(t)
	src, dst = filepath.Join(base, "src"), filepath.Join(base, "dst")
	for _, name := range names {
		write(t, src, name, []byte("content of "+name), longAgo)
	}
	require.NoError(t, os.MkdirAll(dst, 0o755))
	return src, dst
}

func TestATaskComparesWithTheManifestsOfTheSource(t *testing.T) {
	t.Parallel()
	src, dst := fileSource(t, "bad", "good", "d/other")
	c := planCopy(t, options(src, dst), 1, func(p *shard.Planner) {
		require.NoError(t, p.Expect("bad", shard.ListDigest{Digest: sha256Of("something else")}))
		require.NoError(t, p.Expect("good", shard.ListDigest{Digest: sha256Of("content of good")}))
	})
	for attempt := 1; attempt <= 2; attempt++ { // a shard with mismatches runs again
		out := c.run(context.Background(), nil, 0)
		require.NoError(t, out.err)
		require.Len(t, out.mismatches(), 1)
		requireBroken(t, out.mismatches()[0], "bad")
		require.NoFileExists(t, filepath.Join(dst, "bad"))
		require.FileExists(t, filepath.Join(dst, "good"))
		state, err := c.store(nil).Status(0)
		require.NoError(t, err)
		assert.Equal(t, attempt, state.Finished.Attempt)
		assert.EqualValues(t, 1, state.Finished.Mismatches)
		_, list := c.outcomes(0)
		require.Len(t, list, 1)
		cause := list[0].Cause
		assert.Contains(t, cause, "'LIST' lists ")
		assert.Equal(t, shard.Outcome{Kind: "mismatch", Path: "bad", Target: -1, Stage: "verify", Cause: cause, Name: "changed"}, list[0])
	}
	lines := c.lines(0)
	require.Len(t, lines, 3)
	assert.Equal(t, record.Outcome{Path: "bad", Size: lines[0].Size, Mtime: longAgo.Unix()}, lines[0])
	assert.Equal(t, []string{"d/other", "good"}, []string{lines[1].Path, lines[2].Path})
}

// A file that is up to date keeps the line of the previous manifest and is not read. Without a
// line its content is compared.
func TestATaskKeepsPreviousLines(t *testing.T) {
	t.Parallel()
	src, dst := fileSource(t, "kept", "differs")
	for _, name := range []string{"kept", "differs"} { // same size and time
		write(t, dst, name, bytes.Repeat([]byte("x"), len("content of "+name)), longAgo)
	}
	digest := sha256Of("of an earlier run")
	c := planCopy(t, options(src, dst), 1, func(p *shard.Planner) {
		require.NoError(t, p.Previous("kept", shard.LineDigest{Digest: digest}))
	})
	out := c.run(context.Background(), nil, 0)
	require.NoError(t, out.err)
	require.Len(t, out.bad(), 1)
	assert.Equal(t, []any{event.Conflict, "differs"}, []any{out.bad()[0].Kind, out.bad()[0].Path})
	lines := c.lines(0)
	require.Len(t, lines, 2)
	assert.Nil(t, lines[0].Digests)
	assert.Equal(t, hash.Digests{digest}, lines[1].Digests)
	state, err := c.store(nil).Status(0)
	require.NoError(t, err)
	assert.EqualValues(t, 1, state.Finished.Conflicts)
}

// A file that has changed since the plan is copied in its new state, or recorded as a failure.
// The shard is finished, and can be run again.
func TestATaskRecordsFailures(t *testing.T) {
	t.Parallel()
	src, dst := fileSource(t, "changed", "gone", "kind", "d/x", "d/y", "e/z")
	c := planCopy(t, options(src, dst), 1, nil)
	write(t, src, "changed", []byte("after the plan"), since)
	require.NoError(t, os.Remove(filepath.Join(src, "gone")))
	require.NoError(t, os.Remove(filepath.Join(src, "kind")))
	require.NoError(t, os.Mkdir(filepath.Join(src, "kind"), 0o700))
	require.NoError(t, os.Rename(filepath.Join(src, "d"), filepath.Join(src, "moved")))
	out := c.run(context.Background(), nil, 0)
	require.NoError(t, out.err)
	failed := map[string]string{}
	for _, e := range out.bad() {
		require.Equal(t, event.Failed, e.Kind)
		failed[e.Path] = e.Err.Error()
	}
	assert.Len(t, failed, 3, "%s", out)
	assert.Contains(t, failed["gone"], failure.ErrVanished.Error())
	assert.Contains(t, failed["d"], failure.ErrVanished.Error())
	assert.Contains(t, failed["kind"], "is a directory now")
	counts, list := c.outcomes(0)
	assert.Len(t, list, 3)
	assert.EqualValues(t, 2, counts.Files)

	require.NoError(t, os.Rename(filepath.Join(src, "moved"), filepath.Join(src, "d")))
	require.NoError(t, os.Remove(filepath.Join(src, "kind")))
	write(t, src, "kind", []byte("again"), since)
	write(t, src, "gone", []byte("again"), since)
	out = c.run(context.Background(), nil, 0)
	require.NoError(t, out.err)
	require.Empty(t, out.bad(), "%s", out)
	c.requireComplete(wholeManifest(t, src))
	state, err := c.store(nil).Status(0)
	require.NoError(t, err)
	assert.Equal(t, []int64{2, 0}, []int64{int64(state.Finished.Attempt), state.Finished.Failures})
}

// A dropped destination is in the record, and the other one is complete.
func TestATaskOutlivesADestination(t *testing.T) {
	t.Parallel()
	src, dst := fileSource(t, "a", "d/b", "d/c")
	lost := dst + "2"
	c := planCopy(t, options(src, dst, lost), 1, nil)
	full := &fsys.FS{Fault: func(call fsys.Call) error {
		if call.Op == fsys.OpLink && filepath.Dir(filepath.Dir(call.Path)) == lost && filepath.Base(call.Path) != "plan" {
			return errDeviceFull()
		}
		return nil
	}}
	out := c.run(context.Background(), full, 0)
	require.NoError(t, out.err)
	state, err := c.store(nil).Status(0)
	require.NoError(t, err)
	require.NotNil(t, state.Finished)
	assert.Positive(t, state.Finished.Failures)
	assert.Len(t, c.lines(0), 3)
	assert.Empty(t, c.lines(1))
	_, list := c.outcomes(0)
	require.Len(t, list, 1)
	assert.Equal(t, []any{"lost", 1}, []any{list[0].Kind, list[0].Target})
}
