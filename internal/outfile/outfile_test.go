package outfile

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

var form = Form{Name: "a test file", Mark: "# form\n"}

func text(line string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := fmt.Fprintf(w, "# form\n%s\n", line)
		return err
	}
}

// A file replaces one of its form, and nothing else.
func TestReplacesOnlyItsForm(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "out.txt")
	write := func() error {
		p, err := Open(nil, path, form)
		if err != nil {
			return err
		}
		return p.Write(text("a"))
	}
	require.NoError(t, write())
	require.NoError(t, write())
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "# form\na\n", string(content))

	require.NoError(t, os.WriteFile(path, []byte("my notes"), 0o600))
	require.ErrorContains(t, write(), "it exists and is not a test file; choose another name")
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	require.ErrorContains(t, write(), "it exists and is not a test file; choose another name")
	require.NoError(t, os.Remove(path))
	require.NoError(t, os.Mkdir(path, 0o700))
	require.ErrorContains(t, write(), "it is a directory")
	path = filepath.Join(dir, "new", "out.txt")
	require.ErrorContains(t, write(), "directory does not exist")
	require.NoDirExists(t, filepath.Dir(path))
	path = filepath.Join(dir, ".sealift-journal", "out.txt")
	require.ErrorContains(t, write(), ".sealift-")
	path = dir + "/"
	require.ErrorContains(t, write(), "name of a file is missing")
}

// A file that appears at the place during the run stays.
func TestDoesNotReplaceWhatAppears(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "out.txt")
	first, err := Open(nil, path, form)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, []byte("mine"), 0o600))
	require.ErrorIs(t, first.Write(text("b")), ErrExchanged)
	require.NoError(t, os.Remove(path))
	require.NoError(t, first.Write(text("b")))

	second, err := Open(nil, path, form)
	require.NoError(t, err)
	require.NoError(t, os.Remove(path))
	third, err := Open(nil, path, form)
	require.NoError(t, err)
	require.NoError(t, third.Write(text("another")))
	require.ErrorIs(t, second.Write(text("b")), ErrExchanged)
	names, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, names, 1) // no temporary is left
}

func TestPlaceKnowsWhereItIs(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "src", "sub"), 0o700))
	require.NoError(t, os.Symlink("src/sub", filepath.Join(dir, "link")))
	for path, want := range map[string]string{
		"src/r.txt": "r.txt", "src/sub/r.txt": "sub/r.txt", "src/new/deep/r.txt": "new/deep/r.txt",
		"link/r.txt": "sub/r.txt", "link/new/r.txt": "sub/new/r.txt", "r.txt": "", "srcs/r.txt": "",
	} {
		p := At(filepath.Join(dir, path))
		require.Equal(t, filepath.FromSlash(want), p.Below(filepath.Join(dir, "src")), path)
	}
}

// Write replaces what the Place has written itself, and Read returns it. A file that another process
// has put there stays.
func TestWritesAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out.txt")
	p, err := Open(nil, path, form)
	require.NoError(t, err)
	for _, line := range []string{"first", "second"} {
		require.NoError(t, p.Write(text(line)))
	}
	f, info, err := p.Read()
	require.NoError(t, err)
	content, err := io.ReadAll(f.Reader(info.Size))
	require.NoError(t, err)
	require.Equal(t, "# form\nsecond\n", string(content))
	f.Close()
	require.NoError(t, os.WriteFile(path, []byte("# form\nof another process\n"), 0o600))
	require.ErrorIs(t, p.Write(text("third")), ErrExchanged)
	_, _, err = p.Read()
	require.ErrorIs(t, err, ErrExchanged)
}

// The permissions are those of the form, whatever the umask.
func TestHasThePermissionsOfItsForm(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("files have no such permissions on Windows")
	}
	path := filepath.Join(t.TempDir(), "out.txt")
	p, err := Open(nil, path, Form{Name: form.Name, Mark: form.Mark, Mode: 0o626})
	require.NoError(t, err)
	require.NoError(t, p.Write(text("a")))
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o626), info.Mode())
}
