package engine

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/bag"
	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/dest"
	"github.com/seed65876f4f/sealift/internal/event"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/filter"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/fsys/faultfs"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/mhl/classic"
	"github.com/seed65876f4f/sealift/internal/policy"
	"github.com/seed65876f4f/sealift/internal/treetest"
	"github.com/seed65876f4f/sealift/internal/verify"
)

// bagging is options that make bags.
func bagging(source string, targets ...string) Options {
	o := options(source, targets...)
	o.Bag = &BagOptions{Agent: bag.Agent + " test", Info: []bag.Field{{Label: "Contact-Name", Value: "A"}}}
	return o
}

// runs runs a copy that ends with exit code 0.
func runs(t *testing.T, o Options) *Summary {
	t.Helper()
	s, err := Run(t.Context(), &o, &counters.Set{})
	require.NoError(t, clean(s, err))
	return s
}

// payloadTree is a source of a bag, with a name that needs an escape.
func payloadTree() treetest.Dir {
	at := treetest.Mtime(time.Unix(1_600_000_000, 0))
	return treetest.Dir{
		"a":      treetest.File("a", at),
		"100%25": treetest.File("percent", at),
		"empty":  treetest.File("", at),
		"d":      treetest.Directory(treetest.Dir{"big": treetest.File(string(treetest.Pattern(3*MinBlockSize+5, 3)), at)}, at),
	}
}

// validate returns what a complete validation of a bag complains about.
func validate(dir string) (wrong []string) {
	o := &verify.Options{Paths: []string{dir}, Workers: 1, Report: func(r verify.Result) {
		if r.Verdict != verify.Warning {
			wrong = append(wrong, fmt.Sprintf("%s: %d %v", r.Path, r.Verdict, r.Err))
		}
	}}
	if _, err := verify.Run(context.Background(), o, &counters.Set{}); err != nil {
		wrong = append(wrong, err.Error())
	}
	return wrong
}

// isDeclared reports whether a directory has bagit.txt.
func isDeclared(dir string) bool {
	_, err := os.Lstat(filepath.Join(dir, bag.DeclarationName))
	return err == nil
}

func TestABagIsMadeWithSeveralHashesAtSeveralDestinations(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	src := filepath.Join(dir, "src")
	treetest.Create(t, src, payloadTree())
	o := bagging(src, filepath.Join(dir, "one"), filepath.Join(dir, "two"))
	o.Hashes = []hash.Algorithm{hash.MD5, hash.SHA1, hash.SHA256, hash.SHA512}
	o.Verify, o.Manifest = VerifyDest, ""
	s := runs(t, o)
	require.EqualValues(t, 4, s.Files)
	for _, target := range s.Targets {
		require.Empty(t, validate(target.Path))
		require.Len(t, target.Manifests, 4+1+4+1, "manifests, bag-info.txt, tag manifests, bagit.txt")
		require.EqualValues(t, 4, target.Verified)
		wrong, err := treetest.Diff(src, filepath.Join(target.Path, bag.PayloadName), treetest.Options{})
		require.NoError(t, err)
		require.Empty(t, wrong)
		info, err := os.ReadFile(filepath.Join(target.Path, bag.InfoName))
		require.NoError(t, err)
		require.Regexp(t, `\AContact-Name: A\nBagging-Date: \d{4}-\d\d-\d\d\nBag-Size: 12\.3 kB\nBag-Software-Agent: Sealift test\nPayload-Oxum: 12301\.4\n\z`, string(info))
	}
	lines, err := os.ReadFile(filepath.Join(dir, "one", "manifest-md5.txt"))
	require.NoError(t, err)
	require.Contains(t, string(lines), "  data/100%2525\n")

	again := runs(t, o)
	require.Zero(t, again.Files)
	require.Zero(t, again.Conflicts+again.Errors+again.Warnings)
	require.EqualValues(t, 4, again.Counts.UpToDate)
}

// A complete bag is not changed, and what differs from it is a conflict.
func TestACompleteBagIsNotChanged(t *testing.T) {
	t.Parallel()
	for _, chosen := range []policy.Policy{policy.Default, policy.Always, policy.Update, policy.Checksum, policy.Protect, policy.Never} {
		dir := t.TempDir()
		src, dst := filepath.Join(dir, "src"), filepath.Join(dir, "dst")
		treetest.Create(t, src, payloadTree())
		o := bagging(src, dst)
		o.Policy = chosen
		runs(t, o)
		before, err := regularFiles(dst)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(src, "a"), []byte("changed"), 0o600))
		require.NoError(t, os.MkdirAll(filepath.Join(src, "new", "dir"), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(src, "new", "file"), nil, 0o600))
		s, err := Run(t.Context(), &o, &counters.Set{})
		require.NoError(t, err)
		require.Positive(t, s.Conflicts, chosen)
		require.Zero(t, s.Errors+s.Counts.Created+s.Counts.Replaced, chosen)
		after, err := regularFiles(dst)
		require.NoError(t, err)
		require.Equal(t, before, after, chosen)
		require.Empty(t, validate(dst), chosen)
	}
}

func TestDestinationsOfABagAreRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	src, other := filepath.Join(dir, "src"), filepath.Join(dir, "other")
	treetest.Create(t, src, payloadTree())
	treetest.Create(t, other, treetest.Dir{"x": treetest.File("x")})
	unfinished := func(o Options) { // of another source
		o.Source = other
		_, err := Run(t.Context(), in(&fsys.FS{Fault: faultfs.OnOp(faultfs.OnName("x", faultfs.Fail(syscall.EACCES)), fsys.OpOpen)}, o).pointer(), &counters.Set{})
		require.NoError(t, err)
		require.False(t, isDeclared(o.Targets[0]))
	}
	for name, test := range map[string]struct {
		have   treetest.Dir
		change func(*Options)
		before func(Options)
		want   string
	}{
		"not empty":                     {have: treetest.Dir{"x": treetest.File("")}, want: "is not empty"},
		"a payload without a journal":   {have: treetest.Dir{"data": treetest.Dir{"a": treetest.File("a")}}, want: "is not empty"},
		"a bag of another program":      {have: treetest.Dir{"bagit.txt": treetest.File(bag.Declaration)}, want: "is a bag that Sealift has not written"},
		"the payload is a file":         {have: treetest.Dir{"data": treetest.File("")}, want: "is not a directory"},
		"an unfinished bag, other data": {before: unfinished, want: "has an unfinished copy from another source"},
		"another hash":                  {change: func(o *Options) { o.Hashes = []hash.Algorithm{hash.BLAKE3} }, want: "a bag has no manifest of blake3"},
		"no hash":                       {change: func(o *Options) { o.Hashes = nil }, want: "a bag needs a hash"},
		"a file as source":              {change: func(o *Options) { o.Source = filepath.Join(src, "a") }, want: "--bag needs a directory as source"},
		"a manifest in the payload":     {change: func(o *Options) { o.Manifest = "data/SHA256SUMS" }, want: "give a name without a directory"},
		"the name of a tag file":        {change: func(o *Options) { o.Manifest = "manifest-md5.txt" }, want: "the bag itself uses this name"},
		"a bag in a bag":                {change: func(o *Options) { o.Targets = append(o.Targets, filepath.Join(o.Targets[0], "in")) }, want: "one lies inside the other"},
	} {
		t.Run(name, func(t *testing.T) {
			dst := filepath.Join(t.TempDir(), "dst")
			if test.have != nil {
				treetest.Create(t, dst, test.have)
			}
			o := bagging(src, dst)
			if test.before != nil {
				test.before(o)
			}
			if test.change != nil {
				test.change(&o)
			}
			before, _ := regularFiles(dst)
			_, err := Run(t.Context(), &o, &counters.Set{})
			var refused *failure.RefusedError
			require.ErrorAs(t, err, &refused)
			require.ErrorContains(t, err, test.want)
			after, _ := regularFiles(dst)
			require.Equal(t, before, after)
		})
	}
}

func (o Options) pointer() *Options { return &o }

func TestABagOfLinksIsRefusedBeforeAnythingIsWritten(t *testing.T) {
	t.Parallel()
	linuxOnly(t, "other systems do not make these names")
	dir := t.TempDir()
	src, dst := filepath.Join(dir, "src"), filepath.Join(dir, "dst")
	treetest.Create(t, src, payloadTree())
	require.NoError(t, os.Symlink("a", filepath.Join(src, "link")))
	require.NoError(t, os.WriteFile(filepath.Join(src, "d", "\xff"), nil, 0o600))
	o := bagging(src, dst)
	_, err := Run(t.Context(), &o, &counters.Set{})
	require.ErrorContains(t, err, `'link' (symbolic link)`)
	require.ErrorContains(t, err, `(not UTF-8)`)
	_, err = os.Lstat(dst)
	require.ErrorIs(t, err, fs.ErrNotExist)
}

// Leftovers of an unfinished copy are not copied, so they cannot make a list or a bag impossible.
func TestLeftoversInTheSourceDoNotCauseARefusal(t *testing.T) {
	t.Parallel()
	linuxOnly(t, "other systems do not make these names")
	for name, choose := range map[string]func(*Options){
		"bag": func(o *Options) { o.Bag = &BagOptions{Agent: bag.Agent} },
		"media hash list": func(o *Options) {
			o.MediaList = &MediaList{Creator: classic.Creator{User: "u", Host: "h", Tool: "t"}, Hashes: o.Hashes}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			src, dst := filepath.Join(dir, "src"), filepath.Join(dir, "dst")
			treetest.Create(t, src, payloadTree())
			require.NoError(t, os.Symlink("a", filepath.Join(src, fsys.TempName())))
			require.NoError(t, os.WriteFile(filepath.Join(src, "._"+fsys.TempName()), nil, 0o600))
			o := Options{Source: src, Targets: []string{dst}, Records: Records{Hashes: []hash.Algorithm{hash.SHA1}}}
			choose(&o)
			summary, err := Run(t.Context(), &o, &counters.Set{})
			require.NoError(t, err)
			require.Zero(t, summary.Errors)
			require.Equal(t, []int64{0, 2}, []int64{summary.Warnings, summary.Reserved})
		})
	}
}

// An empty directory is copied and cannot be listed.
func TestABagWarnsOfEmptyDirectories(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	src, dst := filepath.Join(dir, "src"), filepath.Join(dir, "dst")
	treetest.Create(t, src, treetest.Dir{"e": treetest.Dir{"in": treetest.Dir{}}, "f": treetest.File("f"), "g": treetest.Dir{}})
	var warnings []string
	o := bagging(src, dst)
	o.Report = func(e event.Event) {
		if e.Kind == event.Warning {
			warnings = append(warnings, e.Err.Error())
		}
	}
	_, err := Run(t.Context(), &o, &counters.Set{})
	require.NoError(t, err)
	require.Equal(t, []string{"2 empty directories are in the bag, and a bag does not record empty directories: 'e/in', 'g'"}, warnings)
	require.DirExists(t, filepath.Join(dst, "data", "e", "in"))
	require.Empty(t, validate(dst))
}

// sourceBag makes a bag of another hash than a run has by default.
func sourceBag(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	treetest.Create(t, filepath.Join(dir, "src"), payloadTree())
	o := bagging(filepath.Join(dir, "src"), filepath.Join(dir, "bag"))
	o.Hashes = []hash.Algorithm{hash.MD5}
	runs(t, o)
	return o.Targets[0]
}

func TestASourceThatIsABagIsCopiedUnchanged(t *testing.T) {
	t.Parallel()
	src := sourceBag(t)
	dst := filepath.Join(t.TempDir(), "dst")
	o := bagging(src, dst)
	o.Bag.Info, o.Verify = nil, VerifyDest
	s := runs(t, o)
	require.EqualValues(t, 8, s.Files)
	require.EqualValues(t, 7, s.Targets[0].Verified, "bagit.txt comes after that")
	wrong, err := treetest.Diff(src, dst, treetest.Options{})
	require.NoError(t, err)
	require.Empty(t, wrong)
	again := runs(t, o)
	require.Zero(t, again.Files)
	require.NoError(t, os.WriteFile(filepath.Join(src, "manifest-md5.txt"), nil, 0o600))
	_, err = Run(t.Context(), &o, &counters.Set{})
	require.ErrorContains(t, err, "is another bag")
}

// The read that copies a bag validates it. The copy of an invalid bag has no bagit.txt. When the
// source is right again, the next run completes the copy.
func TestASourceThatIsABagIsValidatedCompletely(t *testing.T) {
	t.Parallel()
	write := func(name, content string) func(t *testing.T, src string) {
		return func(t *testing.T, src string) {
			require.NoError(t, os.WriteFile(filepath.Join(src, filepath.FromSlash(name)), []byte(content), 0o600))
		}
	}
	for name, test := range map[string]struct {
		damage func(t *testing.T, src string)
		path   string
		want   string
	}{
		"a damaged file":        {write("data/a", "b"), "data/a", "not copied: its "},
		"a damaged tag file":    {write("bag-info.txt", "Payload-Oxum: 12301.4\n"), "bag-info.txt", "not copied: its "},
		"another Payload-Oxum":  {write("bag-info.txt", "Payload-Oxum: 12302.4\n"), "bag-info.txt", "the payload has 12301.4"},
		"an unlisted file":      {write("data/new", ""), "data/new", "no payload manifest lists it"},
		"a truncated bagit.txt": {write("bagit.txt", bag.Declaration[:19]), "bagit.txt", "there have to be two lines"},
		"a bad fetch.txt":       {write("fetch.txt", "x"), "fetch.txt", "line 1 is not a URL"},
		"an absent file": {func(t *testing.T, src string) {
			require.NoError(t, os.Remove(filepath.Join(src, "data", "a")))
		}, "data/a", "it is absent"},
		"lines that are repeated": {func(t *testing.T, src string) {
			lines, err := os.ReadFile(filepath.Join(src, "manifest-md5.txt"))
			require.NoError(t, err)
			write("manifest-md5.txt", string(lines)+string(lines))(t, src)
		}, "data/a", "lists it more than once"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			src := sourceBag(t)
			dst := filepath.Join(t.TempDir(), "dst")
			whole, err := regularFiles(src)
			require.NoError(t, err)
			test.damage(t, src)
			for _, withBag := range []bool{false, true} {
				o := bagging(src, dst)
				if o.Bag.Info = nil; !withBag {
					o.Bag, o.Targets = nil, []string{filepath.Join(t.TempDir(), "plain")}
				}
				reported := false
				o.Report = func(e event.Event) {
					reported = reported || e.Kind == event.Mismatch && e.Path == test.path && strings.Contains(e.Err.Error(), test.want)
				}
				s, err := Run(t.Context(), &o, &counters.Set{})
				require.NoError(t, err)
				require.Positive(t, s.Mismatches)
				require.True(t, reported)
			}
			require.False(t, isDeclared(dst))
			require.NoError(t, os.RemoveAll(src))
			for name, content := range whole {
				require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(src, name)), 0o700))
				require.NoError(t, os.WriteFile(filepath.Join(src, name), content, 0o600))
			}
			if name == "an unlisted file" || name == "a bad fetch.txt" || strings.HasPrefix(name, "lines") || strings.Contains(name, "tag") {
				return // what was copied would have to be removed or replaced first
			}
			o := bagging(src, dst)
			o.Bag.Info, o.Policy = nil, policy.Always
			runs(t, o)
			require.Empty(t, validate(dst))
		})
	}
}

// A run that fails leaves no bagit.txt. The next one completes the bag, and reads again only
// what failed.
// A bag that Sealift cannot read is refused before anything is written, also with filters.
func TestASourceThatIsAnUnsupportedBagIsRefused(t *testing.T) {
	t.Parallel()
	src := sourceBag(t)
	dst := filepath.Join(t.TempDir(), "dst")
	content := strings.Replace(bag.Declaration, "UTF-8", "Shift_JIS", 1)
	require.NoError(t, os.WriteFile(filepath.Join(src, "bagit.txt"), []byte(content), 0o600))
	for _, change := range []func(*Options){func(o *Options) { o.Bag.Info = nil }, func(o *Options) { o.Bag = nil }, func(o *Options) { o.Bag, o.Filter = nil, &filter.List{} }} {
		o := bagging(src, dst)
		change(&o)
		_, err := Run(t.Context(), &o, &counters.Set{})
		require.ErrorContains(t, err, `is a bag: the tag files are in "Shift_JIS", which is not supported`)
		require.NoDirExists(t, dst)
	}
	o := options(src, dst)
	o.SourceManifest = SourceManifestIgnore
	runs(t, o)
}

// The copy of a bag of an earlier version, with tag files in another encoding, checks it.
func TestASourceThatIsABagOfAnotherEncodingIsValidated(t *testing.T) {
	t.Parallel()
	src := t.TempDir()
	treetest.Create(t, src, treetest.Dir{
		"bagit.txt":        treetest.File("BagIt-Version: 0.95\nTag-File-Character-Encoding: ISO-8859-1\n"),
		"package-info.txt": treetest.File("Payload-Oxum: 1.1\n"),
		"manifest-md5.txt": treetest.File("0cc175b9c0f1b6a831c399e269772661 *data/\xf6\n"),
		"data":             treetest.Dir{"ö": treetest.File("a")},
	})
	o := bagging(src, filepath.Join(t.TempDir(), "dst"))
	o.Bag.Info = nil
	runs(t, o)
	require.Empty(t, validate(o.Targets[0]))

	require.NoError(t, os.WriteFile(filepath.Join(src, "data", "ö"), []byte("b"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(src, "package-info.txt"), []byte("Payload-Oxum: 2.1\n"), 0o600))
	o.Targets = []string{filepath.Join(t.TempDir(), "dst")}
	s, err := Run(t.Context(), &o, &counters.Set{})
	require.NoError(t, err)
	require.EqualValues(t, 2, s.Mismatches)
	require.False(t, isDeclared(o.Targets[0]))
}

func TestABagIsCompletedAfterAFailure(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	src, dst := filepath.Join(dir, "src"), filepath.Join(dir, "dst")
	treetest.Create(t, src, payloadTree())
	o := bagging(src, dst)
	o.Sync = dest.SyncEnd
	sys := &fsys.FS{Fault: faultfs.OnOp(faultfs.OnName("big", faultfs.Fail(syscall.EIO)), fsys.OpOpen)}
	s, err := Run(t.Context(), in(sys, o).pointer(), &counters.Set{})
	require.NoError(t, err)
	require.EqualValues(t, 1, s.Errors)
	require.False(t, isDeclared(dst))
	require.FileExists(t, filepath.Join(dst, "SEALIFT-INCOMPLETE-src.txt"))
	require.NoFileExists(t, filepath.Join(dst, "data", "SEALIFT-INCOMPLETE-src.txt"))
	s = runs(t, o)
	require.EqualValues(t, 1, s.Files)
	require.Empty(t, validate(dst))
	entries, err := os.ReadDir(dst)
	require.NoError(t, err)
	require.Len(t, entries, 5, "%v", entries)
}
