package usage

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/seed65876f4f/sealift/internal/treetest"
)

var gnuDu = sync.OnceValues(func() (string, error) {
	path, err := exec.LookPath("du")
	if err != nil {
		return "", err
	}
	version, err := exec.Command(path, "--version").Output()
	if err != nil || !bytes.Contains(version, []byte("GNU coreutils")) {
		return "", errors.New("du is not that of GNU coreutils")
	}
	return path, nil
})

// duSizesDirs reports whether directories have an apparent size for du, as up to
// coreutils 9.1 and as here.
var duSizesDirs = sync.OnceValue(func() bool {
	program, err := gnuDu()
	if err != nil {
		return false
	}
	dir, err := os.MkdirTemp(".", "du")
	if err != nil {
		return false
	}
	defer os.RemoveAll(dir)
	if os.WriteFile(dir+"/empty", nil, 0o644) != nil { // an empty directory may have none
		return false
	}
	out, err := exec.Command(program, "-bs", dir).Output()
	return err == nil && !bytes.HasPrefix(out, []byte("0\t"))
})

func needDu(t testing.TB) {
	t.Helper()
	if _, err := gnuDu(); err != nil {
		t.Skip(err)
	}
}

// flags are those of du for o, with which it prints bytes and NULs.
func flags(o Options) []string {
	list := []string{"-0", "--block-size=1"}
	if o.Threshold != 0 {
		list = append(list, "--threshold="+strconv.FormatInt(o.Threshold, 10))
	}
	if o.Time != NoTime {
		list = append(list, []string{Modified: "--time", Accessed: "--time=atime", Changed: "--time=ctime"}[o.Time], "--time-style=+%s")
	}
	if o.MaxDepth >= 0 {
		list = append(list, "-d", strconv.Itoa(o.MaxDepth))
	}
	for flag, on := range map[string]bool{"-a": o.Files, "-l": o.CountLinks, "--apparent-size": o.Apparent, "-x": o.OneFileSystem, "-S": o.Separate, "-D": o.FollowPaths, "-L": o.FollowAll} {
		if on {
			list = append(list, flag)
		}
	}
	return list
}

// requireLikeDu demands the lines of du, byte for byte, and as many failures. more are
// flags of du that o does not tell.
func requireLikeDu(t require.TestingT, o Options, more ...string) account {
	if o.Apparent && !o.Inodes && !duSizesDirs() {
		return take(t, o)
	}
	if o.Apparent && o.Inodes { // du warns that it ignores the first
		o.Apparent = false
	}
	program, err := gnuDu()
	require.NoError(t, err)
	args := slices.Concat(flags(o), more, []string{"-c", "--"}, o.Paths)
	if o.Inodes {
		args = append([]string{"--inodes"}, args...)
	}
	cmd := exec.Command(program, args...)
	var out, complaints bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.Env = &out, &complaints, append(os.Environ(), "LC_ALL=C")
	err = cmd.Run()
	if failed := new(exec.ExitError); !errors.As(err, &failed) {
		require.NoError(t, err)
	}
	got := take(t, o)
	var lines strings.Builder
	line := func(a Amount, name string) {
		fmt.Fprintf(&lines, "%d\t", a.Size)
		if o.Time != NoTime {
			fmt.Fprintf(&lines, "%d\t", a.Newest)
		}
		lines.WriteString(name + "\x00")
	}
	for _, e := range got.Entries {
		if o.Passes(e.Size) {
			line(e.Amount, e.Path)
		}
	}
	line(got.Total, "total")
	if want := out.String(); want != lines.String() {
		w, g := strings.SplitAfter(want, "\x00"), strings.SplitAfter(lines.String(), "\x00")
		at := 0
		for at < len(w) && at < len(g) && w[at] == g[at] {
			at++
		}
		around := func(list []string) []string { return list[max(at-2, 0):min(at+10, len(list))] }
		require.FailNow(t, "not as du", "%q\nline %d: want %q\ngot %q", args, at, around(w), around(g))
	}
	require.Equal(t, err != nil, len(got.Failed) > 0, "%q: %v: %s, failed: %q", args, err, complaints.Bytes(), got.Failed)
	require.Equal(t, strings.Count(complaints.String(), "\n"), len(got.Failed), "%q: %s, failed: %q", args, complaints.Bytes(), got.Failed)
	return got
}

// requireAllLikeDu tries all 64 combinations of flags with SEALIFT_SWEEP=all. Otherwise it tries
// each fifth one, which has every value of each flag, and other ones for other paths.
func requireAllLikeDu(t require.TestingT, paths ...string) {
	first, stride := len(strings.Join(paths, " "))%5, 5
	if os.Getenv("SEALIFT_SWEEP") == "all" {
		first, stride = 0, 1
	}
	for n := first; n < 64; n += stride {
		requireLikeDu(t, Options{
			Paths: paths, MaxDepth: n/16 - 1,
			Files: n&1 != 0, CountLinks: n&2 != 0, Apparent: n&4 != 0, OneFileSystem: n&8 != 0,
		})
	}
}

// grown is a tree that is made at random.
type grown struct {
	root  string
	dirs  []string
	files []string // and whatever else is no directory
}

var oddNames = []string{"a", "b", "c", "-", "two\nlines", "\xff\xfe", " ", "tab\t", "\\", "é", "Z", ".hidden", "l" + strings.Repeat("o", 253) + "g"}

func grow(t *rapid.T, root string) *grown {
	require.NoError(t, os.Mkdir(root, 0o755))
	g := &grown{root: root, dirs: []string{root}}
	for range rapid.IntRange(0, 40).Draw(t, "entries") {
		parent := rapid.SampledFrom(g.dirs).Draw(t, "parent")
		path := parent + "/" + rapid.SampledFrom(oddNames).Draw(t, "name")
		if _, err := os.Lstat(path); err == nil || len(path) > 3500 {
			continue
		}
		kind := rapid.SampledFrom([]string{"dir", "dir", "file", "hole", "link", "link", "symlink", "fifo"}).Draw(t, "kind")
		switch kind {
		case "dir":
			require.NoError(t, os.Mkdir(path, 0o755))
			g.dirs = append(g.dirs, path)
			continue
		case "file":
			require.NoError(t, os.WriteFile(path, make([]byte, rapid.IntRange(0, 20_000).Draw(t, "size")), 0o644))
		case "hole":
			f, err := os.Create(path)
			require.NoError(t, err)
			_, err = f.WriteAt([]byte("x"), rapid.Int64Range(0, 1<<40).Draw(t, "offset"))
			require.NoError(t, err)
			require.NoError(t, f.Close())
		case "link":
			if len(g.files) == 0 {
				continue
			}
			require.NoError(t, os.Link(rapid.SampledFrom(g.files).Draw(t, "of"), path))
		case "symlink":
			to := rapid.SampledFrom([]string{"/none", ".", "..", "a", strings.Repeat("x", 200)}).Draw(t, "to")
			require.NoError(t, os.Symlink(to, path))
		case "fifo":
			require.NoError(t, unix.Mkfifo(path, 0o644))
		}
		g.files = append(g.files, path)
	}
	return g
}

// path draws something to name on a command line: what is there, with slashes behind
// it, or what is not.
func (g *grown) path(t *rapid.T) string {
	path := rapid.SampledFrom(slices.Concat(g.dirs, g.files, g.dirs[:1], []string{g.root + "/none"})).Draw(t, "path")
	return path + rapid.SampledFrom([]string{"", "", "", "/", "//", "///", "/.", "/./", "/..//" + filepath.Base(path)}).Draw(t, "end")
}

func options(t *rapid.T, paths ...string) Options {
	o := Options{
		Paths:         paths,
		MaxDepth:      rapid.IntRange(-1, 4).Draw(t, "depth"),
		Files:         rapid.Bool().Draw(t, "all"),
		CountLinks:    rapid.Bool().Draw(t, "count links"),
		Apparent:      rapid.Bool().Draw(t, "apparent"),
		OneFileSystem: rapid.Bool().Draw(t, "one file system"),
		Separate:      rapid.Bool().Draw(t, "separate"),
		Inodes:        rapid.IntRange(0, 3).Draw(t, "inodes") == 0,
		FollowPaths:   rapid.Bool().Draw(t, "follow paths"),
		FollowAll:     rapid.IntRange(0, 3).Draw(t, "follow all") == 0,
		Threshold:     rapid.SampledFrom([]int64{0, 0, 1, 2, 4096, 8192, -1, -4096, -10000}).Draw(t, "threshold"),
		Time:          rapid.SampledFrom([]Time{NoTime, NoTime, Modified, Changed}).Draw(t, "time"),
	}
	if o.FollowAll {
		o.FollowPaths = false // of -D and -L, the last one counts
		for i, path := range o.Paths {
			o.Paths[i] = strings.TrimRight(path, "/") // with -L, du drops the slash only if the directory is empty
		}
	}
	return o
}

func TestLikeDu(t *testing.T) {
	needDu(t)
	for _, place := range []string{treetest.MemoryDir(t), t.TempDir()} {
		t.Chdir(place)
		n := 0
		rapid.Check(t, func(t *rapid.T) {
			n++
			g := grow(t, fmt.Sprint("t", n))
			defer os.RemoveAll(g.root)
			for range 3 {
				var paths []string
				for range rapid.IntRange(1, 5).Draw(t, "paths") {
					paths = append(paths, g.path(t))
				}
				o := options(t, paths...)
				all := requireLikeDu(t, o)
				if !o.Files {
					continue
				}
				o.Files, o.Top = false, rapid.IntRange(1, 12).Draw(t, "top")
				require.Equal(t, topOf(all.Entries, o.Top), take(t, o).Entries)
			}
		})
	}
}

// One tree with every flag.
func TestLikeDuWithAllFlags(t *testing.T) {
	needDu(t)
	t.Chdir(t.TempDir())
	pair := func() treetest.Node { return treetest.File(strings.Repeat("x", 5000), treetest.Linked("pair")) }
	treetest.Create(t, "r", treetest.Dir{
		"a":     treetest.Dir{"1": pair(), "2": pair(), "b": treetest.Dir{"3": pair(), "c": treetest.Dir{"4": pair(), "5": treetest.File("5")}}},
		"0":     treetest.Dir{"z": treetest.Dir{"6": pair()}},
		"hole":  treetest.Sparse(1<<30, map[int64]string{1 << 20: "x"}),
		"link":  treetest.Symlink("a/b"),
		"pipe":  treetest.Fifo(),
		"empty": treetest.Dir{},
		"sock":  treetest.Socket(),
	})
	for _, paths := range [][]string{
		{"r"}, {"."}, {"./"}, {"r//"}, {"r/link"}, {"r/link/"}, {"r/link//"}, {"r/a/1"}, {"r/pipe", "r/hole", "r/pipe"},
		{"r", "r"}, {"r", "r/a"}, {"r/a", "r"}, {"r/a/b/c", "r/a/b", "r/a", "r", "."}, {"r/a/b", "r/link/", "r/a/b/c/../c"},
		{"r/a/1", "r"}, {"r", "r/a/1"}, {"r/0", "r/a"}, {"r/a", "r/0"}, {"r/a/b/3", "r/a/1", "r/a", "r/0"}, {"r/hole", "r", "r/hole"},
		{"none", "r"}, {"r/a/1/", "r"}, {"none"}, {"r/0/../a", "r/a/b"},
	} {
		requireAllLikeDu(t, paths...)
	}
}

// disk returns a directory on a new ext4, whose listings are not sorted by inode; where
// none can be mounted, one on whatever there is.
func disk(t *testing.T) string {
	t.Helper()
	dir := treetest.MemoryDir(t)
	image, point := dir+"/image", dir+"/point"
	require.NoError(t, os.Mkdir(point, 0o755))
	require.NoError(t, os.WriteFile(image, nil, 0o600))
	require.NoError(t, os.Truncate(image, 1<<30))
	for _, command := range []string{"mkfs.ext4 -q -O ^has_journal -N 200000 " + image, "mount -o loop " + image + " " + point} {
		words := strings.Fields(command)
		if out, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
			t.Logf("on the disk that is there: %s: %v: %s", command, err, out)
			return t.TempDir()
		}
	}
	t.Cleanup(func() { require.NoError(t, unix.Unmount(point, unix.MNT_DETACH)) })
	return point
}

// Large directories are visited by inode, 100,000 entries at a time, unless that is no
// use; but a few entries are left as they are. TestEntriesAreVisitedInBatches shows the
// batches where SEALIFT_LARGE does not.
func TestLikeDuInLargeDirectories(t *testing.T) {
	needDu(t)
	onDisk := []int{10_000, 10_001}
	if treetest.Large() {
		onDisk = append(onDisk, 100_000, 110_000, 110_001)
	}
	for place, sizes := range map[string][]int{treetest.MemoryDir(t): {10_001}, disk(t): onDisk} {
		t.Chdir(place)
		require.NoError(t, os.Mkdir("r", 0o755))
		made := 0
		for _, size := range sizes {
			for ; made < size; made++ {
				path := fmt.Sprint("r/", rand.Uint32(), made)
				if made%2500 != 1 {
					require.NoError(t, unix.Mknod(path, unix.S_IFREG|0o644, 0))
					continue
				}
				require.NoError(t, os.Mkdir(path, 0o755))
				require.NoError(t, os.WriteFile(path+"/in", make([]byte, made%5000), 0o644))
				require.NoError(t, os.Link(path+"/in", fmt.Sprint("r/l", made))) // which counts?
				require.NoError(t, os.Link(path+"/in", fmt.Sprint("r/m", made)))
				made += 2
			}
			require.Equal(t, size, made)
			requireLikeDu(t, Options{Paths: []string{"r"}, MaxDepth: -1, Files: true})
		}
		requireLikeDu(t, Options{Paths: []string{"r"}, MaxDepth: 1})
		requireLikeDu(t, Options{Paths: []string{"r"}, MaxDepth: 1, Files: true, CountLinks: true})
	}
}
