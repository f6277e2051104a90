package walk

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// fed is a recorder that Feed can use.
type fed struct {
	*recorder
	notes map[string]any
}

func (v *fed) Enter(d *Dir) bool {
	if d.Note != nil {
		v.notes[d.Path()] = d.Note
	}
	return v.recorder.Enter(d)
}

func (v *fed) add(i Item) {
	v.notes[i.Dir.Join(i.Name)] = i.Note
	v.Entry(i.Dir, i.Name, i.Kind)
}

// feedTree feeds the steps in a new tree with these directories.
func feedTree(t *testing.T, v *fed, dirs []string, next func() (Step, error)) error {
	t.Helper()
	defer goleak.VerifyNone(t)
	path := t.TempDir()
	for _, dir := range dirs {
		require.NoError(t, os.MkdirAll(filepath.Join(path, dir), 0o700))
	}
	require.NoError(t, os.Symlink(path, filepath.Join(path, "link")))
	err := Feed(t.Context(), openRoot(t, nil, path, 4, v), next, v.add)
	<-v.left
	return err
}

func newFed() *fed { return &fed{newRecorder(), map[string]any{}} }

// steps returns what Feed calls for a list of steps, and end after the last one.
func steps(end error, list ...Step) func() (Step, error) {
	return func() (Step, error) {
		if len(list) == 0 {
			return Step{}, end
		}
		step := list[0]
		list = list[1:]
		return step, nil
	}
}

func (v *recorder) text() string {
	var lines []string
	for _, c := range v.calls {
		lines = append(lines, c.what+" "+c.path)
	}
	return strings.Join(lines, "\n")
}

func TestFeedVisitsTheGivenPaths(t *testing.T) {
	v := newFed()
	err := feedTree(t, v, []string{"a/b/c", "a-b", "d"}, steps(io.EOF,
		Step{Name: "x", Note: 1},
		Step{Dir: "a", Note: "noted"},
		Step{Dir: "a", Name: "x", Note: 2},
		Step{Dir: "a-b", Name: "x"},
		Step{Dir: "a/b/c", Name: "x"},
		Step{Dir: "a/b/c", Name: "y"},
		Step{Dir: "d"},
	))
	require.NoError(t, err)
	assert.Equal(t, strings.Join([]string{
		"enter ", "entry x",
		"enter a", "entry a/x", "leave a",
		"enter a-b", "entry a-b/x", "leave a-b",
		"enter a", "enter a/b", "enter a/b/c", "entry a/b/c/x", "entry a/b/c/y", "leave a/b/c", "leave a/b", "leave a",
		"enter d", "leave d", "leave ",
	}, "\n"), v.text())
	assert.Equal(t, map[string]any{"x": 1, "a": "noted", "a/x": 2, "a-b/x": nil, "a/b/c/x": nil, "a/b/c/y": nil}, v.notes)
	assert.Empty(t, v.failed)
}

func TestFeedFailsOnceForADirectory(t *testing.T) {
	v := newFed()
	err := feedTree(t, v, []string{"d"}, steps(io.EOF,
		Step{Dir: "gone", Note: 1},
		Step{Dir: "gone", Name: "x"},
		Step{Dir: "gone/below", Name: "x"},
		Step{Dir: "link", Name: "x"}, // never followed
		Step{Dir: "d", Name: "x"},
	))
	require.NoError(t, err)
	assert.Equal(t, "enter \nenter d\nentry d/x\nleave d\nleave ", v.text())
	assert.Len(t, v.failed, 2)
	require.ErrorIs(t, v.failed["gone"], os.ErrNotExist)
	require.Error(t, v.failed["link"])
}

func TestFeedSkipsWhatIsNotEntered(t *testing.T) {
	v := newFed()
	v.onEnter = func(d *Dir) bool { return d.Name != "a" }
	require.NoError(t, feedTree(t, v, []string{"a/b"}, steps(io.EOF, Step{Dir: "a", Name: "x"}, Step{Dir: "a/b", Name: "x"}, Step{Name: "y"})))
	assert.Equal(t, "enter \nenter a\nleave a\nentry y\nleave ", v.text())
}

func TestFeedReturnsTheErrorOfItsSteps(t *testing.T) {
	v, torn := newFed(), errors.New("torn")
	require.ErrorIs(t, feedTree(t, v, []string{"a"}, steps(torn, Step{Dir: "a", Name: "x"})), torn)
	assert.Equal(t, "enter \nenter a\nentry a/x\nleave a\nleave ", v.text())
}

func TestFeedEndsWithItsContext(t *testing.T) {
	v := newFed()
	ctx, cancel := context.WithCancel(t.Context())
	v.onEntry = func(*Dir, string) { cancel() }
	require.NoError(t, Feed(ctx, openRoot(t, nil, t.TempDir(), 4, v), steps(io.EOF, Step{Name: "x"}, Step{Name: "y"}), v.add))
	assert.Equal(t, "enter \nentry x\nleave ", v.text())
}

// A directory that the visitor holds is left later, and its parent after it.
func TestFeedLeavesHeldDirectoriesLater(t *testing.T) {
	v := newFed()
	var held *Dir
	v.onEntry = func(d *Dir, name string) {
		if name == "x" {
			held = d
			d.Hold()
		}
	}
	path := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(path, "a/b"), 0o700))
	require.NoError(t, Feed(t.Context(), openRoot(t, nil, path, 4, v), steps(io.EOF, Step{Dir: "a/b", Name: "x"}, Step{Name: "y"}), v.add))
	assert.Equal(t, "enter \nenter a\nenter a/b\nentry a/b/x\nentry y", v.text())
	held.Done()
	assert.True(t, strings.HasSuffix(v.text(), "\nleave a/b\nleave a\nleave "))
}
