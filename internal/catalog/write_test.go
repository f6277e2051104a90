package catalog

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/fsys/faultfs"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/record"
	"github.com/seed65876f4f/sealift/internal/treetest"
)

// TestLinesOfOtherPaths is rule 5. The run copies "a", with the content "new".
func TestLinesOfOtherPaths(t *testing.T) {
	for name, test := range map[string]struct {
		dest    treetest.Dir
		listed  []string        // in the previous manifest, besides a: paths and contents
		outcome *record.Outcome // of another entry
		fallen  string
		want    []string // lines, besides that of a
		dropped int
	}{
		"a line is kept while the file exists":      {dest: files{"b": "b", "d/c": "c"}.tree(), listed: []string{"b", "b", "d/c", "c"}, want: []string{"b", "b", "d/c", "c"}},
		"also if the file has changed":              {dest: files{"b": "changed"}.tree(), listed: []string{"b", "b"}, want: []string{"b", "b"}},
		"it is dropped when the file is gone":       {listed: []string{"b", "b"}, dropped: 1},
		"when its directory is gone":                {listed: []string{"d/e/b", "b"}, dropped: 1},
		"when the name is that of a directory":      {dest: treetest.Dir{"b": treetest.Dir{}}, listed: []string{"b", "b"}, dropped: 1},
		"when the name is that of a link":           {dest: treetest.Dir{"b": treetest.Symlink("c"), "c": treetest.File("b")}, listed: []string{"b", "b"}, dropped: 1},
		"when its directory is a file now":          {dest: files{"d": "d"}.tree(), listed: []string{"d/b", "b"}, dropped: 1},
		"when the run has replaced the file":        {dest: files{"b": "b"}.tree(), listed: []string{"b", "b"}, outcome: &record.Outcome{Path: "b", Replaced: true}, dropped: 1},
		"when the name leads to another directory":  {dest: files{"d/b": "b"}.tree(), listed: []string{"d/b", "b"}, fallen: "d", dropped: 1},
		"but not those of a directory beside it":    {dest: files{"dd/b": "b"}.tree(), listed: []string{"dd/b", "b"}, fallen: "d", want: []string{"dd/b", "b"}},
		"an entry that the run left keeps its line": {dest: files{"b": "b"}.tree(), listed: []string{"b", "b"}, outcome: &record.Outcome{Path: "b"}, want: []string{"b", "b"}},
		"one that was compared has the line of it":  {dest: files{"b": "now"}.tree(), listed: []string{"b", "b"}, outcome: &record.Outcome{Path: "b", Digests: digestsOf("now", usualHashes...)}, want: []string{"b", "now"}},
		"a manifest does not list itself":           {listed: []string{"SHA256SUMS", "x"}},
	} {
		t.Run(name, func(t *testing.T) {
			if test.dest == nil {
				test.dest = treetest.Dir{}
			}
			test.dest["a"] = treetest.File("old")
			test.dest["SHA256SUMS"] = treetest.File(sha(append(test.listed, "a", "old")...))
			p := newPair(t, files{"a": "new"}.tree(), test.dest)
			c := p.begin(options{})
			p.copyAll(c)
			if test.outcome != nil {
				c.Books.Account(*test.outcome)
			}
			if test.fallen != "" {
				c.DropBelow(test.fallen)
			}
			written, err := c.Write()
			if err != nil {
				t.Fatal(err)
			}
			if got, want := read(t, p.dest)["SHA256SUMS"], sha(append(test.want, "a", "new")...); got != want {
				t.Errorf("the manifest is\n%s\nand should be\n%s", got, want)
			}
			if written[0].Dropped != test.dropped {
				t.Errorf("%d lines dropped, want %d", written[0].Dropped, test.dropped)
			}
		})
	}
}

// unfinished is the journal of a killed run.
type unfinished map[string]string // the paths that it may have changed: contents, "" if not known

func (u unfinished) Touched(file string, _ fsys.Info) (hash.Digests, bool) {
	content, touched := u[file]
	if content == "" {
		return nil, touched
	}
	return digestsOf(content, usualHashes...), touched
}

// TestKilledAtEachStep is rule 8. A run is killed, and the next one, which does not copy
// "b" and "c", writes the manifest that the first one would have written.
func TestKilledAtEachStep(t *testing.T) {
	before := sha("a", "old", "b", "old", "c", "c")
	aside := files{".sealift-was-SHA256SUMS": before}
	for name, test := range map[string]struct {
		dest    files // besides c
		journal unfinished
		want    string // the manifest
	}{
		"before anything was changed": {
			dest: files{"a": "old", "b": "old", "SHA256SUMS": before},
			want: sha("a", "new", "b", "old", "c", "c"),
		},
		"when the manifest was moved aside": {
			dest: with(aside, files{"a": "old", "b": "old"}), journal: unfinished{},
			want: sha("a", "new", "b", "old", "c", "c"),
		},
		"when a file was replaced that the journal lists": {
			dest: with(aside, files{"a": "old", "b": "new"}), journal: unfinished{"b": "new"},
			want: sha("a", "new", "b", "new", "c", "c"),
		},
		"when a file was replaced that the journal does not know": {
			dest: with(aside, files{"a": "old", "b": "new"}), journal: unfinished{"b": ""},
			want: sha("a", "new", "c", "c"),
		},
		"when a file might have been replaced, and was not": {
			dest: with(aside, files{"a": "old", "b": "old"}), journal: unfinished{"b": ""},
			want: sha("a", "new", "b", "old", "c", "c"),
		},
		"when the new manifest was complete": {
			dest: with(aside, files{"a": "new", "b": "new", "SHA256SUMS": sha("a", "new", "b", "new", "c", "c")}), journal: unfinished{"b": "x"},
			want: sha("a", "new", "b", "new", "c", "c"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t, files{"a": "new"}.tree(), with(test.dest, files{"c": "c"}).tree())
			if test.journal != nil {
				p.journal["SHA256SUMS"] = ".sealift-was-SHA256SUMS"
			}
			c, err := p.open(options{})
			if err != nil {
				t.Fatal(err)
			}
			if test.journal != nil {
				c.Resume(test.journal)
			}
			p.copyAll(c)
			if _, err := c.Write(); err != nil {
				t.Fatal(err)
			}
			wantFiles(t, p.dest, files{"a": "new", "b": test.dest["b"], "c": "c", "SHA256SUMS": test.want})
		})
	}
}

// TestManifestMovesAsideBeforeAListedFile is rule 8: when the manifest moves aside, and
// when it stays.
func TestManifestMovesAsideBeforeAListedFile(t *testing.T) {
	dest := files{"a": "old", "SHA256SUMS": sha("a", "old"), "BLAKE3SUMS": sums(hash.BLAKE3, "b", "b")}
	both := []hash.Algorithm{hash.SHA256, hash.BLAKE3}
	for name, test := range map[string]struct {
		options options
		change  string
		aside   bool
	}{
		"a file that is listed":                           {change: "a", aside: true},
		"a file that only the manifest of one hash lists": {change: "b", options: options{Hashes: both}, aside: true},
		"a file that is not listed":                       {change: "new"},
		"a file that the manifest of another run lists":   {change: "a", options: options{Hashes: []hash.Algorithm{hash.MD5}}, aside: true},
		"also beside a manifest outside":                  {change: "a", options: options{Outside: "x"}, aside: true},
		"also beside a manifest with another name":        {change: "a", options: options{Usual: "list"}, aside: true},
		"and without any":                                 {change: "a", options: options{Hashes: []hash.Algorithm{}}, aside: true},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t, treetest.Dir{}, dest.tree())
			if test.options.Outside != "" {
				test.options.Outside = filepath.Join(t.TempDir(), "x")
				write(t, filepath.Dir(test.options.Outside), "x", sha("a", "old"))
			}
			c := p.begin(test.options)
			if err := c.Books.BeforeChange(test.change); err != nil {
				t.Fatal(err)
			}
			_, left := read(t, p.dest)["SHA256SUMS"]
			_, moved := read(t, p.dest)[".sealift-was-SHA256SUMS"]
			if moved != test.aside || left == test.aside || c.Books.NeedsJournal() != test.aside {
				t.Errorf("moved aside: %v, left in place: %v, has one aside: %v", moved, left, c.Books.NeedsJournal())
			}
		})
	}
}

// TestNewManifestLooksLikeTheOldOne is rule 8: mode and attributes are kept.
func TestNewManifestLooksLikeTheOldOne(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("modes are those of Unix")
	}
	for name, old := range map[string]treetest.Dir{
		"of a listed file that is replaced": {"a": treetest.File("old"), "SHA256SUMS": treetest.File(sha("a", "old"), treetest.Mode(0o604))},
		"of a file that is new":             {"b": treetest.File("b"), "SHA256SUMS": treetest.File(sha("b", "b"), treetest.Mode(0o604))},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t, files{"a": "new"}.tree(), old)
			p.copy(options{})
			info, err := os.Stat(filepath.Join(p.dest, "SHA256SUMS"))
			if err != nil || info.Mode() != 0o604 {
				t.Errorf("%v, %v", info.Mode(), err)
			}
		})
	}
	for attribute, kept := range map[string]bool{
		"user.mine": true, "security.selinux": true, "system.posix_acl_access": true,
		"security.ima": false, "security.evm": false, "trusted.overlay.origin": false, "lustre.lov": false,
	} {
		if keepsXattr(attribute) != kept {
			t.Errorf("%s is kept: %v", attribute, !kept)
		}
	}
}

// TestManifestThatWouldNotChange keeps its inode.
func TestManifestThatWouldNotChange(t *testing.T) {
	p := newPair(t, files{"a": "one"}.tree(), files{"a": "one", "SHA256SUMS": sha("a", "one")}.tree())
	before, err := os.Stat(filepath.Join(p.dest, "SHA256SUMS"))
	if err != nil {
		t.Fatal(err)
	}
	c := p.begin(options{})
	digests, _, _ := c.Kept("a")
	c.Books.Account(record.Outcome{Path: "a", Digests: digests})
	written, err := c.Write()
	if err != nil {
		t.Fatal(err)
	}
	after, err := os.Stat(filepath.Join(p.dest, "SHA256SUMS"))
	if err != nil || !os.SameFile(before, after) || !after.ModTime().Equal(before.ModTime()) {
		t.Errorf("it was written again: %v", err)
	}
	if len(written) != 1 || written[0].Lines != 1 || written[0].SHA256 == "" {
		t.Errorf("it is described as %+v", written)
	}
}

// TestAnotherProcessAndTheManifest is rule 8: only the file that existed at first is
// replaced.
func TestAnotherProcessAndTheManifest(t *testing.T) {
	for name, test := range map[string]struct {
		dest   files
		early  bool              // it does so before any file is copied
		meddle func(dest string) // otherwise before the manifest is written
		want   string            // content of SHA256SUMS afterwards
	}{
		"has created it": {
			dest: files{}, meddle: func(dest string) { write(t, dest, "SHA256SUMS", "mine") }, want: "mine",
		},
		"has replaced it": {
			dest: files{"b": "b", "SHA256SUMS": sha("b", "b")}, want: "mine",
			meddle: func(dest string) { remove(t, dest, "SHA256SUMS"); write(t, dest, "SHA256SUMS", "mine") },
		},
		"has replaced it before a listed file was replaced": {
			dest: files{"a": "old", "SHA256SUMS": sha("a", "old")}, want: "mine", early: true,
			meddle: func(dest string) { remove(t, dest, "SHA256SUMS"); write(t, dest, "SHA256SUMS", "mine") },
		},
		"has created it while it was moved aside": {
			dest: files{"a": "old", "SHA256SUMS": sha("a", "old")}, want: "mine",
			meddle: func(dest string) { write(t, dest, "SHA256SUMS", "mine") },
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t, files{"a": "new"}.tree(), test.dest.tree())
			c := p.begin(options{})
			if test.early {
				test.meddle(p.dest)
			}
			p.copyAll(c)
			if !test.early {
				test.meddle(p.dest)
			}
			if _, err := c.Write(); err == nil || !strings.Contains(err.Error(), "another process") {
				t.Errorf("the error is %v", err)
			}
			if got := read(t, p.dest)["SHA256SUMS"]; got != test.want {
				t.Errorf("the file of the other process holds %q", got)
			}
		})
	}
}

// TestNothingToList checks that no empty manifest is written, and that a manifest is
// removed if all its files are gone.
func TestNothingToList(t *testing.T) {
	for name, dest := range map[string]files{
		"where there was none":        {},
		"where all listed is gone":    {"SHA256SUMS": sha("gone", "x")},
		"where a run left an old one": {".sealift-was-SHA256SUMS": sha("gone", "x")},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t, treetest.Dir{}, dest.tree())
			p.journal["SHA256SUMS"] = ".sealift-was-SHA256SUMS"
			p.copy(options{})
			wantFiles(t, p.dest, files{})
		})
	}
}

// TestManifestInADirectory writes a manifest below directories that it creates.
func TestManifestInADirectory(t *testing.T) {
	p := newPair(t, files{"a": "one"}.tree(), files{"a": "old", "sums/list": sha("a", "old")}.tree())
	p.copy(options{Usual: "sums/list"})
	wantFiles(t, p.dest, files{"a": "one", "sums/list": sha("a", "one")})
	p.copy(options{Usual: "other/sums/list"})
	wantFiles(t, p.dest, files{"a": "one", "sums/list": sha("a", "one"), "other/sums/list": sha("a", "one")})
}

// TestDroppedFileIsNotListed drops a file, as reading back does if its content differs.
func TestDroppedFileIsNotListed(t *testing.T) {
	p := newPair(t, files{"a": "one", "b": "two"}.tree(), treetest.Dir{})
	c := p.begin(options{})
	p.copyAll(c)
	c.Drop("a")
	if _, err := c.Write(); err != nil {
		t.Fatal(err)
	}
	wantFiles(t, p.dest, files{"a": "one", "b": "two", "SHA256SUMS": sha("b", "two")})
}

// A read error of the previous manifest is reported, and the manifest is not replaced,
// because its content may be the same.
func TestAPreviousManifestThatCannotBeReadStays(t *testing.T) {
	p := newPair(t, files{"a": "a"}.tree(), treetest.Dir{})
	p.copy(options{})
	before, err := os.Lstat(filepath.Join(p.dest, "SHA256SUMS"))
	require.NoError(t, err)
	source := openRoot(t, p.source)

	write := func(sys *fsys.FS, fault faultfs.Injector) error {
		root, err := sys.OpenRoot(p.dest)
		require.NoError(t, err)
		defer root.Close()
		c, err := openBooks(root, source, options{Hashes: usualHashes}, nil)
		require.NoError(t, err)
		defer c.Books.Close()
		c.Books.Account(record.Outcome{Path: "a", Digests: digestsOf("a", usualHashes...)})
		sys.Fault = fault
		_, err = c.Write()
		return err
	}
	reads := int64(0)
	count := func(fsys.Call) error { reads++; return nil }
	require.NoError(t, write(&fsys.FS{}, faultfs.OnOp(count, fsys.OpRead)))
	require.EqualValues(t, 2, reads, "for the lines of other files, and to compare")
	for nth := range reads {
		require.ErrorIs(t, write(&fsys.FS{}, faultfs.OnOp(faultfs.OnIndex(nth, faultfs.Fail(syscall.EIO)), fsys.OpRead)), syscall.EIO)
		after, err := os.Lstat(filepath.Join(p.dest, "SHA256SUMS"))
		require.NoError(t, err)
		require.True(t, os.SameFile(before, after), "it was written again")
	}
}
