package repair_test

import (
	"context"
	"crypto/md5"  //nolint:gosec // manifests have it
	"crypto/sha1" //nolint:gosec // as above
	"crypto/sha256"
	"crypto/sha512"
	"fmt"
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
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/pipe"
	"github.com/seed65876f4f/sealift/internal/repair"
	"github.com/seed65876f4f/sealift/internal/sum"
	"github.com/seed65876f4f/sealift/internal/treetest"
	"github.com/seed65876f4f/sealift/internal/verify"
)

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

// These formats need a program to write them: the names in them are escaped, and the digests are of other packages.
func init() {
	for _, a := range []hash.Algorithm{hash.BLAKE3, hash.XXH128, hash.XXH3, hash.XXH64, hash.C4} {
		formats[escaped+string(a)] = func(t testing.TB, dir string, _ map[string]string) {
			name := filepath.Join(dir, strings.ToUpper(string(a))+"SUMS")
			_, err := sum.Run(context.Background(), &sum.Options{Paths: []string{dir}, Hashes: []hash.Algorithm{a}, Manifest: name}, &counters.Set{})
			require.NoError(t, err)
		}
	}
}

// escaped begins the names of the formats that can list any file name.
const escaped = "sum "

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

// One random pattern of damage on one disk and on up to two others, which have no manifest. Then the first of the
// others may get the manifests, and is repaired from the repaired disk.
func checkPattern(t testing.TB, dir string, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 36))
	names := slices.Sorted(maps.Keys(formats))
	p := &pattern{TB: t, r: r, seed: seed, format: names[r.IntN(len(names))], right: map[string]string{}, links: map[string]string{}}
	prefixes := []string{"", "d/", "d/e/", "x y/"}
	switch {
	case p.format == "bag":
		prefixes = []string{"data/", "data/d/", "data/d/e/", "data/x y/"}
	case strings.HasPrefix(p.format, escaped) && runtime.GOOS != "windows":
		prefixes = append(prefixes, "new\nline\\/\\", "\xff\r/")
	}
	for i := range 1 + r.IntN(8) {
		name := prefixes[r.IntN(len(prefixes))] + "f" + strconv.Itoa(i)
		p.right[name] = string(treetest.Pattern([]int{0, 1, 100, 4096, 5000, 40000, 140000}[r.IntN(7)], byte(r.IntN(200))))
	}
	p.files = slices.Sorted(maps.Keys(p.right))
	root := filepath.Join(dir, "disk")
	if a, b := p.files[0], p.files[len(p.files)-1]; runtime.GOOS != "windows" && r.IntN(4) == 0 && a != b && p.right[a] != "" { // two names of one file
		p.right[b] = p.right[a]
		p.links[a], p.links[b] = b, a
	}
	for _, name := range p.files {
		write(t, root, name, p.right[name])
	}
	for a, b := range p.links {
		require.NoError(t, os.Remove(filepath.Join(root, b)))
		require.NoError(t, os.Link(filepath.Join(root, a), filepath.Join(root, b)))
		break
	}
	formats[p.format](t, root, p.right)
	manifests := content(t, root)
	if p.format == "bag" { // a tag file is listed, too
		p.files = append(p.files, "bag-info.txt")
		p.right["bag-info.txt"] = manifests["bag-info.txt"]
	}
	for _, name := range p.files {
		delete(manifests, name)
	}
	others := []string{filepath.Join(dir, "other1"), filepath.Join(dir, "other2")}[:1+r.IntN(2)]
	for _, other := range others {
		require.NoError(t, os.MkdirAll(other, 0o755))
		for _, name := range p.files {
			write(t, other, name, p.right[name])
		}
		p.damage(other, 3)
	}
	p.damage(root, 2)
	p.repair(root, others)
	if r.IntN(2) == 0 {
		return
	}
	for name, text := range manifests {
		write(t, others[0], name, text)
	}
	p.links = nil
	p.repair(others[0], []string{root})
}

// pattern is the tree of one pattern of damage.
type pattern struct {
	testing.TB
	r      *rand.Rand
	seed   uint64
	format string
	right  map[string]string // the listed content of each file
	files  []string          // the files that may be damaged
	links  map[string]string // the other name of each file with two names
}

// damage damages one file in n of a disk, and may exchange two files.
func (p *pattern) damage(disk string, n int) {
	contents := slices.Sorted(maps.Values(p.right))
	for _, name := range p.files {
		if p.r.IntN(n) > 0 {
			continue
		}
		path := filepath.Join(disk, filepath.FromSlash(name))
		if text, exists := damage(p.r, p.right[name], contents); exists {
			require.NoError(p, os.WriteFile(path, []byte(text), 0o600)) // through all its names
		} else if err := os.Remove(path); err != nil {
			require.ErrorIs(p, err, os.ErrNotExist)
		}
	}
	if len(p.links) > 0 || p.r.IntN(4) > 0 {
		return
	}
	a, b := filepath.Join(disk, p.files[0]), filepath.Join(disk, p.files[len(p.files)-1])
	if os.Rename(a, a+"~") == nil {
		_ = os.Rename(b, a) // it may be lost
		require.NoError(p, os.Rename(a+"~", b))
	}
}

// repair repairs a disk. The oracle knows the right content and compares bytes. A file is right after the repair if it
// was right before, or if any other disk has a right copy. Otherwise it is byte for byte what it was.
func (p *pattern) repair(root string, others []string) {
	t, seed := p.TB, p.seed
	before := content(t, root)
	available := map[string]bool{}
	for _, other := range others {
		for name, text := range content(t, other) {
			available[name] = available[name] || hasKey(p.right, name) && text == p.right[name]
		}
	}
	want := maps.Clone(before)
	left := int64(0)
	for _, name := range p.files {
		text, exists := before[name]
		if exists && text == p.right[name] {
			continue
		}
		other, linked := p.links[name]
		both := linked && exists && hasKey(before, other)
		if available[name] || both && available[other] {
			want[name] = p.right[name]
		} else {
			left++
		}
	}
	o := &repair.Options{
		Dir: root, From: others, Options: verify.Options{Cache: pipe.CacheKeep, Workers: 1 + p.r.IntN(3)},
		Discard: p.format == "bag" || p.format == "history" || p.r.IntN(2) == 0,
	}
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
			require.Equal(t, before[original], text, "seed %d: %q", seed, name)
			delete(after, name)
			kept++
		}
	}
	require.True(t, !o.Discard || kept == 0, "seed %d", seed)
	require.Equal(t, keys(want), keys(after), "seed %d, %s", seed, p.format)
	for name := range want {
		require.True(t, want[name] == after[name], "seed %d, %s: %q: %v", seed, p.format, name, done[name])
	}
	require.Equal(t, left, s.Left, "seed %d, %s", seed, p.format)
	require.Zero(t, s.Failed, "seed %d", seed)
	if left == 0 {
		require.Empty(t, reported, "seed %d, %s: everything is right", seed, p.format)
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
