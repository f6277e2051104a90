//go:build unix

package verify_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
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
	"github.com/seed65876f4f/sealift/internal/pipe"
	"github.com/seed65876f4f/sealift/internal/verify"
)

func TestEveryKindOfManifest(t *testing.T) {
	files := map[string]string{"a": "A", "d/b": "B", "name with  blanks": "C", "back\\slash": "D", "new\nline": "E", "*star": "F"}
	upper := strings.ToUpper
	for name, content := range map[string]string{
		"SHA256SUMS": sha("A") + "  a\n" + sha("B") + " *d/b\n" + sha("C") + "  name with  blanks\n" +
			`\` + sha("D") + `  back\\slash` + "\n" + `\` + sha("E") + `  new\nline` + "\n" + sha("F") + "  *star\n",
		"sha256sums.txt":         "# made by hand\r\n\r\n" + upper(sha("A")) + "  ./a\r\n" + sha("B") + "  d//b\r\n",
		"MD5SUMS":                md("A") + "  a\n" + md("B") + "  d/b",
		"SHA512SUMS":             "SHA512 (a) = " + sha5("A") + "\nSHA2-512(d/b)= " + sha5("B") + "\n",
		"x.sha256":               "SHA256(a)= " + sha("A") + "\nSHA2-256(d/b)= " + sha("B") + "\n",
		"mixed.sha256":           "MD5 (a) = " + md("A") + "\nSHA512 (d/b) = " + sha5("B") + "\n",
		"shasum.1700000000.txt":  sha("A") + " *a\n" + sha("B") + " *d/b\n",
		"sha256-2026-11-21.txt":  sha("A") + "  a\n" + sha("B") + "  d/b\n",
		"manifest-sha256.txt":    sha("A") + " a\n" + sha("B") + "\td/b\n" + sha("E") + "   new%0Aline\n",
		"tagmanifest-sha512.txt": sha5("A") + "   a\n" + sha5("B") + " d/b\n",
		"bsd.sha256":             sha("A") + " a\n" + sha("B") + " d/b\n",
		"dos.md5":                "\ufeff" + md("A") + " *a\r\n" + md("B") + ` *d\b` + "\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			defer goleak.VerifyNone(t)
			dir := tree(t, files)
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644))
			o := &verify.Options{Paths: []string{dir}, ConvertPaths: true, Verbose: true}
			reported, s, err := check(t, o)
			require.NoError(t, err)
			require.GreaterOrEqual(t, s.Matches, int64(2))
			require.Len(t, reported, int(s.Matches))
			require.Equal(t, "OK a", strings.Replace(reported[0], "./", "", 1), "in the order of the manifest")
			require.True(t, strings.HasPrefix(reported[1], "OK d"))
			require.Zero(t, s.Mismatches+s.Missing+s.Errors+s.Warnings+s.Malformed)
			require.Equal(t, filepath.Join(dir, name), s.Manifests[0].Path)

			// The same with one changed byte in one file.
			require.NoError(t, os.WriteFile(filepath.Join(dir, "d/b"), []byte("b"), 0o644))
			o.Verbose = false
			reported, s, err = check(t, o)
			require.NoError(t, err)
			require.Len(t, reported, 1)
			require.True(t, strings.HasPrefix(reported[0], "FAILED d"), reported[0])
			require.EqualValues(t, 1, s.Mismatches)
		})
	}
}

// A manifest is hostile input. verify opens nothing outside and does not hang.
func TestHostileManifests(t *testing.T) {
	defer goleak.VerifyNone(t)
	dir := tree(t, map[string]string{"a": "A", "../secret": "S", "d/b": "B", "C:/there": "D"})
	require.NoError(t, os.Symlink("../secret", filepath.Join(dir, "out")))
	require.NoError(t, os.Symlink("..", filepath.Join(dir, "up")))
	require.NoError(t, os.Symlink(filepath.Dir(dir), filepath.Join(dir, "abs")))
	require.NoError(t, os.Symlink("loop", filepath.Join(dir, "loop")))
	require.NoError(t, os.Symlink("d/b", filepath.Join(dir, "inside")))
	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o644))
	if err := syscall.Mknod(filepath.Join(dir, "zero"), syscall.S_IFCHR|0o666, 1<<8|5); err != nil {
		t.Logf("without a device: %v", err)
		require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "zero"), 0o644))
	}
	opened := map[string]bool{}
	sys := faultfs.New(func(op fsys.Op, name string) error {
		if op == fsys.OpOpen {
			opened[name] = true
		}
		return nil
	})
	secret := sha("S")
	lines := []string{
		secret + "  ../secret", secret + "  " + filepath.Dir(dir) + "/secret", secret + "  d/../../secret", secret + "  out",
		secret + "  up/secret", secret + "  abs/secret", secret + `  C:\secret`, secret + `  ..\secret`, secret + `  \\host\share\secret`,
		secret + "  fifo", secret + "  zero", secret + "  loop", secret + "  d", secret + "  .", secret + "  a/b", secret + "  d/",
		secret + "  a/", secret + "  a\x00b", sha("B") + "  inside", sha("D") + "  C:/there", sha("A") + "  a", secret + "  a",
		secret + "  " + strings.Repeat("x", 300), secret + "  " + strings.Repeat("x/", 40_000) + "x",
		secret + "  " + strings.Repeat("y", 10<<20),
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "SHA256SUMS"), []byte(strings.Join(lines, "\n")), 0o644))
	o := &verify.Options{FS: sys, Paths: []string{dir}, ConvertPaths: true, Verbose: true, Workers: 1}
	done := make(chan struct{})
	var reported []string
	var s *verify.Summary
	var err error
	go func() {
		defer close(done)
		reported, s, err = check(t, o)
	}()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatal("it hangs")
	}
	require.NoError(t, err)
	outside := "refused: it leads outside the directory"
	require.Equal(t, []string{
		"WARNING SHA256SUMS: 2 lines are improperly formatted (number 18, 25)",
		"UNREADABLE ../secret: " + outside,
		"UNREADABLE " + filepath.Dir(dir) + "/secret: " + outside,
		"UNREADABLE d/../../secret: " + outside,
		"UNREADABLE out: " + outside,
		"UNREADABLE up/secret: " + outside,
		"UNREADABLE abs/secret: " + outside,
		`UNREADABLE C:\secret: refused: it names a drive`,
		`UNREADABLE ..\secret: ` + outside,
		`UNREADABLE \\host\share\secret: ` + outside,
		"UNREADABLE fifo: it is a fifo, not a regular file",
		"UNREADABLE zero: it is a " + kindOf(t, filepath.Join(dir, "zero")) + ", not a regular file",
		"UNREADABLE loop: too many symbolic links",
		"UNREADABLE d: it is a directory, not a regular file",
		"UNREADABLE .: it is a directory, not a regular file",
		"MISSING a/b",
		"UNREADABLE d/: it has a slash at the end, as a directory has",
		"UNREADABLE a/: it has a slash at the end, as a directory has",
		"OK inside", "OK C:/there", "OK a", "FAILED a",
		"MISSING " + strings.Repeat("x", 300),
		"MISSING " + strings.Repeat("x/", 40_000) + "x",
	}, reported)
	require.EqualValues(t, 2, s.Malformed)
	for name := range opened {
		require.NotContains(t, []string{"up", "abs"}, name)
		if os.Geteuid() == 0 { // root could create a device
			require.NotContains(t, []string{"fifo", "zero", "out", "loop", "secret"}, name)
		}
	}
}

func kindOf(t *testing.T, path string) string {
	d, err := fsys.OpenRoot(filepath.Dir(path))
	require.NoError(t, err)
	defer d.Close()
	info, err := d.Lstat(filepath.Base(path))
	require.NoError(t, err)
	return info.Kind.String()
}

// Names with backslashes are tried with slashes, unless that is disabled or a file has the
// literal name.
func TestWindowsSeparators(t *testing.T) {
	dir := tree(t, map[string]string{"d/b": "B", `d\c`: "literal", "d/c": "C"})
	content := sha("B") + `  d\b` + "\n" + sha("literal") + `  d\c` + "\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "SHA256SUMS"), []byte(content), 0o644))
	reported, _, err := check(t, &verify.Options{Paths: []string{dir}, ConvertPaths: true, Verbose: true, Unlisted: true})
	require.NoError(t, err)
	require.Equal(t, []string{`OK d\b`, `OK d\c`, "UNLISTED d/c"}, reported, "the line for the literal name is not one for d/c")
	reported, s, err := check(t, &verify.Options{Paths: []string{dir}, Verbose: true, Unlisted: true})
	require.NoError(t, err)
	require.Equal(t, []string{`MISSING d\b`, `OK d\c`, "UNLISTED d/b", "UNLISTED d/c"}, reported)
	require.EqualValues(t, 1, s.Missing)
	require.EqualValues(t, 2, s.Unlisted)
}

// If the manifest cannot be described while the tree is listed, it does not count as a file that no
// manifest lists.
func TestUnlistedBesideAManifestThatCannotBeDescribed(t *testing.T) {
	dir := tree(t, map[string]string{"a": "A", "SHA256SUMS": sha("A") + "  a\n"})
	for n := int64(0); ; n++ {
		var calls atomic.Int64
		sys := &fsys.FS{Fault: faultfs.OnOp(faultfs.OnName("SHA256SUMS", func(fsys.Call) error {
			if calls.Add(1) == n+1 {
				return syscall.EIO
			}
			return nil
		}), fsys.OpStat)}
		reported, s, err := check(t, &verify.Options{Paths: []string{dir}, Unlisted: true, FS: sys})
		require.NotContains(t, reported, "UNLISTED SHA256SUMS")
		if calls.Load() <= n {
			require.NoError(t, err)
			require.Zero(t, s.Errors)
			require.Positive(t, n)
			return
		}
		require.True(t, err != nil || s.Errors == 1, "call %d", n)
	}
}

// BagIt encodes "%", and many programs do not.
func TestBagItSpellings(t *testing.T) {
	dir := tree(t, map[string]string{"data/100%": "A", "data/%25": "B", "data/x%0Ay": "C"})
	content := sha("A") + "  data/100%25\n" + sha("B") + "  data/%2525\n" + sha("C") + "  data/x%0Ay\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "manifest-sha256.txt"), []byte(content), 0o644))
	reported, _, err := check(t, &verify.Options{Paths: []string{dir}, Verbose: true, Unlisted: true})
	require.NoError(t, err)
	require.Equal(t, []string{"OK data/100%", "OK data/%25", "OK data/x\ny"}, reported)
}

func TestRefusals(t *testing.T) {
	dir := tree(t, map[string]string{"empty/SHA256SUMS": "", "text/SHA256SUMS": "hello\n", "none/a": "A", "good/a": "A", "good/SHA256SUMS": sha("A") + "  a\n"})
	at := func(names ...string) (dirs []string) {
		for _, name := range names {
			dirs = append(dirs, filepath.Join(dir, name))
		}
		return dirs
	}
	for text, o := range map[string]*verify.Options{
		"does not exist":             {Paths: at("nothing")},
		"good/a': not a manifest":    {Paths: at("good/a")},
		"already names the manifest": {Paths: at("good/SHA256SUMS"), Manifest: filepath.Join(dir, "good/SHA256SUMS")},
		"neither a directory nor a ": {Paths: []string{os.DevNull}},
		"there is no manifest in":    {Paths: at("good", "none")},
		"not a manifest: no line":    {Paths: at("good", "text")},
		"no line has a digest":       {Paths: at("empty")},
		"there is no manifest 'nix'": {Paths: at("good"), Manifest: "nix"},
		"no such file":               {Paths: at("good"), Manifest: filepath.Join(dir, "nix")},
		"manifest ../good/SHA256SUM": {Paths: at("none"), Manifest: "../good/SHA256SUMS"},
	} {
		reported, s, err := check(t, o)
		refused, ok := errors.AsType[*failure.RefusedError](err)
		require.True(t, ok, "%s: %v", text, err)
		require.Nil(t, s)
		require.Empty(t, reported)
		if !strings.HasPrefix(text, "manifest ..") { // it may exist here
			require.Contains(t, refused.Error(), text)
		}
	}
}

func TestStrictIgnoreMissingAndUnlisted(t *testing.T) {
	dir := tree(t, map[string]string{"a": "A", "new": "N", "d/new": "N", ".sealift-bad-x": "X", ".sealift-0123456789abcdef.tmp": "T", ".sealift-journal/d/lock": "", "SHA256SUMS": sha("A") + "  a\n" + sha("B") + "  gone\nnonsense\n"})
	reported, s, err := check(t, &verify.Options{Paths: []string{dir}, IgnoreMissing: true, Unlisted: true})
	require.NoError(t, err)
	require.Equal(t, []string{"WARNING SHA256SUMS: 1 line is improperly formatted (number 3)", "UNLISTED .sealift-bad-x", "UNLISTED d/new", "UNLISTED new"}, reported)
	require.EqualValues(t, 1, s.Warnings)
	require.Zero(t, s.Missing)
	reported, s, err = check(t, &verify.Options{Paths: []string{dir}, Strict: true})
	require.NoError(t, err)
	require.Equal(t, []string{"FAILURE SHA256SUMS: 1 line is improperly formatted (number 3)", "MISSING gone"}, reported)
	require.EqualValues(t, 1, s.Errors)
	require.EqualValues(t, 1, s.Missing)
}

// Reports are in the order of the manifest, even if one file is slow.
func TestOrder(t *testing.T) {
	files := map[string]string{"SHA256SUMS": ""}
	want := []string{}
	for i := range 300 {
		name := fmt.Sprintf("f%03d", (i*7)%300)
		files[name] = strings.Repeat(name, 1+(i%5)*40_000)
		files["SHA256SUMS"] += sha(files[name]) + "  " + name + "\n"
		want = append(want, "OK "+name)
	}
	dir := tree(t, files)
	for _, workers := range []int{1, 3, 16} {
		reported, _, err := check(t, &verify.Options{Paths: []string{dir}, Verbose: true, Workers: workers})
		require.NoError(t, err)
		require.Equal(t, want, reported)
	}
}

func TestCacheModes(t *testing.T) {
	files := map[string]string{"big": strings.Repeat("0123456789abcdef", 200_001), "small": "x", "empty": ""}
	files["SHA256SUMS"] = sha(files["big"]) + "  big\n" + sha("x") + "  small\n" + sha("") + "  empty\n"
	dir := tree(t, files)
	for _, cache := range []pipe.CacheMode{pipe.CacheAuto, pipe.CacheDrop, pipe.CacheDirect} {
		reported, s, err := check(t, &verify.Options{Paths: []string{dir}, Cache: cache})
		require.NoError(t, err)
		require.Empty(t, reported)
		require.EqualValues(t, 3, s.Matches)
		require.EqualValues(t, len(files["big"])+1, s.Bytes)
		if cache == pipe.CacheAuto {
			require.GreaterOrEqual(t, s.Cached, int64(2), "they were just written; of the empty file nothing is in memory")
		}
	}
}

// A stopped run returns the cause, and leaves no goroutine.
func TestStop(t *testing.T) {
	defer goleak.VerifyNone(t)
	files := map[string]string{"SHA256SUMS": ""}
	for i := range 2000 {
		name := fmt.Sprintf("f%04d", i)
		files[name] = name
		files["SHA256SUMS"] += sha(name) + "  " + name + "\n"
	}
	dir := tree(t, files)
	stop := errors.New("stop")
	for _, after := range []int{0, 1, 50} {
		ctx, cancel := context.WithCancelCause(context.Background())
		n := 0
		o := &verify.Options{Paths: []string{dir}, Verbose: true, Workers: 2, Report: func(verify.Result) {
			if n++; n == after {
				cancel(stop)
			}
		}}
		if after == 0 {
			cancel(stop)
		}
		_, err := verify.Run(ctx, o, &counters.Set{CountTotals: true})
		require.ErrorIs(t, err, stop)
		require.Less(t, n, 2000)
		cancel(nil)
	}
}

// A stopped run reports the results that waited for that of a slow file.
func TestAStoppedRunReportsWhatItFound(t *testing.T) {
	defer goleak.VerifyNone(t)
	files := map[string]string{"0": "slow", "SHA256SUMS": sha("slow") + "  0\n"}
	var want []string
	for i := range 20 {
		name := fmt.Sprintf("f%02d", i)
		files[name] = name
		files["SHA256SUMS"] += sha("other") + "  " + name + "\n"
		want = append(want, name)
	}
	ctx, cancel := context.WithCancel(t.Context())
	c := &counters.Set{}
	var reported []string
	o := &verify.Options{Paths: []string{tree(t, files)}, Workers: 2, Report: func(r verify.Result) { reported = append(reported, r.Path) }}
	o.FS = faultfs.New(func(op fsys.Op, name string) error {
		for op == fsys.OpOpen && name == "0" && c.Files.Load() < 20 {
			time.Sleep(time.Millisecond)
		}
		if op == fsys.OpOpen && name == "0" {
			cancel()
		}
		return nil
	})
	s, err := verify.Run(ctx, o, c)
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, want, reported)
	require.EqualValues(t, 20, s.Mismatches)
	require.Zero(t, s.Matches)
}

// A manifest that becomes shorter during the check is a failure. The lines that were read have their
// results, also those of later manifests.
func TestAManifestThatBecomesShorter(t *testing.T) {
	var first, second strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&first, "%s  f%05d\n", md("x"), i)
		fmt.Fprintf(&second, "%s  f%05d\n", sha("x"), i+10_000)
	}
	dir := tree(t, map[string]string{"MD5SUMS": first.String(), "SHA256SUMS": second.String()})
	var once sync.Once
	sys := faultfs.New(func(op fsys.Op, name string) error {
		if strings.HasPrefix(filepath.Base(name), "f0") {
			once.Do(func() { require.NoError(t, os.Truncate(filepath.Join(dir, "MD5SUMS"), 0)) })
		}
		return nil
	})
	reported, s, err := check(t, &verify.Options{FS: sys, Paths: []string{dir}, Workers: 2})
	require.NoError(t, err)
	require.Equal(t, "FAILURE MD5SUMS: the manifest has changed while it was used", reported[len(reported)-1])
	require.Len(t, reported, int(s.Missing)+1)
	require.Less(t, s.Missing, int64(40_000))
	require.GreaterOrEqual(t, s.Missing, int64(20_000))
	require.EqualValues(t, 1, s.Errors)
}

// On exFAT, macOS keeps attributes of x.sha256 in the AppleDouble file ._x.sha256. Another file
// with a name that begins with "._" is a manifest.
func TestAnAppleDoubleFileIsNoManifest(t *testing.T) {
	dir := tree(t, map[string]string{
		"a": "A", "SHA256SUMS": sha("A") + "  a\n", "._SHA256SUMS": "\x00\x05\x16\x07\x00\x02\x00\x00Mac OS X",
		"._a.sha256": "\x00\x05\x16\x07\x00\x02\x00\x00Mac OS X", "._b.sha256": sha("A") + "  a\n", "._x.mhl": "\x00\x05\x16\x07\x00\x02\x00\x00Mac OS X",
	})
	reported, s, err := check(t, &verify.Options{Paths: []string{dir}, Verbose: true})
	require.NoError(t, err)
	require.Equal(t, []string{"OK a", "OK a"}, reported)
	require.Zero(t, s.Errors)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "._b.sha256"), []byte("\x00\x05\x16"), 0o600))
	_, s, err = check(t, &verify.Options{Paths: []string{dir}})
	require.NoError(t, err)
	require.EqualValues(t, 1, s.Errors)
}

// The error names the manifest that cannot be read, not the empty one beside it.
func TestAnUnreadableManifestBesideAnEmptyOne(t *testing.T) {
	t.Parallel()
	dir := tree(t, map[string]string{"a": "A", "SHA256SUMS": sha("A") + "  a\n", "MD5SUMS": ""})
	sys := faultfs.New(func(op fsys.Op, name string) error {
		if op == fsys.OpOpen && name == "SHA256SUMS" {
			return syscall.EIO
		}
		return nil
	})
	_, _, err := check(t, &verify.Options{FS: sys, Paths: []string{dir}})
	require.ErrorContains(t, err, "SHA256SUMS': the manifest cannot be read: input/output error")
}

// With IgnoreMissing, at least one file of each manifest must exist.
func TestManifestsOfNothingThatIsThere(t *testing.T) {
	lines := sha("A") + "  a\n" + sha("B") + "  b\n"
	dir := tree(t, map[string]string{"one/a": "A", "one/SHA256SUMS": lines, "one/MD5SUMS": md("C") + "  c\n", "two/SHA256SUMS": lines, "m": lines})
	dirs := []string{filepath.Join(dir, "one"), filepath.Join(dir, "two")}
	reported, s, err := check(t, &verify.Options{Paths: dirs, IgnoreMissing: true, Verbose: true})
	require.NoError(t, err)
	const none = ": no file of it was verified"
	require.Equal(t, []string{"OK a", "FAILURE MD5SUMS" + none, "FAILURE SHA256SUMS" + none}, reported)
	require.EqualValues(t, 2, s.Errors)
	require.Zero(t, s.Missing)
	reported, _, err = check(t, &verify.Options{Paths: dirs, Manifest: filepath.Join(dir, "m"), IgnoreMissing: true, Verbose: true})
	require.NoError(t, err)
	require.Equal(t, []string{"OK a", "FAILURE m" + none}, reported, "one for all directories counts in each")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "two/b"), []byte("x"), 0o644))
	reported, _, err = check(t, &verify.Options{Paths: dirs[1:], IgnoreMissing: true})
	require.NoError(t, err)
	require.Equal(t, []string{"FAILED b"}, reported, "one that does not match was checked")
}

// allowFewFiles makes the system refuse more than 32 descriptors.
func allowFewFiles(t *testing.T) {
	t.Helper()
	var before syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &before))
	now := before
	now.Cur = 32
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &now))
	t.Cleanup(func() { require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &before)) })
}

func TestFewDescriptorsInADeepTree(t *testing.T) {
	dir := tree(t, nil)
	root, err := fsys.OpenRoot(dir)
	require.NoError(t, err)
	at, path := root, ""
	var lines strings.Builder
	for i := range 1500 {
		if i%10 == 0 {
			p, err := at.Create(true)
			require.NoError(t, err)
			require.NoError(t, p.WriteAt([]byte("x"), 0))
			require.NoError(t, p.Commit("f"))
			require.NoError(t, at.Symlink("d/../f", "up", fsys.Info{}))
			fmt.Fprintf(&lines, "%s  %sf\n%s  %sup\n", sha("x"), path, sha("x"), path)
		}
		require.NoError(t, at.Mkdir("d"))
		next, err := at.OpenDir("d")
		require.NoError(t, err)
		at.Close()
		at, path = next, path+"d/"
	}
	at.Close()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "SHA256SUMS"), []byte(lines.String()), 0o644))
	allowFewFiles(t)
	for _, workers := range []int{0, 32} {
		reported, s, err := check(t, &verify.Options{Paths: []string{dir}, Workers: workers, Unlisted: true})
		require.NoError(t, err)
		require.Empty(t, reported)
		require.EqualValues(t, 300, s.Matches)
	}
}

// A line lists only the file that it means.
func TestUnlistedBesideWhatIsNearlyListed(t *testing.T) {
	dir := tree(t, map[string]string{`a\b`: "A", "a/b": "A", "evil": "E", "q/x": "X", "last": "L"})
	content := sha("A") + `  a\b` + "\n" + sha("E") + "  q/../evil\n" + sha("X") + "  ./q//x\n" + sha("L") + "  last/\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "SHA256SUMS"), []byte(content), 0o644))
	reported, _, err := check(t, &verify.Options{Paths: []string{dir}, ConvertPaths: true, Unlisted: true})
	require.NoError(t, err)
	require.Equal(t, []string{
		"UNREADABLE q/../evil: refused: it leads outside the directory",
		"UNREADABLE last/: it has a slash at the end, as a directory has",
		"UNLISTED a/b", "UNLISTED evil", "UNLISTED last",
	}, reported)
}

// If both spellings of a bag's line exist, the line may mean either.
func TestBagItWithBothSpellings(t *testing.T) {
	dir := tree(t, map[string]string{"data/100%": "A", "data/100%25": "B", "data/x%": "C", "data/x%25": "D"})
	content := sha("B") + "  data/100%25\n" + sha("wrong") + "  data/x%25\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "manifest-sha256.txt"), []byte(content), 0o644))
	reported, _, err := check(t, &verify.Options{Paths: []string{dir}, Verbose: true, Unlisted: true})
	require.NoError(t, err)
	require.Equal(t, []string{"OK data/100%", "FAILED data/x%", "UNLISTED data/100%", "UNLISTED data/x%25"}, reported)
}
