package walk

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/fsys"
)

// recorder is a visitor that notes every call in the order in which it was made.
type recorder struct {
	fs     *fsys.FS // that walkTree opens the tree with
	mu     sync.Mutex
	calls  []call
	failed map[string]error
	left   chan struct{} // closed when the root was left

	onEnter func(d *Dir) bool
	onEntry func(d *Dir, name string)
}

type call struct {
	what string // "enter", "entry", "leave"
	path string
}

func newRecorder() *recorder {
	return &recorder{failed: map[string]error{}, left: make(chan struct{})}
}

func (v *recorder) note(what, path string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.calls = append(v.calls, call{what, path})
}

func (v *recorder) Enter(d *Dir) bool {
	v.note("enter", d.Path())
	return v.onEnter == nil || v.onEnter(d)
}

func (v *recorder) Entry(d *Dir, name string, _ fsys.Kind) {
	v.note("entry", d.Join(name))
	if v.onEntry != nil {
		v.onEntry(d, name)
	}
}

// found is for Options.Found: it demands that the entry is described.
func (v *recorder) found(d *Dir, name string, _ Place, info fsys.Info) {
	if info.ID == (fsys.ID{}) {
		panic(name + " is not described")
	}
	v.Entry(d, name, info.Kind)
}

func (v *recorder) Leave(d *Dir) {
	v.note("leave", d.Path())
	if d.Parent == nil {
		close(v.left)
	}
}

func (v *recorder) Failed(d *Dir, name string, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	path := d.Path()
	if name != "" {
		path = d.Join(name)
	}
	v.failed[path] = err
}

func (v *recorder) paths(what string) []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	list := []string{}
	for _, c := range v.calls {
		if c.what == what {
			list = append(list, c.path)
		}
	}
	return list
}

// walkTree walks the tree at path and waits until its root is left.
func walkTree(ctx context.Context, t require.TestingT, path string, limit int, v *recorder, o Options) {
	root := openRoot(t, v.fs, path, limit, v)
	Walk(ctx, root, o)
	<-v.left
}

func openRoot(t require.TestingT, sys *fsys.FS, path string, limit int, v Visitor) *Dir {
	d, err := sys.OpenRoot(path)
	require.NoError(t, err)
	info, err := d.Stat()
	require.NoError(t, err)
	return NewRoot(fsys.NewHandles(limit).Root(d), info, v)
}

// requireOrderly demands that directories are entered once before anything in
// them and left once after everything in them.
func requireOrderly(t require.TestingT, v *recorder) {
	v.mu.Lock()
	defer v.mu.Unlock()
	state := map[string]string{}
	for _, c := range v.calls {
		for up := c.path; up != ""; {
			up = up[:max(strings.LastIndexByte(up, '/'), 0)]
			require.Equal(t, "enter", state[up], "%s %q while its ancestor %q is not being visited", c.what, c.path, up)
		}
		switch c.what {
		case "enter":
			require.Empty(t, state[c.path], "%q entered again", c.path)
		case "leave":
			require.Equal(t, "enter", state[c.path], "leave %q", c.path)
		case "entry":
			require.Empty(t, state[c.path], "%q visited again", c.path)
		}
		state[c.path] = c.what
	}
	for path, last := range state {
		require.NotEqual(t, "enter", last, "%q was never left", path)
	}
}

// makeTree makes files, and directories where a path ends in a slash.
func makeTree(t require.TestingT, paths ...string) string {
	root, err := os.MkdirTemp(fast(), "walk")
	require.NoError(t, err)
	for _, p := range paths {
		full := filepath.Join(root, p)
		if strings.HasSuffix(p, "/") {
			require.NoError(t, os.MkdirAll(full, 0o755))
			continue
		}
		require.NoError(t, os.MkdirAll(filepath.Dir(full), 0o755))
		require.NoError(t, os.WriteFile(full, nil, 0o644))
	}
	return root
}

// fast is a place for trees that no device slows down.
func fast() string {
	if info, err := os.Stat("/dev/shm"); err == nil && info.IsDir() && runtime.GOOS == "linux" {
		return "/dev/shm"
	}
	return ""
}

func tree(t *testing.T, paths ...string) string {
	t.Helper()
	root := makeTree(t, paths...)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(root)) })
	return root
}
