package resume

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/journal"
)

// leave makes the temporary of an interrupted run.
func leave(t *testing.T, root *fsys.Dir, name string) {
	t.Helper()
	p, err := root.Create(true)
	require.NoError(t, err)
	require.NoError(t, p.WriteAt(make([]byte, 100), 0))
	require.NoError(t, p.Place(name))
	require.NoError(t, p.Keep())
}

func exists(root *fsys.Dir, name string) bool {
	_, err := root.Lstat(name)
	return err == nil
}

func TestLeftover(t *testing.T) {
	const temp, otherTemp = ".sealift-a.tmp", ".sealift-b.tmp"
	line := func(temp string, off int64) *journal.Partial {
		return &journal.Partial{Path: "large", Temp: temp, Offset: off, Size: 200, Mtime: source.Mtime, Ctime: source.Ctime}
	}
	src := source
	src.Size = 200
	modified := src
	modified.Mtime.Sec++
	for _, c := range []struct {
		name  string
		line  *journal.Partial
		src   fsys.Info
		found bool
	}{
		{"on the device", line(temp, 50), src, true},
		{"the temporary is too short", line(temp, 101), src, false},
		{"the source was modified", line(temp, 50), modified, false},
		{"not recorded", nil, src, false},
		{"the temporary does not exist", line(otherTemp, 50), src, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := openRoot(t, nil)
			leave(t, root, temp)
			record(t, root, tested, func(w *journal.Writer) {
				if c.line != nil {
					require.NoError(t, w.Partial(c.line))
				}
			})
			j, r, w, _ := open(t, root, tested)
			left := r.TakeLeftover(root, "large", c.src, w.Owner)
			require.Equal(t, c.found, left != nil)
			if !c.found {
				return
			}
			require.EqualValues(t, 50, left.Offset)
			require.Nil(t, r.TakeLeftover(root, "large", c.src, w.Owner), "it is taken once")
			w.Discard(left)
			require.False(t, exists(root, temp))
			require.NoError(t, w.Failure())
			require.NoError(t, w.Checkpoint(flushNothing))
			r.Close()
			w.Close()
			j.Close()
			_, r, _, _ = open(t, root, tested)
			for p := range r.known.Partials() {
				t.Error("the log still names", p.Temp)
			}
		})
	}
}

// A run removes the temporaries of interrupted runs: at once those that cannot be
// continued, and at the end those that were not. It removes nothing of another copy.
func TestTemporariesAreRemoved(t *testing.T) {
	const (
		continued = ".sealift-" + recordedID + "-0000000000000001.tmp"
		dead      = ".sealift-" + recordedID + "-0000000000000002.tmp"
		foreign   = ".sealift-fedcba9876543210-0000000000000001.tmp"
	)
	root := openRoot(t, nil)
	for _, name := range []string{continued, dead, foreign} {
		leave(t, root, name)
	}
	record(t, root, tested, func(w *journal.Writer) {
		require.NoError(t, w.Partial(&journal.Partial{
			Path: "large", Temp: continued, Offset: 50, Size: 100, Mtime: source.Mtime, Ctime: source.Ctime,
		}))
	})
	_, r, _, _ := open(t, root, tested)
	require.NoError(t, r.RemoveTemporaries(root, []string{continued, dead, foreign, "file"}))
	require.True(t, exists(root, continued))
	require.False(t, exists(root, dead))
	require.True(t, exists(root, foreign))
	require.NoError(t, r.RemoveLeftovers(root, "sub"))
	require.True(t, exists(root, continued), "its file is in another directory")
	require.NoError(t, r.RemoveLeftovers(root, ""))
	require.False(t, exists(root, continued))
	require.True(t, exists(root, foreign))
}
