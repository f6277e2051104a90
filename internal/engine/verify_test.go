//go:build linux

package engine

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/tally"
	"github.com/seed65876f4f/sealift/internal/treetest"
)

// What is read back and is not what was written is told, moved away and not
// listed; the rest is.
func TestVerifyFindsWhatIsNotWhatWasWritten(t *testing.T) {
	defer goleak.VerifyNone(t)
	dir := treetest.MemoryDir(t)
	src := filepath.Join(dir, "src")
	for _, name := range []string{"a", "d/b", "d/c", "z"} {
		write(t, src, name, treetest.Pattern(bigSize, name[len(name)-1]), since)
	}
	require.NoError(t, os.Chtimes(filepath.Join(src, "d"), since, since))
	targets := []string{filepath.Join(dir, "one"), filepath.Join(dir, "two")}
	spoilt := false
	hook(t, func(op fsys.Op, _ string) error {
		if op == fsys.OpDropCache && !spoilt {
			spoilt = true
			f, err := os.OpenFile(filepath.Join(targets[1], "d/b"), os.O_WRONLY, 0)
			require.NoError(t, err)
			_, err = f.WriteAt([]byte("rot"), 5000)
			require.NoError(t, err)
			require.NoError(t, f.Close())
			require.NoError(t, os.Chtimes(filepath.Join(targets[1], "d/b"), since, since))
		}
		return nil
	})
	o := options(src, targets...)
	o.Verify, o.Workers = VerifyDest, 1
	var told []Event
	o.Report = func(e Event) {
		if e.Err != nil {
			told = append(told, e)
		}
	}
	s, err := Run(t.Context(), &o, &tally.Counters{})
	require.NoError(t, err)
	require.Len(t, told, 1)
	require.Equal(t, EventMismatch, told[0].Kind)
	require.Equal(t, "d/b", told[0].Path)
	require.Equal(t, targets[1], told[0].Target)
	require.ErrorContains(t, told[0].Err, ".sealift-bad-b")
	require.EqualValues(t, 1, s.Mismatches)
	require.Zero(t, s.Errors)
	require.EqualValues(t, 4, s.Targets[0].Verified)
	require.EqualValues(t, 3, s.Targets[1].Verified)
	one, two := look(t, targets[0]), look(t, targets[1])
	require.Len(t, readManifest(t, one["SHA256SUMS"].content), 4)
	require.Len(t, readManifest(t, two["SHA256SUMS"].content), 3)
	require.NotContains(t, two, "d/b")
	require.True(t, strings.Contains(two["d/.sealift-bad-b"].content, "rot"))
	info, err := os.Stat(filepath.Join(targets[1], "d"))
	require.NoError(t, err)
	require.True(t, info.ModTime().Equal(since), "the directory's time stays")
	_ = time.Now
}
