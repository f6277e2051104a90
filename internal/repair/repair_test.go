package repair_test

import (
	"context"
	"crypto/md5"  //nolint:gosec // manifests have it
	"crypto/sha1" //nolint:gosec // as above
	"crypto/sha256"
	"crypto/sha512"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/fsys/faultfs"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/pipe"
	"github.com/seed65876f4f/sealift/internal/repair"
	"github.com/seed65876f4f/sealift/internal/sum"
	"github.com/seed65876f4f/sealift/internal/treetest"
	"github.com/seed65876f4f/sealift/internal/verify"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// mend repairs dir, and returns its summary, its files by path, and what else it reported.
func mend(o *repair.Options) (*repair.Summary, map[string]*repair.File, []string, error) {
	files := map[string]*repair.File{}
	var others []string
	o.File = func(f *repair.File) { files[f.Path] = f }
	o.Report = func(r verify.Result) { others = append(others, fmt.Sprint(r.Verdict, " ", r.Path, ": ", r.Err)) }
	s, err := repair.Run(context.Background(), o, &counters.Set{})
	return s, files, others, err
}

// content returns the regular files below dir, except those of a kept or temporary name.
func content(t testing.TB, dir string) map[string]string {
	files := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		files[filepath.ToSlash(name)] = string(text)
		return err
	}))
	return files
}

func sha(text string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(text))) }

// formats write a manifest of files into a directory.
var formats = map[string]func(t testing.TB, dir string, files map[string]string){
	"gnu":    lines("SHA256SUMS", "%[1]s  %[2]s\n", func(b []byte) string { return fmt.Sprintf("%x", sha256.Sum256(b)) }),
	"bsd":    lines("SHA256SUMS", "SHA256 (%[2]s) = %[1]s\n", func(b []byte) string { return fmt.Sprintf("%x", sha256.Sum256(b)) }),
	"sha512": lines("SHA512SUMS", "%[1]s *%[2]s\n", func(b []byte) string { return fmt.Sprintf("%x", sha512.Sum512(b)) }),
	"sha1":   lines("SHA1SUMS", "%[1]s  ./%[2]s\n", func(b []byte) string { return fmt.Sprintf("%x", sha1.Sum(b)) }), //nolint:gosec // as above
	"two": func(t testing.TB, dir string, files map[string]string) {
		lines("MD5SUMS", "%[1]s  %[2]s\n", func(b []byte) string { return fmt.Sprintf("%x", md5.Sum(b)) })(t, dir, files) //nolint:gosec // as above
		lines("SHA256SUMS", "%[1]s  %[2]s\n", func(b []byte) string { return fmt.Sprintf("%x", sha256.Sum256(b)) })(t, dir, files)
	},
	"classic": func(t testing.TB, dir string, files map[string]string) {
		text := "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<hashlist version=\"1.1\">\n"
		for _, name := range slices.Sorted(maps.Keys(files)) {
			text += fmt.Sprintf("<hash><file>%s</file><size>%d</size><md5>%x</md5></hash>\n", name, len(files[name]), md5.Sum([]byte(files[name]))) //nolint:gosec // as above
		}
		write(t, dir, "list.mhl", text+"</hashlist>\n")
	},
	"bag": func(t testing.TB, dir string, files map[string]string) {
		declaration := "BagIt-Version: 1.0\nTag-File-Character-Encoding: UTF-8\n"
		size := 0
		for _, text := range files {
			size += len(text)
		}
		info := fmt.Sprintf("Payload-Oxum: %d.%d\n", size, len(files))
		payload := ""
		for _, name := range slices.Sorted(maps.Keys(files)) {
			payload += sha(files[name]) + "  " + name + "\n"
		}
		write(t, dir, "bagit.txt", declaration)
		write(t, dir, "bag-info.txt", info)
		write(t, dir, "manifest-sha256.txt", payload)
		write(t, dir, "tagmanifest-sha256.txt", sha(info)+"  bag-info.txt\n"+sha(declaration)+"  bagit.txt\n"+sha(payload)+"  manifest-sha256.txt\n")
	},
	"history": func(t testing.TB, dir string, _ map[string]string) {
		_, err := sum.Run(context.Background(), &sum.Options{Paths: []string{dir}, MHL: &sum.MHL{Hashes: []hash.Algorithm{hash.XXH64, hash.C4}}}, &counters.Set{})
		require.NoError(t, err)
	},
}

func lines(name, form string, digest func([]byte) string) func(testing.TB, string, map[string]string) {
	return func(t testing.TB, dir string, files map[string]string) {
		text := ""
		for _, file := range slices.Sorted(maps.Keys(files)) {
			text += fmt.Sprintf(form, digest([]byte(files[file])), file)
		}
		write(t, dir, name, text)
	}
}

func write(t testing.TB, dir, name, text string) {
	path := filepath.Join(dir, filepath.FromSlash(name))
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o644)) //nolint:gosec // a file as users have it
}

// damage changes the content of one file of a disk. It returns false if the file is lost.
func damage(r *rand.Rand, text string, all []string) (string, bool) {
	b := []byte(text)
	switch r.IntN(6) {
	case 0:
		return "", false
	case 1:
		if len(b) > 0 {
			b[r.IntN(len(b))] ^= 1 << r.IntN(8)
		}
	case 2: // a sector is zero
		at := r.IntN(len(b)/4096+1) * 4096
		clear(b[at:min(at+4096, len(b))])
	case 3:
		b = b[:r.IntN(len(b)+1)]
	case 4:
		b = append(b, all[r.IntN(len(all))]...)
	case 5: // the content of another file
		b = []byte(all[r.IntN(len(all))])
	}
	return string(b), true
}

// One random pattern of damage on one disk and on two others. The oracle knows the right content and compares
// bytes. A file is right after the repair if it was right before, or if any other disk has a right copy.
// Otherwise it is byte for byte what it was.
func checkPattern(t testing.TB, dir string, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 36))
	names := slices.Sorted(maps.Keys(formats))
	format := names[r.IntN(len(names))]
	prefix := ""
	if format == "bag" {
		prefix = "data/"
	}
	right := map[string]string{}
	for i := range 1 + r.IntN(8) {
		name := prefix + []string{"", "d/", "d/e/", "x y/"}[r.IntN(4)] + "f" + strconv.Itoa(i)
		right[name] = string(treetest.Pattern([]int{0, 1, 100, 4096, 5000, 40000, 140000}[r.IntN(7)], byte(r.IntN(200))))
	}
	files := slices.Sorted(maps.Keys(right))
	contents := slices.Collect(maps.Values(right))
	slices.Sort(contents)
	root := filepath.Join(dir, "disk")
	for name, text := range right {
		write(t, root, name, text)
	}
	formats[format](t, root, right)
	links := map[string]string{}
	if runtime.GOOS != "windows" && r.IntN(4) == 0 && len(files) > 1 && right[files[0]] != "" { // two names of one file
		a, b := files[0], files[1]
		right[b] = right[a]
		require.NoError(t, os.Remove(filepath.Join(root, b)))
		require.NoError(t, os.Link(filepath.Join(root, a), filepath.Join(root, b)))
		require.NoError(t, os.RemoveAll(filepath.Join(root, "ascmhl")))
		formats[format](t, root, right)
		links[a], links[b] = b, a
	}
	if format == "bag" { // the tag files are listed, too
		right["bagit.txt"], right["bag-info.txt"] = content(t, root)["bagit.txt"], content(t, root)["bag-info.txt"]
		files = append(files, "bag-info.txt")
	}
	others := []string{filepath.Join(dir, "other1"), filepath.Join(dir, "other2")}[:1+r.IntN(2)]
	available := map[string]bool{}
	for _, other := range others {
		require.NoError(t, os.MkdirAll(other, 0o755))
		for _, name := range files {
			text, exists := right[name], true
			if r.IntN(3) == 0 {
				text, exists = damage(r, text, contents)
			}
			if exists {
				write(t, other, name, text)
				available[name] = available[name] || text == right[name]
			}
		}
	}
	for _, name := range files {
		path := filepath.Join(root, filepath.FromSlash(name))
		if r.IntN(2) == 0 {
			continue
		}
		text, exists := damage(r, right[name], contents)
		if !exists {
			require.NoError(t, os.Remove(path))
			continue
		}
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600)) // through all its names
	}
	before := content(t, root)
	want := maps.Clone(before)
	healed := func(name string) bool { return available[name] }
	for _, name := range files {
		if before[name] == right[name] && hasKey(before, name) {
			continue
		}
		other, linked := links[name]
		both := linked && hasKey(before, name) && hasKey(before, other)
		if healed(name) || both && healed(other) {
			want[name] = right[name]
		}
	}
	o := &repair.Options{Dir: root, From: others, Cache: pipe.CacheKeep, Workers: 1 + r.IntN(3), Discard: format == "bag" || format == "history" || r.IntN(2) == 0}
	dry := *o
	dry.DryRun = true
	planned, _, _, err := mend(&dry)
	require.NoError(t, err, "seed %d", seed)
	require.Equal(t, before, content(t, root), "seed %d: a dry run changed something", seed)
	s, done, reported, err := mend(o)
	require.NoError(t, err, "seed %d", seed)
	require.Equal(t, planned.Counts.Repaired, s.Repaired, "seed %d: dry run", seed)
	after := content(t, root)
	kept := 0
	for name, text := range after {
		if strings.HasPrefix(filepath.Base(name), ".sealift-bad-") {
			original := filepath.ToSlash(filepath.Join(filepath.Dir(name), strings.TrimPrefix(filepath.Base(name), ".sealift-bad-")))
			require.Equal(t, before[original], text, "seed %d: %s", seed, name)
			delete(after, name)
			kept++
		}
	}
	require.True(t, !o.Discard || kept == 0, "seed %d", seed)
	left := int64(0)
	for _, name := range files {
		if w, ok := want[name]; !ok || w != right[name] {
			left++
		}
	}
	require.Equal(t, keys(want), keys(after), "seed %d, %s", seed, format)
	for name := range want {
		require.True(t, want[name] == after[name], "seed %d, %s: %s: %v", seed, format, name, done[name])
	}
	require.Equal(t, left, s.Left, "seed %d, %s", seed, format)
	require.Zero(t, s.Failed, "seed %d", seed)
	if left == 0 {
		require.Empty(t, reported, "seed %d, %s: everything is right", seed, format)
	}
}

func hasKey(m map[string]string, key string) bool { _, ok := m[key]; return ok }

func keys(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }

// Random damage is repaired wherever any disk has a right copy, and nothing is replaced by other bytes. SEALIFT_HISTORIES=N
// checks N patterns, and SEALIFT_HISTORY=N the pattern with the number N.
func TestRandomDamage(t *testing.T) {
	t.Parallel()
	first, count := uint64(0), uint64(300)
	if n, err := strconv.ParseUint(os.Getenv("SEALIFT_HISTORIES"), 10, 64); err == nil {
		count = n
	}
	if n, err := strconv.ParseUint(os.Getenv("SEALIFT_HISTORY"), 10, 64); err == nil {
		first, count = n, 1
	}
	dir := treetest.MemoryDir(t)
	var next atomic.Uint64
	var all sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		all.Go(func() {
			for seed := first + next.Add(1) - 1; seed < first+count && !t.Failed(); seed = first + next.Add(1) - 1 {
				at := filepath.Join(dir, fmt.Sprint(seed))
				checkPattern(t, at, seed)
				treetest.Remove(t, at)
			}
		})
	}
	all.Wait()
	t.Logf("patterns %d to %d", first, first+count-1)
}

// sweepTree makes a damaged directory and a good one below dir: a file that differs, a missing one in a missing directory, and a file with
// three names.
func sweepTree(t testing.TB, dir string) (right map[string]string) {
	right = map[string]string{"a": "right a", "new/sub/b": "right b", "c": "right c", "d/link1": "right link", "d/link2": "right link", "link3": "right link"}
	disk, other := filepath.Join(dir, "disk"), filepath.Join(dir, "other")
	for name, text := range right {
		write(t, other, name, text)
	}
	write(t, disk, "a", "wrong a")
	write(t, disk, "c", "right c")
	write(t, disk, "d/link1", "wrong link")
	require.NoError(t, os.Link(filepath.Join(disk, "d/link1"), filepath.Join(disk, "d/link2")))
	require.NoError(t, os.Link(filepath.Join(disk, "d/link1"), filepath.Join(disk, "link3")))
	old := time.Unix(1_500_000_000, 0)
	for _, name := range []string{"d", "."} {
		require.NoError(t, os.Chtimes(filepath.Join(disk, name), old, old))
	}
	formats["two"](t, disk, right)
	return right
}

// judge checks that each name has its old or its right content.
func judge(t testing.TB, disk string, right map[string]string, what string) {
	old := map[string]string{"a": "wrong a", "c": "right c", "d/link1": "wrong link", "d/link2": "wrong link", "link3": "wrong link"}
	have := content(t, disk)
	for name, text := range right {
		was, existed := old[name]
		now, exists := have[name]
		require.True(t, !existed && !exists || now == text && exists || now == was && existed, "%s: %s is %q", what, name, now)
	}
}

// finished checks that a repair has ended: all is right, linked, and nothing but kept files is left.
func finished(t testing.TB, disk string, right map[string]string, discard bool, what string) {
	have := content(t, disk)
	for name, text := range right {
		require.Equal(t, text, have[name], "%s: %s", what, name)
		delete(have, name)
	}
	delete(have, "SHA256SUMS")
	delete(have, "MD5SUMS")
	for name := range have {
		require.True(t, !discard && strings.HasPrefix(filepath.Base(name), ".sealift-bad-"), "%s: %s is left", what, name)
	}
	one, err := os.Stat(filepath.Join(disk, "d/link1"))
	require.NoError(t, err)
	for _, name := range []string{"d/link2", "link3"} {
		two, err := os.Stat(filepath.Join(disk, name))
		require.NoError(t, err)
		require.True(t, os.SameFile(one, two), "%s: %s is no link any more", what, name)
	}
	_, err = os.Lstat(filepath.Join(disk, ".sealift-journal"))
	require.ErrorIs(t, err, fs.ErrNotExist, what)
	info, err := os.Stat(filepath.Join(disk, "new"))
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o755), info.Mode().Perm(), what)
}

// The process is killed, or the power is cut, before each operation of a repair. Each name has its old or its right
// content then, and the same command finishes the repair, with the links.
func TestKilledAtEachOperation(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux recognizes unfinished directories and has files without a name")
	}
	for _, discard := range []bool{false, true} {
		for _, power := range []bool{false, true} {
			t.Run(fmt.Sprint("discard: ", discard, ", power: ", power), func(t *testing.T) {
				t.Parallel()
				for n := int64(0); ; n++ {
					what := fmt.Sprint("operation ", n)
					dir := filepath.Join(treetest.MemoryDir(t), fmt.Sprint(n))
					right := sweepTree(t, dir)
					disk := filepath.Join(dir, "disk")
					o := &repair.Options{Dir: disk, From: []string{filepath.Join(dir, "other")}, Discard: discard, Workers: 1, Cache: pipe.CacheKeep}
					model, err := faultfs.NewDisk(disk, true)
					require.NoError(t, err)
					o.FS = &fsys.FS{Fault: model.CutAt(n)}
					if power {
						o.FS.Disk = model
					}
					s, _, _, err := mend(o)
					ended := err == nil && s.Repaired == 5
					if power {
						lost := filepath.Join(dir, "lost")
						r := rand.New(rand.NewPCG(1, uint64(n)))
						survives := func() bool { return r.IntN(2) == 0 }
						if n%2 == 0 || ended {
							survives = nil
						}
						require.NoError(t, model.Lose(lost, survives))
						disk = lost
						o.Dir = lost
						if ended {
							finishedContent(t, disk, right, what)
						}
					}
					judge(t, disk, right, what)
					o.FS = nil
					_, _, reported, err := mend(o)
					require.NoError(t, err, what)
					require.Empty(t, reported, what)
					if power {
						finishedContent(t, disk, right, what)
					} else {
						finished(t, disk, right, discard, what)
					}
					treetest.Remove(t, dir)
					if ended {
						t.Logf("%d operations", n)
						return
					}
				}
			})
		}
	}
}

func finishedContent(t testing.TB, disk string, right map[string]string, what string) {
	have := content(t, disk)
	for name, text := range right {
		require.Equal(t, text, have[name], "%s: %s", what, name)
	}
}

// Each operation fails once. No name ever has other content than its old or its right one, and what failed is
// reported.
func TestEachOperationFails(t *testing.T) {
	t.Parallel()
	for n := int64(0); ; n++ {
		what := fmt.Sprint("operation ", n)
		dir := filepath.Join(treetest.MemoryDir(t), fmt.Sprint(n))
		right := sweepTree(t, dir)
		disk := filepath.Join(dir, "disk")
		failed := false
		fail := func(c fsys.Call) error {
			failed = true
			what += fmt.Sprint(", ", c.Op, " ", c.Path)
			return syscall.EIO
		}
		o := &repair.Options{Dir: disk, From: []string{filepath.Join(dir, "other")}, Workers: 1, Cache: pipe.CacheKeep, FS: &fsys.FS{Fault: faultfs.OnIndex(n, fail)}}
		s, _, reported, err := mend(o)
		if !failed {
			t.Logf("%d operations", n)
			return
		}
		judge(t, disk, right, what)
		if err == nil && s.Left+s.Failed == 0 && len(reported) == 0 && len(s.Untrusted) == 0 {
			finishedContent(t, disk, right, what)
		}
		o.FS = nil
		_, _, _, err = mend(o)
		require.NoError(t, err, what)
		finishedContent(t, disk, right, what)
		treetest.Remove(t, dir)
	}
}

// Only bytes that match every line about a file replace it.
func TestRules(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		manifests map[string]string
		disk      map[string]string
		other     map[string]string
		want      map[string]string // files after the repair
		why       string            // a part of Err, or the kind of the reason
		untrusted bool
	}{
		"two digests contradict each other": {
			manifests: map[string]string{"SHA256SUMS": sha("one") + "  a\n" + sha("two") + "  a\n"},
			disk:      map[string]string{"a": "bad"}, other: map[string]string{"a": "one"}, want: map[string]string{"a": "bad"}, why: "contradict",
		},
		"digests of two formats contradict each other": {
			manifests: map[string]string{"SHA256SUMS": sha("one") + "  a\n", "MD5SUMS": fmt.Sprintf("%x  a\n", md5.Sum([]byte("two")))}, //nolint:gosec // as above
			disk:      map[string]string{"a": "bad"}, other: map[string]string{"a": "one"}, want: map[string]string{"a": "bad"}, why: repair.Differs,
		},
		"digests of two formats contradict each other, and the first one matches": {
			manifests: map[string]string{"SHA256SUMS": sha("one") + "  a\n", "MD5SUMS": fmt.Sprintf("%x  a\n", md5.Sum([]byte("two")))}, //nolint:gosec // as above
			disk:      map[string]string{"a": "bad"}, other: map[string]string{"a": "two"}, want: map[string]string{"a": "bad"}, why: repair.Differs,
		},
		"a line far away contradicts": {
			manifests: map[string]string{"SHA256SUMS": sha("one") + "  a\n" + sha("b") + "  b\n" + sha("two") + "  ./a\n"},
			disk:      map[string]string{"a": "bad", "b": "b"}, other: map[string]string{"a": "one"}, want: map[string]string{"a": "bad", "b": "b"}, why: "contradict",
		},
		"a size only": {
			manifests: map[string]string{"l.mhl": `<hashlist version="1.1"><hash><file>a</file><size>3</size><null></null></hash></hashlist>`},
			disk:      map[string]string{"a": "long"}, other: map[string]string{"a": "one"}, want: map[string]string{"a": "long"}, why: "no line has a digest",
		},
		"a path that leads outside": {
			manifests: map[string]string{"SHA256SUMS": sha("x") + "  ../outside\n" + sha("b") + "  b\n"},
			disk:      map[string]string{"b": "b"}, other: map[string]string{"../outside": "x"}, want: map[string]string{"b": "b"}, why: "outside",
		},
		"a reserved name": {
			manifests: map[string]string{"SHA256SUMS": sha("x") + "  .sealift-journal/lock\n" + sha("x") + "  d/.sealift-0123456789abcdef.tmp\n"},
			disk:      map[string]string{"b": "b"}, other: map[string]string{".sealift-journal/lock": "x", "d/.sealift-0123456789abcdef.tmp": "x"}, want: map[string]string{"b": "b"}, why: "reserves",
		},
		"a manifest that does not match a line about it": {
			manifests: map[string]string{"SHA256SUMS": sha("one") + "  a\n" + sha("x") + "  MD5SUMS\n", "MD5SUMS": fmt.Sprintf("%x  a\n", md5.Sum([]byte("one")))}, //nolint:gosec // as above
			disk:      map[string]string{"a": "bad"}, other: map[string]string{"a": "one"}, want: map[string]string{"a": "bad"}, untrusted: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			disk, other := filepath.Join(dir, "in", "disk"), filepath.Join(dir, "there", "other")
			require.NoError(t, os.MkdirAll(other, 0o755))
			for name, text := range c.disk {
				write(t, disk, name, text)
			}
			for name, text := range c.manifests {
				write(t, disk, name, text)
			}
			for name, text := range c.other {
				write(t, other, name, text)
			}
			s, files, _, err := mend(&repair.Options{Dir: disk, From: []string{other}})
			require.NoError(t, err)
			require.Zero(t, s.Repaired)
			have := content(t, disk)
			for name, text := range c.manifests {
				require.Equal(t, text, have[name])
				delete(have, name)
			}
			require.Equal(t, c.want, have)
			require.Equal(t, c.untrusted, len(s.Untrusted) > 0, s.Untrusted)
			if !c.untrusted {
				require.NotEmpty(t, files)
			}
			for _, f := range files {
				require.Equal(t, repair.Left, f.Result)
				if f.Err != nil {
					require.ErrorContains(t, f.Err, c.why)
				} else {
					require.Equal(t, c.why, f.Reasons[0].Kind)
				}
			}
		})
	}
}

// Each directory that does not help is listed with its reason, and the file of the next one is used.
func TestReasons(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	write(t, at("disk"), "a", "bad")
	write(t, at("disk"), "SHA256SUMS", sha("good")+"  a\n")
	require.NoError(t, os.MkdirAll(at("absent"), 0o755))
	write(t, at("differs"), "a", "evil")
	require.NoError(t, os.MkdirAll(at("type/a"), 0o755))
	write(t, at("good"), "a", "good")
	s, files, _, err := mend(&repair.Options{Dir: at("disk"), From: []string{at("absent"), at("differs"), at("type")}})
	require.NoError(t, err)
	require.EqualValues(t, 1, s.Left)
	var kinds []string
	for _, r := range files["a"].Reasons {
		kinds = append(kinds, r.Kind)
	}
	require.Equal(t, []string{repair.Absent, repair.Differs, repair.OtherType}, kinds)
	require.Equal(t, "bad", content(t, at("disk"))["a"])
	s, files, _, err = mend(&repair.Options{Dir: at("disk"), From: []string{at("absent"), at("good")}})
	require.NoError(t, err)
	require.EqualValues(t, 1, s.Repaired)
	require.Equal(t, 1, files["a"].From)
	require.Equal(t, ".sealift-bad-a", files["a"].Kept)
	require.Equal(t, map[string]string{"a": "good", ".sealift-bad-a": "bad", "SHA256SUMS": sha("good") + "  a\n"}, content(t, at("disk")))
}

// A good file has the mode and the times of the damaged one, a restored one those of the other copy.
func TestMetadata(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	write(t, at("disk"), "a", "bad")
	write(t, at("disk"), "SHA256SUMS", sha("good")+"  a\n"+sha("good")+"  d/b\n")
	write(t, at("other"), "a", "good")
	write(t, at("other"), "d/b", "good")
	set := func(path string, year int, mode fs.FileMode) {
		when := time.Date(year, 1, 2, 3, 4, 5, 0, time.UTC)
		require.NoError(t, os.Chmod(at(path), mode))
		require.NoError(t, os.Chtimes(at(path), when, when))
	}
	set("disk/a", 2001, 0o640)
	set("other/a", 2002, 0o600)
	set("other/d/b", 2003, 0o444)
	set("other/d", 2004, 0o750)
	set("disk", 2005, 0o755)
	s, _, _, err := mend(&repair.Options{Dir: at("disk"), From: []string{at("other")}})
	require.NoError(t, err)
	require.EqualValues(t, 2, s.Repaired)
	for path, want := range map[string]struct {
		year int
		mode fs.FileMode
	}{"disk/a": {2001, 0o640}, "disk/d/b": {2003, 0o444}, "disk/d": {2004, 0o750}, "disk": {2005, 0o755}} {
		info, err := os.Stat(at(path))
		require.NoError(t, err)
		require.Equal(t, want.year, info.ModTime().UTC().Year(), path)
		if runtime.GOOS != "windows" {
			require.Equal(t, want.mode, info.Mode().Perm(), path)
		}
	}
}

// A bag needs a flag for the damaged file, and a backup directory outside keeps it under its path.
func TestBackupOfABag(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	right := map[string]string{"data/d/a": "good"}
	write(t, at("bag"), "data/d/a", "good")
	formats["bag"](t, at("bag"), right)
	write(t, at("bag"), "data/d/a", "bad")
	write(t, at("other"), "data/d/a", "good")
	for _, backup := range []string{"", "kept", "data/kept", "../bag/x"} {
		_, _, _, err := mend(&repair.Options{Dir: at("bag"), From: []string{at("other")}, Backup: backup})
		require.ErrorAs(t, err, new(*failure.RefusedError), backup)
	}
	require.Equal(t, "bad", content(t, at("bag"))["data/d/a"])
	s, _, reported, err := mend(&repair.Options{Dir: at("bag"), From: []string{at("other")}, Backup: "../kept"})
	require.NoError(t, err)
	require.Empty(t, reported)
	require.EqualValues(t, 1, s.Repaired)
	require.Equal(t, map[string]string{"data/d/a": "bad"}, content(t, at("kept")))
	require.Equal(t, "good", content(t, at("bag"))["data/d/a"])
}

// Another sealift that works in the directory keeps a repair out.
func TestLocked(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "disk/SHA256SUMS", sha("x")+"  a\n")
	write(t, dir, "other/a", "x")
	write(t, dir, "disk/.sealift-journal/lock", "")
	root, err := fsys.OpenRoot(filepath.Join(dir, "disk", ".sealift-journal"))
	require.NoError(t, err)
	defer root.Close()
	lock, err := root.Lock("lock")
	require.NoError(t, err)
	defer lock.Unlock()
	_, _, _, err = mend(&repair.Options{Dir: filepath.Join(dir, "disk"), From: []string{filepath.Join(dir, "other")}})
	require.ErrorContains(t, err, "another sealift is at work")
}
