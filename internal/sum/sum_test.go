//go:build unix

package sum_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/filter"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/fsys/faultfs"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/sum"
	"github.com/seed65876f4f/sealift/internal/treetest"
)

// hardTree makes a tree with difficult names and sizes, and changes into it.
func hardTree(t *testing.T) (names []string) {
	t.Helper()
	dir := filepath.Join(treetest.MemoryDir(t), "tree")
	names = []string{
		"a", "a.b", "a/" + "", "-", "-n", "*star", "#hash", "empty", "sub/inner", "sub.txt", "sub-x", "deep/er/est/file",
		"name with  blanks", " leading", "trailing ", "ünïcødé", strings.Repeat("l", 255), "exactly a block", "big",
	}
	names = slices.DeleteFunc(names, func(n string) bool { return n == "a/" })
	if runtime.GOOS == "linux" {
		names = append(names, "new\nline", "carriage\rreturn", `back\slash`, "\\", "bad\xff\xfeutf8", "\x01control", "tab\there")
	}
	for i, name := range names {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		size := map[string]int{"empty": 0, "exactly a block": 128 << 10, "big": 3<<20 + 17}
		n, ok := size[name]
		if !ok {
			n = 10 + i
		}
		require.NoError(t, os.WriteFile(path, treetest.Pattern(n, byte(i)), 0o644))
	}
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "nothing in it"), 0o755))
	t.Chdir(dir)
	slices.Sort(names)
	return names
}

// run returns the lines and the reports.
func run(t *testing.T, o *sum.Options) (lines string, reported []string, s *sum.Summary) {
	t.Helper()
	var out bytes.Buffer
	o.Out = &out
	if o.Hashes == nil {
		o.Hashes = []hash.Algorithm{hash.SHA256}
	}
	o.Report = func(e sum.Event) { reported = append(reported, e.Err.Error()) }
	s, err := sum.Run(t.Context(), o, &counters.Set{CountTotals: true})
	require.NoError(t, err)
	return out.String(), reported, s
}

// coreutils returns the output of a program for the names, or nothing if the program is not
// installed.
func coreutils(t *testing.T, names []string, program string, args ...string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		t.Skipf("%s is not installed", program)
	}
	cmd := exec.Command(path, append(append(args, "--"), names...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	require.NoError(t, err)
	return string(out)
}

// sum prints the same bytes as sha256sum and its siblings for the same names.
func TestEqualsCoreutils(t *testing.T) {
	defer goleak.VerifyNone(t)
	names := hardTree(t)
	for i, name := range names { // "-" is standard input for both programs
		if name == "-" {
			names[i] = "./-"
		}
	}
	for _, c := range []struct {
		program string
		args    []string
		o       sum.Options
	}{
		{"sha256sum", nil, sum.Options{}},
		{"sha256sum", []string{"--tag"}, sum.Options{Tag: true}},
		{"sha256sum", []string{"--zero"}, sum.Options{Zero: true}},
		{"sha256sum", []string{"--tag", "--zero"}, sum.Options{Tag: true, Zero: true}},
		{"sha512sum", nil, sum.Options{Hashes: []hash.Algorithm{hash.SHA512}}},
		{"md5sum", []string{"--tag"}, sum.Options{Tag: true, Hashes: []hash.Algorithm{hash.MD5}}},
	} {
		t.Run(fmt.Sprint(c.program, c.args), func(t *testing.T) {
			want := coreutils(t, names, c.program, c.args...)
			c.o.Paths = []string{"."}
			lines, reported, s := run(t, &c.o)
			require.Empty(t, reported)
			require.Equal(t, want, lines)
			require.EqualValues(t, len(names), s.Files)
			require.Equal(t, len(names), s.Lines)
			c.o.Paths = slices.Sorted(slices.Values(names)) // the files themselves; "./-" sorts differently
			c.o.Workers = 1
			lines, _, _ = run(t, &c.o)
			require.Equal(t, coreutils(t, c.o.Paths, c.program, c.args...), lines)
		})
	}
	t.Run("several directories", func(t *testing.T) {
		var want []string
		for _, name := range names {
			if strings.HasPrefix(name, "sub/") || strings.HasPrefix(name, "deep/") {
				want = append(want, name)
			}
		}
		lines, _, _ := run(t, &sum.Options{Paths: []string{"sub/", "deep"}})
		require.Equal(t, coreutils(t, want, "sha256sum"), lines, "sorted, each with its directory")
	})
}

func TestSeveralHashes(t *testing.T) {
	hardTree(t)
	lines, _, _ := run(t, &sum.Options{Paths: []string{"a"}, Tag: true, Hashes: []hash.Algorithm{hash.SHA256, hash.BLAKE3, hash.XXH128}})
	for i, tag := range []string{"SHA256 (a) = ", "BLAKE3 (a) = ", "XXH128 (a) = "} {
		require.True(t, strings.HasPrefix(strings.Split(lines, "\n")[i], tag), lines)
	}
}

func TestFewDescriptors(t *testing.T) {
	dir := treetest.MemoryDir(t)
	root, err := fsys.OpenRoot(dir)
	require.NoError(t, err)
	for at, depth := root, 0; ; depth++ {
		p, err := at.Create(true)
		require.NoError(t, err)
		require.NoError(t, p.Commit("f"))
		if depth == 1500 {
			at.Close()
			break
		}
		require.NoError(t, at.Mkdir("d"))
		next, err := at.OpenDir("d")
		require.NoError(t, err)
		at.Close()
		at = next
	}
	var before syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &before))
	now := before
	now.Cur = 32
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &now))
	defer func() { require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &before)) }()
	_, reported, s := run(t, &sum.Options{Paths: []string{dir}, Workers: 32})
	require.Empty(t, reported)
	require.EqualValues(t, 1501, s.Files)
}

func TestUnreadableFilesAreReported(t *testing.T) {
	defer goleak.VerifyNone(t)
	names := hardTree(t)
	sys := faultfs.New(func(op fsys.Op, name string) error {
		if op == fsys.OpOpen && name == "inner" {
			return syscall.EIO
		}
		return nil
	})
	lines, reported, s := run(t, &sum.Options{FS: sys, Paths: []string{".", "missing"}})
	require.Len(t, reported, 2)
	require.EqualValues(t, 2, s.Errors)
	require.EqualValues(t, len(names)-1, s.Files)
	require.NotContains(t, lines, "inner")
	require.Contains(t, lines, "  ./deep/er/est/file\n")
}

func TestFiltersAndReserved(t *testing.T) {
	hardTree(t)
	require.NoError(t, os.WriteFile("sub/.sealift-0123456789abcdef.tmp", []byte("x"), 0o644))
	var rules filter.List
	require.NoError(t, rules.Exclude("*.txt"))
	require.NoError(t, rules.Include("/sub*/**"))
	require.NoError(t, rules.Include("/sub*"))
	require.NoError(t, rules.Exclude("*"))
	lines, reported, s := run(t, &sum.Options{Paths: []string{"."}, Filter: &rules})
	require.Equal(t, 2, strings.Count(lines, "\n"), lines)
	require.Len(t, reported, 1)
	require.EqualValues(t, 1, s.Warnings)
	only, err := filter.ReadOnly(strings.NewReader("deep\na\n"), false)
	require.NoError(t, err)
	lines, _, _ = run(t, &sum.Options{Paths: []string{"."}, Only: only})
	require.Equal(t, 2, strings.Count(lines, "\n"), lines)
	_, err = sum.Run(t.Context(), &sum.Options{Paths: []string{"a", "b"}, Only: only, Out: io.Discard, Hashes: []hash.Algorithm{hash.SHA256}}, &counters.Set{})
	require.Error(t, err)
}

func TestStandardInputLinksAndPipes(t *testing.T) {
	hardTree(t)
	const abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
	lines, _, _ := run(t, &sum.Options{Paths: []string{"-"}, Stdin: strings.NewReader("abc")})
	require.Equal(t, abc+"  -\n", lines)
	require.NoError(t, os.WriteFile("abc", []byte("abc"), 0o644))
	require.NoError(t, os.Symlink("abc", "link"))
	require.NoError(t, os.Symlink("sub", "dirlink"))
	lines, _, _ = run(t, &sum.Options{Paths: []string{"link"}})
	require.Equal(t, abc+"  link\n", lines, "what the user names is followed")
	lines, _, _ = run(t, &sum.Options{Paths: []string{"."}})
	require.NotContains(t, lines, "link", "links in a tree are not")
	lines, _, _ = run(t, &sum.Options{Paths: []string{"dirlink"}})
	require.Contains(t, lines, "  inner\n")
	require.NoError(t, syscall.Mkfifo("fifo", 0o644))
	go func() {
		f, err := os.OpenFile("fifo", os.O_WRONLY, 0)
		if err == nil {
			_, _ = f.WriteString("abc")
			_ = f.Close()
		}
	}()
	lines, _, _ = run(t, &sum.Options{Paths: []string{"fifo"}})
	require.Equal(t, abc+"  fifo\n", lines)
	lines, reported, _ := run(t, &sum.Options{Paths: []string{"."}})
	require.Empty(t, reported)
	require.NotContains(t, lines, "fifo")
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	_, err = w.WriteString("abc")
	require.NoError(t, err)
	require.NoError(t, w.Close())
	name := fmt.Sprintf("/dev/fd/%d", r.Fd())
	lines, reported, _ = run(t, &sum.Options{Paths: []string{name}})
	require.Empty(t, reported)
	require.Equal(t, abc+"  "+name+"\n", lines)
}

// sum reads a file again that another process changes meanwhile, and reports it if it keeps
// changing.
func TestAFileThatChanges(t *testing.T) {
	hardTree(t)
	n, times := 0, 1
	sys := faultfs.New(func(op fsys.Op, _ string) error {
		if op == fsys.OpRead && n < times {
			n++
			f, err := os.OpenFile("a", os.O_APPEND|os.O_WRONLY, 0)
			if err == nil {
				_, _ = f.WriteString("more")
				_ = f.Close()
			}
		}
		return nil
	})
	lines, reported, _ := run(t, &sum.Options{FS: sys, Paths: []string{"a"}})
	require.Empty(t, reported)
	again, _, _ := run(t, &sum.Options{Paths: []string{"a"}})
	require.Equal(t, again, lines)
	n, times = 0, 99
	sys = faultfs.New(func(op fsys.Op, _ string) error {
		if op == fsys.OpRead {
			f, err := os.OpenFile("a", os.O_APPEND|os.O_WRONLY, 0)
			if err == nil {
				_, _ = f.WriteString("more")
				_ = f.Close()
			}
		}
		return nil
	})
	lines, reported, _ = run(t, &sum.Options{FS: sys, Paths: []string{"a"}})
	require.Empty(t, lines)
	require.Len(t, reported, 1)
	require.Contains(t, reported[0], "it changed while being read")
}

func TestStopAndClosedOutput(t *testing.T) {
	defer goleak.VerifyNone(t)
	hardTree(t)
	stop := errors.New("stop")
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(stop)
	var out bytes.Buffer
	_, err := sum.Run(ctx, &sum.Options{Paths: []string{"."}, Hashes: []hash.Algorithm{hash.SHA256}, Out: &out, Manifest: ""}, &counters.Set{CountTotals: true})
	require.ErrorIs(t, err, stop)
	require.Zero(t, out.Len())
	_, err = sum.Run(ctx, &sum.Options{Paths: []string{"."}, Hashes: []hash.Algorithm{hash.SHA256}, Manifest: "M"}, &counters.Set{})
	require.ErrorIs(t, err, stop)
	require.NoFileExists(t, "M")
	_, err = sum.Run(context.Background(), &sum.Options{Paths: []string{"."}, Hashes: []hash.Algorithm{hash.SHA256}, Out: closed{}}, &counters.Set{})
	require.ErrorIs(t, err, fs.ErrClosed)
}

type closed struct{}

func (closed) Write([]byte) (int, error) { return 0, fs.ErrClosed }

// If a file is replaced while it is read, the new file is listed: the name decides, not the
// open file.
func TestAFileThatIsReplaced(t *testing.T) {
	for _, path := range []string{"d", "d/f"} {
		dir := t.TempDir()
		t.Chdir(dir)
		require.NoError(t, os.Mkdir("d", 0o755))
		require.NoError(t, os.WriteFile("d/f", []byte("old"), 0o600))
		require.NoError(t, os.WriteFile("new", []byte("new"), 0o600))
		sys := faultfs.New(func(op fsys.Op, _ string) error {
			if op == fsys.OpRead {
				_ = os.Rename("new", "d/f") // once: then the new file is gone
			}
			return nil
		})
		lines, reported, _ := run(t, &sum.Options{FS: sys, Paths: []string{path}})
		require.Empty(t, reported)
		again, _, _ := run(t, &sum.Options{Paths: []string{path}})
		require.Equal(t, again, lines)
	}
}
