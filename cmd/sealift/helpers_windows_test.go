package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/windows"
)

// asSealift makes the test binary run as the program. SEALIFT names another program.
const asSealift = "SEALIFT_TEST_IS_SEALIFT"

func TestMain(m *testing.M) {
	if os.Getenv(asSealift) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// emulated reports whether the tests run under Wine, which behaves differently in some
// cases.
var emulated = windows.NewLazySystemDLL("ntdll.dll").NewProc("wine_get_version").Find() == nil

// sealift returns the program with arguments, ready to start in dir.
func sealift(t *testing.T, dir string, args ...string) *exec.Cmd {
	t.Helper()
	program := os.Getenv("SEALIFT")
	if program == "" {
		var err error
		program, err = os.Executable()
		require.NoError(t, err)
	}
	cmd := exec.CommandContext(t.Context(), program, args...) //nolint:gosec // ours
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), asSealift+"=1")
	return cmd
}

// run runs the program to its end and returns the exit code.
func run(t *testing.T, dir string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	cmd := sealift(t, dir, args...)
	var out, complaints bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaints
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		require.NoError(t, err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), complaints.String()
}

// must runs the program, which has to succeed and print nothing on stderr.
func must(t *testing.T, dir string, args ...string) (stdout string) {
	t.Helper()
	code, stdout, stderr := run(t, dir, args...)
	require.Zero(t, code, "%q: %s", args, stderr)
	require.Empty(t, stderr, "%q", args)
	return stdout
}

// counts runs a copy, which must succeed, and returns its counters.
func counts(t *testing.T, dir string, args ...string) map[string]int {
	t.Helper()
	var report struct{ Counts map[string]int }
	require.NoError(t, json.Unmarshal([]byte(must(t, dir, append([]string{"copy", "--json"}, args...)...)), &report))
	return report.Counts
}

// scratch returns a directory with a tree in src.
func scratch(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		put(t, filepath.Join(dir, "src", name), content)
	}
	return dir
}

func put(t *testing.T, path, content string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte(content), 0o644))
}

func content(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(b)
}

// literal returns a path in the form that Windows does not interpret.
func literal(path string) string { return `\\?\` + path }

// noLeftovers checks that no file of Sealift is below dir.
func noLeftovers(t *testing.T, dir string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		require.NotContains(t, filepath.Base(path), ".sealift-")
		return err
	}))
}

// open opens the file at path with the given access and share mode.
func open(t *testing.T, path string, access, share uint32) windows.Handle {
	t.Helper()
	wide, err := windows.UTF16PtrFromString(literal(path))
	require.NoError(t, err)
	h, err := windows.CreateFile(wide, access, share, nil, windows.OPEN_EXISTING, windows.FILE_FLAG_BACKUP_SEMANTICS, 0)
	require.NoError(t, err, path)
	return h
}

// basic is FILE_BASIC_INFO: times in steps of 100 ns since 1601.
type basic struct {
	creation, access, write, change int64
	attributes                      uint32
	_                               uint32
}

func basicOf(t *testing.T, path string) (b basic) {
	t.Helper()
	h := open(t, path, windows.FILE_READ_ATTRIBUTES, windows.FILE_SHARE_READ|windows.FILE_SHARE_WRITE|windows.FILE_SHARE_DELETE)
	defer windows.CloseHandle(h)
	require.NoError(t, windows.GetFileInformationByHandleEx(h, windows.FileBasicInfo, (*byte)(unsafe.Pointer(&b)), uint32(unsafe.Sizeof(b))))
	return b
}

func setBasic(t *testing.T, path string, b basic) {
	t.Helper()
	h := open(t, path, windows.FILE_WRITE_ATTRIBUTES, windows.FILE_SHARE_READ|windows.FILE_SHARE_WRITE)
	defer windows.CloseHandle(h)
	require.NoError(t, windows.SetFileInformationByHandle(h, windows.FileBasicInfo, (*byte)(unsafe.Pointer(&b)), uint32(unsafe.Sizeof(b))))
}
