package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/windows"

	"github.com/seed65876f4f/sealift/internal/treetest"
)

const (
	readOnly = windows.FILE_ATTRIBUTE_READONLY
	hidden   = windows.FILE_ATTRIBUTE_HIDDEN
	system   = windows.FILE_ATTRIBUTE_SYSTEM
	archive  = windows.FILE_ATTRIBUTE_ARCHIVE
)

// A tree is copied, checked, hashed, copied again and found damaged.
func TestCopyVerifySum(t *testing.T) {
	t.Parallel()
	names := map[string]string{
		"plain.txt": "plain", "empty": "", "Ünïcödé": "latin", "漢字/かな": "wide", "😀.txt": "outside the BMP", "e\u0301": "decomposed",
		" leading": "blank", "a'b & c%d!.txt": "shell", ".dot": "dot", strings.Repeat("n", 255): "long name",
		"large": string(treetest.Pattern(3<<20+1, 1)),
	}
	dir := scratch(t, names)
	odd := []string{"dot.", "blank ", "CON", "nul", "COM1.txt", "aux.", "LPT9", "CONIN$"}
	for _, name := range odd { // without its prefix, package os changes these names
		names[name] = name
		put(t, literal(filepath.Join(dir, "src", name)), name)
	}
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "src", "hollow", "deeper"), 0o755))

	count := counts(t, dir, "src", "dst")
	require.Equal(t, len(names), count["files"])
	for name, want := range names {
		require.Equal(t, want, content(t, literal(filepath.Join(dir, "dst", name))), name)
	}
	require.DirExists(t, filepath.Join(dir, "dst", "hollow", "deeper"))
	noLeftovers(t, filepath.Join(dir, "dst"))

	sums := content(t, filepath.Join(dir, "dst", "SHA256SUMS"))
	require.Equal(t, len(names), strings.Count(sums, "\n"))
	require.NotContains(t, sums, `\`)
	require.NotContains(t, sums, "\r")
	require.Equal(t, sums, must(t, dir, "sum", "src"))
	must(t, dir, "verify", "dst")

	again := counts(t, dir, "src", "dst")
	require.Zero(t, again["files"])
	require.Equal(t, len(names), again["skipped"])
	must(t, dir, "copy", "--verify", "--overwrite-policy", "always", "src", "dst")
	must(t, dir, "verify", "--unlisted", "dst")

	put(t, filepath.Join(dir, "dst", "plain.txt"), "Plain")
	require.NoError(t, os.Remove(filepath.Join(dir, "dst", "empty")))
	put(t, filepath.Join(dir, "dst", "extra"), "extra")
	code, stdout, stderr := run(t, dir, "verify", "--unlisted", "--no-summary", "dst")
	require.Equal(t, 3, code)
	require.Contains(t, stdout, "plain.txt: FAILED\n")
	require.Contains(t, stdout, "empty: MISSING\n")
	require.Contains(t, stdout+stderr, "extra")
	code, _, _ = run(t, dir, "verify", "src")
	require.Equal(t, 2, code, "there is no manifest")
	code, _, stderr = run(t, dir, "copy", "missing", "new")
	require.Equal(t, 2, code, stderr)
}

func TestAttributesAndTimes(t *testing.T) {
	t.Parallel()
	dir := scratch(t, map[string]string{"plain": "1", "ro": "2", "hidden": "3", "system": "4", "all": "5", "sub/in": "6", "secret/in": "7"})
	odd := basic{creation: 116444736000000001, access: 125911584000000003, write: 132223104001234567} // 1970, 2000, 2020
	want := map[string]uint32{
		"plain": archive, "ro": readOnly | archive, "hidden": hidden | archive, "system": system | archive,
		"all": readOnly | hidden | system | archive, "sub": 0, "secret": hidden | system,
	}
	set := func(name string, attributes uint32) {
		b := odd
		if b.attributes = attributes; attributes == 0 {
			b.attributes = windows.FILE_ATTRIBUTE_DIRECTORY
		}
		setBasic(t, filepath.Join(dir, "src", name), b)
	}
	check := func() {
		t.Helper()
		for name := range want {
			src, dst := basicOf(t, filepath.Join(dir, "src", name)), basicOf(t, filepath.Join(dir, "dst", name))
			require.Equal(t, src.attributes, dst.attributes, name)
			require.Equal(t, src.write, dst.write, name)
			if !emulated { // Wine cannot set it on Linux
				require.Equal(t, src.creation, dst.creation, name)
			}
		}
	}
	setBasic(t, filepath.Join(dir, "src"), basic{attributes: hidden | system}) // as on the root of a drive
	for name, attributes := range want {
		set(name, attributes)
		have := basicOf(t, filepath.Join(dir, "src", name))
		require.Equal(t, odd.write, have.write, name)
		require.Equal(t, attributes, have.attributes&(readOnly|hidden|system|archive), "%s: is there a place for attributes?", name)
	}
	access := basicOf(t, filepath.Join(dir, "src", "plain")).access
	require.Equal(t, odd.access, access)
	require.Equal(t, 7, counts(t, dir, "src", "dst")["files"])
	require.Equal(t, access, basicOf(t, filepath.Join(dir, "dst", "plain")).access)
	check()
	require.Zero(t, basicOf(t, filepath.Join(dir, "dst")).attributes&(hidden|system), "who has asked for it would not see it")
	require.Zero(t, counts(t, dir, "src", "dst")["files"])

	for name, attributes := range map[string]uint32{"plain": readOnly | hidden | archive, "all": archive, "ro": archive, "sub": hidden, "secret": 0} {
		set(name, attributes)
	}
	require.Zero(t, counts(t, dir, "src", "dst")["files"], "only the attributes differ")
	check()

	must(t, dir, "copy", "--preserve=none", "src", "none")
	require.Equal(t, uint32(archive), basicOf(t, filepath.Join(dir, "none", "hidden")).attributes, "as any new file")
}

// A read-only or hidden file is replaced like others, and gets the attributes of the
// source.
func TestReadOnlyIsReplaced(t *testing.T) {
	t.Parallel()
	dir := scratch(t, map[string]string{"a": "new", "sub/b": "new", "c": "new"})
	for name, attributes := range map[string]uint32{"a": readOnly, `sub\b`: readOnly | hidden, "c": hidden | system} {
		path := filepath.Join(dir, "dst", name)
		put(t, path, "old and longer")
		setBasic(t, path, basic{write: 125911584000000000, attributes: attributes | archive})
	}
	setBasic(t, filepath.Join(dir, "dst", "sub"), basic{attributes: readOnly | windows.FILE_ATTRIBUTE_DIRECTORY})
	setBasic(t, filepath.Join(dir, "src", "c"), basic{attributes: readOnly | archive})
	for _, policy := range []string{"default", "update", "checksum", "always"} {
		must(t, dir, "copy", "--overwrite-policy", policy, "src", "dst")
		for name, attributes := range map[string]uint32{"a": archive, `sub\b`: archive, "c": readOnly | archive} {
			path := filepath.Join(dir, "dst", name)
			require.Equal(t, "new", content(t, path), policy)
			require.Equal(t, attributes, basicOf(t, path).attributes, "%s %s", policy, name)
			setBasic(t, path, basic{attributes: windows.FILE_ATTRIBUTE_NORMAL})
			put(t, path, "old and longer")
			setBasic(t, path, basic{write: 125911584000000000, attributes: readOnly | archive})
		}
		noLeftovers(t, filepath.Join(dir, "dst"))
	}
}

// A process that has a file open decides what other processes may do with it. Sealift
// reports each forbidden operation and completes all others.
func TestLockedFilesAreReported(t *testing.T) {
	t.Parallel()
	dir := scratch(t, map[string]string{"free": "new", "held": "new", "sub/free": "new"})
	path := filepath.Join(dir, "dst", "held")
	put(t, path, "old")
	const sharesReading = windows.FILE_SHARE_READ
	h := open(t, path, windows.GENERIC_READ, sharesReading)
	code, _, stderr := run(t, dir, "copy", "--overwrite-policy", "always", "src", "dst")
	require.Equal(t, 1, code)
	require.Regexp(t, `'held' .*: commit: .*`+inUse(), stderr)
	require.Equal(t, 1, strings.Count(stderr, "\n"), stderr)
	require.Equal(t, "old", content(t, path))
	for _, name := range []string{"free", `sub\free`} {
		require.Equal(t, "new", content(t, filepath.Join(dir, "dst", name)))
	}
	windows.CloseHandle(h)
	must(t, dir, "copy", "--overwrite-policy", "always", "src", "dst")
	require.Equal(t, "new", content(t, path))

	// An opener that allows removal prevents nothing if renaming is that of POSIX.
	h = open(t, path, windows.GENERIC_READ, windows.FILE_SHARE_READ|windows.FILE_SHARE_DELETE)
	if code, _, stderr := run(t, dir, "copy", "--overwrite-policy", "always", "src", "dst"); emulated {
		t.Logf("open elsewhere, Wine: %d, %s", code, stderr)
	} else {
		require.Zero(t, code, stderr)
	}
	windows.CloseHandle(h)
	must(t, dir, "copy", "src", "dst") // a complete copy removes the marker of a failed one
	noLeftovers(t, filepath.Join(dir, "dst"))

	h = open(t, filepath.Join(dir, "src", "held"), windows.GENERIC_READ, 0)
	code, _, stderr = run(t, dir, "copy", "src", "other")
	require.Equal(t, 1, code)
	require.Regexp(t, `'held': open: .*`+inUse(), stderr)
	require.NoFileExists(t, filepath.Join(dir, "other", "held"))
	require.Equal(t, "new", content(t, filepath.Join(dir, "other", "sub", "free")))
	code, stdout, stderr := run(t, dir, "verify", "--no-summary", "dst")
	require.Zero(t, code, stdout+stderr)
	windows.CloseHandle(h)

	// A file with a locked range can be opened, but not read.
	h = open(t, filepath.Join(dir, "src", "held"), windows.GENERIC_READ|windows.GENERIC_WRITE, windows.FILE_SHARE_READ|windows.FILE_SHARE_WRITE|windows.FILE_SHARE_DELETE)
	require.NoError(t, windows.LockFileEx(h, windows.LOCKFILE_EXCLUSIVE_LOCK, 0, 1, 0, new(windows.Overlapped)))
	if code, _, stderr = run(t, dir, "copy", "src", "other"); code == 0 && emulated {
		t.Log("Wine lets everybody read what is locked")
	} else {
		require.Equal(t, 1, code)
		require.Regexp(t, `'held': read: `, stderr)
	}
	windows.CloseHandle(h)
	must(t, dir, "copy", "src", "other")
	require.Equal(t, "new", content(t, filepath.Join(dir, "other", "held")))
}

// inUse is the system's message about a sharing violation, in its language.
func inUse() string {
	return strings.TrimRight(windows.ERROR_SHARING_VIOLATION.Error(), ".")
}

// Users write paths of directories in many forms.
func TestPathsOfUsers(t *testing.T) {
	t.Parallel()
	dir := scratch(t, map[string]string{"f": "f", "sub/g": "g"})
	drive := dir[:2]
	for _, pair := range [][2]string{
		{"src/", "a/b/"}, {`.\src`, `.\c\..\d`}, {literal(filepath.Join(dir, "src")), literal(filepath.Join(dir, "e"))},
		{drive + "src", drive + "f"}, {dir[2:] + `\src`, dir[2:] + `\g`}, {`\\.\` + dir + `\src`, `\\.\` + dir + `\h`},
		{filepath.ToSlash(dir) + "/src", filepath.ToSlash(dir) + "/i"}, {strings.ToLower(drive) + dir[2:] + `\SRC`, `src\..\j`},
	} {
		must(t, dir, "copy", pair[0], pair[1])
		must(t, dir, "verify", pair[1])
	}
	for _, name := range []string{`a\b`, "d", "e", "f", "g", "h", "i", "j"} {
		require.Equal(t, "g", content(t, filepath.Join(dir, name, "sub", "g")), name)
	}
	for _, dst := range []string{"src", `SRC\sub\new`, literal(filepath.Join(dir, "src", "x")), drive + "Src", dir[2:] + `\src\.`} {
		code, _, stderr := run(t, dir, "copy", "src", dst)
		require.Equal(t, 2, code, "%s: %s", dst, stderr)
	}
	code, _, stderr := run(t, dir, "copy", "src", "-o", "twice", "-o", "TWICE")
	require.Equal(t, 2, code, stderr)
	for _, dst := range []string{"NUL", `\\.\NUL`} { // a device
		code, _, stderr = run(t, dir, "copy", `src\f`, dst)
		require.Equal(t, 2, code, "%s: %s", dst, stderr)
	}
	for _, dst := range []string{`d\f:stream`, `d\f\x`} { // of a file, and below a file
		code, _, stderr = run(t, dir, "copy", "--overwrite-policy", "always", `src\sub\g`, dst)
		require.Contains(t, []int{1, 2}, code, "%s: %s", dst, stderr)
		require.Equal(t, "f", content(t, filepath.Join(dir, "d", "f")))
	}
}

// Paths are longer than 260 characters, the limit of old programs, and up to some 32,000,
// the limit of the system.
func TestLongPaths(t *testing.T) {
	t.Parallel()
	most := 30_000
	if emulated {
		most = 3_500 // the host has PATH_MAX
	}
	dir := t.TempDir()
	name := strings.Repeat("d", 200)
	path := filepath.Join(dir, "src")
	for len(path)+len(name) < most {
		path = filepath.Join(path, name)
	}
	put(t, literal(filepath.Join(path, "file")), "deep")
	must(t, dir, "copy", "src", "dst")
	rest := strings.TrimPrefix(path, filepath.Join(dir, "src"))
	require.Equal(t, "deep", content(t, literal(filepath.Join(dir, "dst")+rest+`\file`)))
	must(t, dir, "verify", "dst")
	require.Contains(t, must(t, dir, "sum", "dst"), "ddd/file")

	long := filepath.Join(dir, "dst", name, name) // more than 260, given by the user
	must(t, dir, "copy", filepath.Join(dir, "src", name, name), filepath.Join(long, "again"))
	must(t, dir, "verify", filepath.Join(long, "again"))
	require.NoError(t, os.RemoveAll(literal(filepath.Join(dir, "dst"))))
	require.NoError(t, os.RemoveAll(literal(filepath.Join(dir, "src"))))
}

// A name in another case is the same name.
func TestNamesFoldCase(t *testing.T) {
	t.Parallel()
	dir := scratch(t, map[string]string{"Name.TXT": "new", "Dir/File": "new"})
	put(t, filepath.Join(dir, "dst", "name.txt"), "old")
	put(t, filepath.Join(dir, "dst", "dIR", "fILE"), "old")
	count := counts(t, dir, "--overwrite-policy", "checksum", "src", "dst")
	require.Equal(t, 2, count["files"])
	for _, d := range []string{"dst", `dst\Dir`} {
		entries, err := os.ReadDir(filepath.Join(dir, d))
		require.NoError(t, err)
		for i, a := range entries {
			for _, b := range entries[:i] {
				require.False(t, strings.EqualFold(a.Name(), b.Name()), "%s and %s", a.Name(), b.Name())
			}
		}
	}
	require.Equal(t, "new", content(t, filepath.Join(dir, "dst", "NAME.txt")))
	require.Equal(t, "new", content(t, filepath.Join(dir, "dst", "DIR", "FILE")))
	must(t, dir, "verify", "dst")
	require.Zero(t, counts(t, dir, "src", "dst")["files"])
}

// Links are copied if the user may create them.
func TestLinks(t *testing.T) {
	t.Parallel()
	dir := scratch(t, map[string]string{"sub/f": "f", "one": "1"})
	require.NoError(t, os.Link(filepath.Join(dir, "src", "one"), filepath.Join(dir, "src", "sub", "two")))
	require.Equal(t, 1, counts(t, dir, "src", "dst")["hard_links"])
	one, err := os.Stat(filepath.Join(dir, "dst", "one"))
	require.NoError(t, err)
	two, err := os.Stat(filepath.Join(dir, "dst", "sub", "two"))
	require.NoError(t, err)
	require.True(t, os.SameFile(one, two))

	for link, target := range map[string]string{"to-file": "one", "to-dir": "sub", "dangling": "nothing", `sub\up`: `..\sub`} {
		err := os.Symlink(target, filepath.Join(dir, "src", link))
		if _, none := os.Lstat(filepath.Join(dir, "src", link)); err != nil || none != nil {
			t.Skipf("no symbolic links here: %v", errors.Join(err, none))
		}
	}
	require.Equal(t, 4, counts(t, dir, "src", "dst")["links"])
	require.Equal(t, "f", content(t, filepath.Join(dir, "dst", "sub", "up", "f")), "a link to a directory")
	target, err := os.Readlink(filepath.Join(dir, "dst", "to-dir"))
	require.NoError(t, err)
	require.Equal(t, "sub", target)
	require.Zero(t, counts(t, dir, "src", "dst")["links"])
}

// begun starts a long copy of a large file, and waits until a temporary exists.
func begun(t *testing.T, dir string) *exec.Cmd {
	t.Helper()
	put(t, filepath.Join(dir, "src", "large"), string(treetest.Pattern(24<<20, 7)))
	cmd := sealift(t, dir, "copy", "--progress", "none", "--bwlimit", "4M", "src", "dst")
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: windows.CREATE_NEW_PROCESS_GROUP}
	require.NoError(t, cmd.Start())
	require.Eventually(t, func() bool {
		for _, pattern := range []string{"small", ".sealift-*.tmp"} {
			if found, err := filepath.Glob(filepath.Join(dir, "dst", pattern)); err != nil || len(found) == 0 {
				return false
			}
		}
		return true
	}, time.Minute, 50*time.Millisecond)
	return cmd
}

// The same command completes a killed copy. Until the first process has ended, no other
// copy can lock the destination.
func TestKilledAndResumed(t *testing.T) {
	t.Parallel()
	dir := scratch(t, map[string]string{"small": "small"})
	cmd := begun(t, dir)
	code, _, stderr := run(t, dir, "copy", "src", "dst")
	require.Equal(t, 2, code, stderr)
	require.Contains(t, stderr, "another")
	require.NoError(t, cmd.Process.Kill())
	require.Error(t, cmd.Wait())
	require.NoFileExists(t, filepath.Join(dir, "dst", "large"))
	must(t, dir, "copy", "src", "dst")
	must(t, dir, "verify", "--unlisted", "dst")
	require.Equal(t, content(t, filepath.Join(dir, "src", "large")), content(t, filepath.Join(dir, "dst", "large")))
	noLeftovers(t, filepath.Join(dir, "dst"))
}

// Ctrl-Break, which unlike Ctrl-C can be sent to one process group, stops cleanly.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	dir := scratch(t, map[string]string{"small": "small"})
	cmd := begun(t, dir)
	if err := windows.GenerateConsoleCtrlEvent(windows.CTRL_BREAK_EVENT, uint32(cmd.Process.Pid)); err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		t.Skipf("no console: %v", err)
	}
	require.Error(t, cmd.Wait())
	require.Equal(t, 130, cmd.ProcessState.ExitCode())
	require.NoFileExists(t, filepath.Join(dir, "dst", "large"))
	must(t, dir, "copy", "src", "dst")
	must(t, dir, "verify", "--unlisted", "dst")
	noLeftovers(t, filepath.Join(dir, "dst"))
}

func TestDiskUsageAndStreams(t *testing.T) {
	t.Parallel()
	dir := scratch(t, map[string]string{"f": string(treetest.Pattern(100_000, 3)), "sub/g": "g"})
	require.Contains(t, must(t, dir, "du", "-b", "-a", "src"), "100000\tsrc/f\n")
	code, _, stderr := run(t, dir, "stream", `src\f`, "out1", "out2", "NUL", "--manifest", "f.sha256")
	require.Zero(t, code, stderr)
	for _, name := range []string{"out1", "out2"} {
		require.Equal(t, content(t, filepath.Join(dir, "src", "f")), content(t, filepath.Join(dir, name)))
	}
	cmd := sealift(t, dir, "stream", "--quiet", "--block-size", "1000", "-", "-")
	cmd.Stdin = strings.NewReader(strings.Repeat("x", 5001))
	out, err := cmd.Output()
	require.NoError(t, err)
	require.Equal(t, strings.Repeat("x", 5001), string(out))
	require.Zero(t, func() int { code, _, _ := run(t, dir, "stream", "NUL", "empty"); return code }())
	require.Empty(t, content(t, filepath.Join(dir, "empty")))
}

func TestCompareFindsDifferences(t *testing.T) {
	dir := scratch(t, map[string]string{"a": "one", "sub/b": "two"})
	must(t, dir, "copy", "src", "dst")
	must(t, dir, "compare", "src", "dst")
	put(t, filepath.Join(dir, "dst", "sub", "b"), "TWO")
	code, stdout, _ := run(t, dir, "compare", "src", "dst")
	require.Equal(t, 3, code, stdout)
	require.Contains(t, stdout, "sub/b")
}
