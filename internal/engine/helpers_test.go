package engine

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed65876f4f/sealift/internal/dest"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/incomplete"
	"github.com/seed65876f4f/sealift/internal/manifest"
	"github.com/seed65876f4f/sealift/internal/metadata"
	"github.com/seed65876f4f/sealift/internal/readback"
	"github.com/seed65876f4f/sealift/internal/resume"
	"github.com/seed65876f4f/sealift/internal/treetest"
)

const (
	sweepBlock = 4 << 10 // bytes; longer files go through lanes
	bigSize    = 5*sweepBlock + 123
)

var (
	longAgo = time.Unix(1_000_000_000, 111_111_100)
	before  = time.Unix(1_500_000_000, 222_222_200)
	since   = time.Unix(1_600_000_000, 333_333_300)
)

// TestMain fails if any test has left a goroutine.
//
// Tests are parallel unless they change the process or start a program. Between fork and exec, a
// child has copies of all descriptors, and so it holds the locks of other tests' destinations.
func TestMain(m *testing.M) {
	fsys.Umask() // on some systems this sets the umask for a moment, to read it
	goleak.VerifyTestMain(m)
}

// linuxOnly skips a test on other systems.
func linuxOnly(t *testing.T, why string) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("only on Linux: " + why)
	}
}

// needsSymlinks skips a test where no symbolic links are made: Windows asks for a privilege,
// and Wine reports success without a link.
func needsSymlinks(t *testing.T) {
	t.Helper()
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink("target", link); err != nil {
		t.Skip("symbolic links cannot be made:", err)
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&fs.ModeSymlink == 0 {
		t.Skip("what is made as a symbolic link is none")
	}
}

// options are those of most tests: nothing is synced, so that a run takes no time.
func options(source string, targets ...string) Options {
	o := sweepOptions(source, targets, dest.SyncNone)
	o.Workers = 3
	return o
}

// sweepOptions are those of tests that count operations: one worker does nearly the same
// ones in each run.
func sweepOptions(source string, targets []string, sync dest.SyncMode) Options {
	return Options{
		Source: source, Targets: targets, Records: Records{Hashes: []hash.Algorithm{hash.SHA256}},
		Sync: sync, Preserve: metadata.PreserveAll, Resources: Resources{BlockSize: sweepBlock, QueueSize: 2, Workers: 1, Memory: 1 << 20},
	}
}

// verifying is options that read back.
func verifying(mode VerifyMode, source string, targets ...string) Options {
	o := options(source, targets...)
	o.Verify = mode
	return o
}

// in lets a run open everything through sys.
func in(sys *fsys.FS, o Options) Options {
	o.FS = sys
	return o
}

// stopClock prevents checkpoints and everything else that depends on time.
func stopClock(o Options) Options {
	o.checkEvery = time.Hour
	return o
}

// everyInstant reports whether sweeps take every operation of a run: SEALIFT_SWEEP=all was set.
// Otherwise they take some operations, spread over the run.
func everyInstant() bool { return os.Getenv("SEALIFT_SWEEP") == "all" }

// sweepStride returns how many operations apart a sweep takes them: 1 in the long form.
func sweepStride(short int64) int64 {
	if everyInstant() {
		return 1
	}
	return short
}

func write(t require.TestingT, root, name string, content []byte, mtime time.Time) {
	path := filepath.Join(root, name)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, content, 0o640))
	require.NoError(t, os.Chtimes(path, mtime, mtime))
}

func fileExists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func threeTargets(dir string) []string {
	return []string{filepath.Join(dir, "1"), filepath.Join(dir, "2"), filepath.Join(dir, "3")}
}

// sourceAndDestination are two paths in memory that do not exist yet.
func sourceAndDestination(t testing.TB) (src, dst string) {
	t.Helper()
	dir := treetest.MemoryDir(t)
	return filepath.Join(dir, "src"), filepath.Join(dir, "dst")
}

// littleTree has files that go inline and files that take the lanes.
func littleTree(t testing.TB) (root string, files map[string][]byte) {
	t.Helper()
	root = filepath.Join(treetest.MemoryDir(t), "src")
	files = map[string][]byte{
		"a":         treetest.Pattern(100, 1),
		"b/big":     treetest.Pattern(bigSize, 2),
		"b/c/small": treetest.Pattern(10, 3),
		"d/big":     treetest.Pattern(3*sweepBlock, 4),
		"e":         {},
		"f/link":    treetest.Pattern(bigSize, 5),
	}
	for name, content := range files {
		write(t, root, name, content, since)
	}
	require.NoError(t, os.Link(filepath.Join(root, "f/link"), filepath.Join(root, "g")))
	files["g"] = files["f/link"]
	require.NoError(t, os.Symlink("a", filepath.Join(root, "h")))
	return root, files
}

// sourceWithManifest makes a source of files with a manifest.
func sourceWithManifest(t testing.TB, files map[string][]byte, name, manifest string) (src, dst string) {
	t.Helper()
	dir := treetest.MemoryDir(t)
	src = filepath.Join(dir, "src")
	for path, content := range files {
		write(t, src, path, content, since)
	}
	write(t, src, name, []byte(manifest), since)
	return src, filepath.Join(dir, "dst")
}

// sumLines lists the files by path, as sha256sum would.
func sumLines(files map[string][]byte) string {
	var b strings.Builder
	for path, content := range files {
		fmt.Fprintf(&b, "%s  %s\n", sha(string(content)), path)
	}
	return b.String()
}

// touchManifests sets the times of manifests to a later time than that of all existing files.
func touchManifests(t testing.TB, paths ...string) {
	t.Helper()
	time.Sleep(20 * time.Millisecond) // some ticks of the clock that stamps files
	for _, path := range paths {
		now := time.Now()
		require.NoError(t, os.Chtimes(path, now, now))
	}
	time.Sleep(20 * time.Millisecond)
}

// spoil flips one bit of a file and restores its times.
func spoil(t testing.TB, path string) {
	t.Helper()
	info, err := os.Stat(path)
	require.NoError(t, err)
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NotEmpty(t, content)
	content[len(content)/2] ^= 1
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.Write(content)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	require.NoError(t, os.Chtimes(path, info.ModTime(), info.ModTime()))
}

type node struct {
	mode    fs.FileMode
	mtime   time.Time
	content string // of a file; a link's target
	links   uint64 // of a file; 0 except on Linux
	attrs   string // user.sealift and user.surplus; "" except on Linux
}

// look reads a tree below root.
func look(t require.TestingT, root string) map[string]node {
	nodes := map[string]node{}
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(root, path)
		rel = filepath.ToSlash(rel)
		info, err := d.Info()
		if err != nil {
			return err
		}
		n := node{mode: info.Mode(), mtime: info.ModTime()}
		n.links, n.attrs = linksAndAttributes(path, info)
		switch {
		case info.Mode().IsRegular():
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			n.content = string(b)
		case info.IsDir():
			n.links = 0
		case info.Mode()&fs.ModeSymlink != 0:
			n.content, err = os.Readlink(path)
		}
		nodes[rel] = n
		return err
	}))
	return nodes
}

// requireWhole demands that each regular file below root is complete and one of files.
func requireWhole(t testing.TB, root string, files map[string][]byte) (count int) {
	t.Helper()
	if _, err := os.Stat(root); errors.Is(err, os.ErrNotExist) {
		return 0
	}
	for path, n := range look(t, root) {
		if strings.Contains(path, fsys.Reserved) {
			require.NotContains(t, path, ".tmp", "a temporary is left")
			continue
		}
		if !n.mode.IsRegular() || strings.HasSuffix(path, "SUMS") || path == srcMarker {
			continue
		}
		count++
		content, ok := files[path]
		require.True(t, ok, "%s: of unknown origin", path)
		require.True(t, n.content == string(content), "%s: incomplete or wrong", path)
	}
	return count
}

// digestOf is what a line of the algorithm's manifest begins with.
func digestOf(a hash.Algorithm, content []byte) string {
	set := hash.NewSet([]hash.Algorithm{a})
	set.Write(content)
	return hex.EncodeToString(set.Digests()[0])
}

func sha(content string) string {
	set := hash.NewSet([]hash.Algorithm{hash.SHA256})
	set.Write([]byte(content))
	return hex.EncodeToString(set.Digests()[0])
}

func readManifest(t require.TestingT, content string) map[string]string {
	return readManifestOf(t, hash.SHA256, content)
}

func readManifestOf(t require.TestingT, a hash.Algorithm, content string) map[string]string {
	r := manifest.NewReader(bytes.NewReader([]byte(content)), manifest.GNU, a)
	lines := map[string]string{}
	for {
		l, err := r.Next()
		if err != nil {
			count, _ := r.Malformed()
			require.Zero(t, count)
			return lines
		}
		require.NotContains(t, lines, l.Path)
		lines[l.Path] = hex.EncodeToString(l.Digest)
	}
}

// listed are the paths in a destination's manifest, sorted, all of which must
// be true. The name of the manifest is SHA256SUMS.
func listed(t testing.TB, root string) []string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, "SHA256SUMS"))
	if os.IsNotExist(err) {
		return nil
	}
	require.NoError(t, err)
	lines := readManifest(t, string(content))
	for path, digest := range lines {
		content, err := os.ReadFile(filepath.Join(root, path))
		require.NoError(t, err, "the manifest lists what is not there")
		require.Equal(t, sha(string(content)), digest, "the line of %s is false", path)
	}
	return slices.Sorted(maps.Keys(lines))
}

const srcMarker = "SEALIFT-INCOMPLETE-src.txt"

// marked is the marker of a name at a destination: its head, and its text after that.
func marked(t testing.TB, dst, name string) (incomplete.Head, string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dst, name))
	require.NoError(t, err)
	h, err := incomplete.ReadHead(bytes.NewReader(text), int64(len(text)))
	require.NoError(t, err)
	return h, strings.TrimPrefix(string(text), h.String())
}

// markersAt are the names of the markers at a destination.
func markersAt(t testing.TB, dst string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dst)
	require.NoError(t, err)
	for _, e := range entries {
		if incomplete.IsName(e.Name()) {
			names = append(names, e.Name())
		}
	}
	return names
}

func journalAt(dst string) string { return filepath.Join(dst, ".sealift-journal") }

// aside are the names in a directory that hold files that were set aside.
func aside(t testing.TB, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), readback.BadPrefix) {
			names = append(names, e.Name())
		}
	}
	return names
}

func logs(t *testing.T, dir string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, resume.JournalName(""), "log.*"))
	require.NoError(t, err)
	return names
}

// temporaries are those directly in a destination.
func temporaries(t *testing.T, dir string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, fsys.Reserved+"*.tmp"))
	require.NoError(t, err)
	return names
}

// A copy of a large file can be stopped at three offsets. Each is larger than resume.LeastPartial,
// the smallest part that an interrupted copy keeps.
const (
	largeBlock = 128 << 10                                // bytes
	firstStop  = resume.LeastPartial + resume.MarkEvery/2 // bytes
	secondStop = firstStop + resume.MarkEvery             // bytes
	thirdStop  = secondStop + resume.MarkEvery            // bytes
	largeSize  = thirdStop + 2<<20 + 12345                // bytes
)

func largeOptions(source string, targets ...string) Options {
	o := sweepOptions(source, targets, dest.SyncEnd)
	o.BlockSize, o.Memory = largeBlock, 8<<20
	return o
}

// largeContent is the content of a large file, and otherLarge that of another file of the
// same size. All tests share these bytes, and none changes them.
var (
	largeContent = sync.OnceValue(func() []byte { return treetest.Pattern(largeSize, 1) })
	otherLarge   = sync.OnceValue(func() []byte { return treetest.Pattern(largeSize, 9) })
)

func largeSource(t *testing.T) (dir, source string, files map[string][]byte) {
	t.Helper()
	dir = treetest.MemoryDir(t)
	source = filepath.Join(dir, "src")
	files = map[string][]byte{"large": largeContent()}
	write(t, source, "large", files["large"], since)
	return dir, source, files
}
