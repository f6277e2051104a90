//go:build linux

package cli

import (
	"context"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed65876f4f/sealift/internal/treetest"
)

// TestStoppedAtAnyInstant stops commands at random instants. They leave no goroutines and no open
// files, and on the disk only files that the next run needs. The next run completes. SEALIFT_STOPS
// is the number of runs.
func TestStoppedAtAnyInstant(t *testing.T) {
	runs := 20
	if testing.Short() {
		runs = 10
	}
	if n, err := strconv.Atoi(os.Getenv("SEALIFT_STOPS")); err == nil {
		runs = n
	}
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // no secret
	t.Logf("seed %d", seed)

	dir := treetest.MemoryDir(t)
	src, dst, second := filepath.Join(dir, "src"), filepath.Join(dir, "dst"), filepath.Join(dir, "second")
	out := filepath.Join(dir, "out")
	tree := treetest.Dir{
		"large": treetest.File(string(treetest.Pattern(17<<20, 1))), // a temporary with a name
		"link":  treetest.Symlink("large"),
		"fifo":  treetest.Fifo(),
		"one":   treetest.File("linked", treetest.Linked("l")),
		"two":   treetest.File("linked", treetest.Linked("l")),
	}
	for i := range 8 {
		tree["dir"+strconv.Itoa(i)] = treetest.Directory(treetest.Dir{
			"small": treetest.File("x"),
			"some":  treetest.File(string(treetest.Pattern(300_000, byte(i)))),
		}, treetest.Mode(0o555))
	}
	treetest.Create(t, src, tree)
	checked := filepath.Join(dir, "checked")
	call := func(ctx context.Context, args ...string) int {
		return Main(ctx, args, strings.NewReader("from a pipe"), io.Discard, io.Discard)
	}
	require.Zero(t, call(t.Context(), "copy", "--sync=none", src, checked))
	copies := func(args ...string) []string { return append(append([]string{"copy"}, args...), src, dst) }
	commands := [][]string{
		copies(), copies("--verify", "--sync=file"), copies("--hash=none"), copies("--cache=drop", "--workers=1"),
		copies("--reflink=never", "--memory=1M", "-o", second), copies("--bwlimit=200MB", "--hash=sha256,blake3"),
		{"verify", checked}, {"verify", "--cache=direct", "--json", checked},
		{"compare", src, checked}, {"compare", "--cache=direct", "--metadata", src, checked},
		{"sum", src}, {"sum", "--manifest", out, src}, {"du", "-a", src}, {"du", "--top", "3", src},
		{"stream", filepath.Join(src, "large"), out}, {"stream", "--block-size=4K", filepath.Join(src, "large"), out, second},
	}
	long := make([]time.Duration, len(commands))
	old := goleak.IgnoreCurrent()
	for n := range runs {
		which := random.IntN(len(commands))
		args := commands[which]
		if long[which] == 0 {
			begun := time.Now()
			require.Zero(t, call(t.Context(), args...), args)
			long[which] = time.Since(begun)
			removeAll(t, dst, second, out)
		}
		before := held(t, dir)
		require.Len(t, before, 1, "descriptors, nothing of ours")
		sig, code := syscall.SIGINT, 130
		if n%2 == 1 {
			sig, code = syscall.SIGTERM, 143
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		stop := time.AfterFunc(time.Duration(random.Float64()*float64(long[which])*1.1), func() { cancel(Interrupt{Signal: sig}) })
		got := call(ctx, args...)
		stop.Stop()
		cancel(nil)
		require.Contains(t, []int{0, code}, got, "%v", args)
		require.NoError(t, goleak.Find(old, limitingHeap), "%v", args)
		require.Equal(t, before, held(t, dir), "%v", args)
		left := leftovers(t, dst, second, out)
		if got == 0 || args[0] != "copy" {
			require.Empty(t, left, "%v, exit code %d", args, got)
		}
		for _, path := range left { // only a large file may leave a temporary and a journal, from which the next run continues
			if info, err := os.Lstat(path); err == nil && !info.IsDir() {
				require.DirExists(t, filepath.Join(filepath.Dir(path), ".sealift-journal"), "%v: %s", args, path)
			}
		}
		if args[0] == "copy" {
			require.Zero(t, call(t.Context(), args...), args)
			for _, to := range []string{dst, second} {
				if _, err := os.Lstat(to); err == nil {
					treetest.Compare(t, src, to, treetest.Options{Ignore: []string{"SHA256SUMS", "BLAKE3SUMS"}})
				}
			}
			require.Empty(t, leftovers(t, dst, second), "%v", args)
		}
		removeAll(t, dst, second, out)
	}
}

// held returns the files below dir that the process has open or mapped, and its number of descriptors.
func held(t *testing.T, dir string) (list []string) {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	list = append(list, strconv.Itoa(len(fds)))
	for _, fd := range fds {
		if to, err := os.Readlink("/proc/self/fd/" + fd.Name()); err == nil && strings.HasPrefix(to, dir) {
			list = append(list, to)
		}
	}
	maps, err := os.ReadFile("/proc/self/maps")
	require.NoError(t, err)
	for line := range strings.Lines(string(maps)) {
		if strings.Contains(line, dir) {
			list = append(list, line)
		}
	}
	return list
}

// leftovers returns the topmost names that Sealift has chosen below the paths.
func leftovers(t *testing.T, paths ...string) (list []string) {
	t.Helper()
	for _, root := range paths {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err == nil && strings.HasPrefix(d.Name(), ".sealift-") {
				list = append(list, path)
				if d.IsDir() {
					err = fs.SkipDir
				}
			}
			if path == root && os.IsNotExist(err) {
				return nil
			}
			return err
		})
		require.NoError(t, err)
	}
	return list
}

func removeAll(t *testing.T, paths ...string) {
	t.Helper()
	for _, path := range paths {
		treetest.Remove(t, path)
	}
}
