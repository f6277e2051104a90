package fsys

import (
	"errors"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// newFS is like the system, until the test changes it.
func newFS() *FS {
	calls := system
	return &FS{calls: &calls}
}

// failAll makes all operations of some kinds fail that are done through o's FS, and
// nothing with an error of nil.
func failAll(o *Object, err error, kinds ...Op) {
	o.FS().Fault = func(c Call) error {
		if slices.Contains(kinds, c.Op) {
			return err
		}
		return nil
	}
}

// tempRoot opens a fresh directory and returns its path as well.
func tempRoot(t *testing.T) (*Dir, string) {
	t.Helper()
	return tempRootOf(t, nil)
}

// ownRoot is tempRoot of an FS that belongs to the test.
func ownRoot(t *testing.T) (*Dir, string) {
	t.Helper()
	return tempRootOf(t, newFS())
}

func tempRootOf(t *testing.T, sys *FS) (*Dir, string) {
	t.Helper()
	path, err := os.MkdirTemp("", "fsys")
	require.NoError(t, err)
	d, err := sys.OpenRoot(path)
	require.NoError(t, err)
	t.Cleanup(func() {
		// Not t.TempDir: os.RemoveAll of Windows does not work under Wine 8, which
		// has no FileDispositionInformationEx.
		require.NoError(t, clear(d))
		d.Close()
		require.NoError(t, os.Remove(path))
	})
	return d, path
}

func clear(d *Dir) error {
	l, err := d.List()
	if err != nil {
		return err
	}
	for i := range l.Len() {
		name := l.Name(i)
		sub, err := d.OpenDir(name)
		if err != nil {
			if err := d.Remove(name); err != nil {
				return err
			}
			continue
		}
		err = errors.Join(clear(sub), d.RemoveDir(name))
		sub.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// need skips, with the reason in print, where err says that this system or file
// system cannot do what the test is about.
func need(t *testing.T, what string, err error) {
	t.Helper()
	if Unsupported(err) || err != nil && runtime.GOOS != "linux" && NotPermitted(err) {
		t.Skipf("%s: %v", what, err)
	}
	require.NoError(t, err, what)
}

func put(t *testing.T, path, content string) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, []byte(content), 0o644))
}

func content(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(b)
}

func names(t *testing.T, d *Dir) []string {
	t.Helper()
	l, err := d.List()
	require.NoError(t, err)
	list := []string{}
	for i := range l.Len() {
		list = append(list, strings.Clone(l.Name(i)))
	}
	slices.Sort(list)
	return list
}

// begin makes a pending file of the wanted sort with content.
func begin(t *testing.T, d *Dir, named bool, content string) *Pending {
	t.Helper()
	p, err := d.Create(named)
	require.NoError(t, err)
	require.NoError(t, p.WriteAt([]byte(content), 0))
	return p
}

// me is who owns what the tests make.
func me() uint32 {
	uid, _ := Identity()
	return uid
}

// openFile opens a file for reading until the end of the test.
func openFile(t *testing.T, d *Dir, name string) *File {
	t.Helper()
	f, _, err := d.Open(name)
	require.NoError(t, err)
	t.Cleanup(f.Close)
	return f
}

func contentOf(t *testing.T, d *Dir, name string) string {
	t.Helper()
	f, info, err := d.Open(name)
	require.NoError(t, err)
	defer f.Close()
	b := make([]byte, info.Size+1)
	n, err := f.ReadAt(b, 0)
	require.NoError(t, err)
	return string(b[:n])
}

// noise is content that no file system stores in less, different for each seed.
func noise(seed uint64, size int) []byte {
	b := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)}).Read(b)
	return b
}

// readAll reads as a verifier does, in blocks of size bytes.
func readAll(t *testing.T, f *File, size int) []byte {
	t.Helper()
	var all []byte
	buf := AlignedBuffer(size)
	for {
		n, err := f.ReadAt(buf, int64(len(all)))
		require.NoError(t, err, "at %d", len(all))
		all = append(all, buf[:n]...)
		if n < len(buf) {
			return all
		}
	}
}
