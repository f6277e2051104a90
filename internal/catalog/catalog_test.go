package catalog

import (
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/record"
	"github.com/seed65876f4f/sealift/internal/treetest"
)

// TestSkippedFilesKeepTheirLine is rule 4: Kept returns the line, or the file is read.
func TestSkippedFilesKeepTheirLine(t *testing.T) {
	both := []hash.Algorithm{hash.SHA256, hash.BLAKE3}
	for name, test := range map[string]struct {
		dest   files
		hashes []hash.Algorithm
		usual  string
		kept   bool
	}{
		"a file that the manifest lists keeps its line":          {dest: files{"SHA256SUMS": sha("a", "one")}, kept: true},
		"a file that no manifest lists has no line":              {dest: files{"SHA256SUMS": sha("b", "one")}},
		"without a manifest there is no line":                    {},
		"a line with the mark of earlier versions is a line":     {dest: files{"SHA256SUMS": strings.Replace(sha("a", "one"), "  ", " *", 1)}, kept: true},
		"each hash has to have a line":                           {dest: files{"SHA256SUMS": sha("a", "one")}, hashes: both},
		"with a line of each hash the file keeps them":           {dest: files{"SHA256SUMS": sha("a", "one"), "BLAKE3SUMS": sums(hash.BLAKE3, "a", "one")}, hashes: both, kept: true},
		"the manifest of another name is not asked":              {dest: files{"SHA256SUMS": sha("a", "one")}, usual: "list"},
		"after a kill without a journal no line is kept":         {dest: files{".sealift-was-SHA256SUMS": sha("a", "one")}},
		"a manifest that was left beside a newer one is nothing": {dest: files{".sealift-was-SHA256SUMS": sha("b", "old"), "SHA256SUMS": sha("a", "one")}, kept: true},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t, files{"a": "one"}.tree(), with(test.dest, files{"a": "one"}).tree())
			o := options{Hashes: test.hashes, Usual: test.usual}
			c := p.begin(o)
			digests, _, kept := c.Kept("a")
			if kept != test.kept {
				t.Fatalf("kept: %v", kept)
			}
			if kept && !slices.EqualFunc(digests, digestsOf("one", c.Hashes...), slices.Equal[[]byte]) {
				t.Errorf("the line has the digests %x", digests)
			}
		})
	}
}

// TestManifestOutside is rule 6.
func TestManifestOutside(t *testing.T) {
	p := newPair(t, files{"a": "one"}.tree(), files{"a": "one", "b": "two"}.tree())
	elsewhere := t.TempDir()
	o := options{Outside: filepath.Join(elsewhere, "made", "list.sha256")}
	p.copy(o)
	wantFiles(t, elsewhere, files{"made/list.sha256": sha("a", "one")})

	write(t, elsewhere, path.Join("made", "list.sha256"), sha("a", "one", "b", "two"))
	c := p.begin(o)
	if _, _, kept := c.Kept("a"); kept {
		t.Error("a line is taken from a manifest that may be about another tree")
	}
	p.copyAll(c)
	wantFiles(t, elsewhere, files{"made/list.sha256": sha("a", "one", "b", "two")}) // until the new one is complete
	if _, err := c.Write(); err != nil {
		t.Fatal(err)
	}
	wantFiles(t, elsewhere, files{"made/list.sha256": sha("a", "one")})
	wantFiles(t, p.dest, files{"a": "one", "b": "two"})

	write(t, elsewhere, path.Join("made", "list.sha256"), "a letter\n")
	if _, err := p.open(o); err == nil {
		t.Error("a file that is no manifest may be replaced")
	}
}

// TestNamesOfManifests is rule 2. Only the files of the destination that are manifests are
// compared with want. A second run has the same outcome.
func TestNamesOfManifests(t *testing.T) {
	both := []hash.Algorithm{hash.SHA256, hash.BLAKE3}
	tree := files{"a": "one", "d/b": "two"}
	list, blake := sha("a", "one", "d/b", "two"), sums(hash.BLAKE3, "a", "one", "d/b", "two")
	for name, test := range map[string]struct {
		source, dest files
		hashes       []hash.Algorithm
		want         files
		guarded      string
	}{
		"the usual name": {want: files{"SHA256SUMS": list}},
		"the source's own manifest is not copied, and the run writes its own": {
			source: files{"SHA256SUMS": list}, want: files{"SHA256SUMS": list},
		},
		"also if it lists less": {source: files{"SHA256SUMS": sha("a", "one")}, want: files{"SHA256SUMS": list}},
		"one in another form is a file": {
			source: files{"SHA256SUMS": list + "#\n"},
			want:   files{"SHA256SUMS": list + "#\n", "sealift.sha256": sha("a", "one", "d/b", "two", "SHA256SUMS", list+"#\n")},
		},
		"so is one in another case": {
			source: files{"sha256sums": list},
			want:   files{"sha256sums": list, "sealift.sha256": sha("a", "one", "d/b", "two", "sha256sums", list)},
		},
		"so is one with a signature": {
			source: files{"SHA256SUMS": list, "SHA256SUMS.asc": "x"},
			want:   files{"SHA256SUMS": list, "SHA256SUMS.asc": "x", "sealift.sha256": sha("a", "one", "d/b", "two", "SHA256SUMS", list, "SHA256SUMS.asc", "x")},
		},
		"a signature alone takes the name": {
			source: files{"SHA256SUMS.asc": "x"},
			want:   files{"SHA256SUMS.asc": "x", "sealift.sha256": sha("a", "one", "d/b", "two", "SHA256SUMS.asc", "x")},
		},
		"something else at the destination takes the name": {
			dest: files{"SHA256SUMS": "x"}, want: files{"SHA256SUMS": "x", "sealift.sha256": list},
		},
		"the source's own manifest is then a file": {
			source: files{"SHA256SUMS": list}, dest: files{"SHA256SUMS": "x"},
			want: files{"SHA256SUMS": list, "sealift.sha256": sha("a", "one", "d/b", "two", "SHA256SUMS", list)},
		},
		"each hash has its own name": {
			dest: files{"SHA256SUMS": "x"}, hashes: both, want: files{"SHA256SUMS": "x", "sealift.sha256": list, "BLAKE3SUMS": blake},
		},
		"a manifest of another name stays": {
			dest: files{"sealift.sha256": sha("z", "z")}, want: files{"SHA256SUMS": list, "sealift.sha256": sha("z", "z")},
		},
		"an own manifest of another hash is not replaced": {
			source: files{"MD5SUMS": sums(hash.MD5, "a", "x")}, dest: files{"MD5SUMS": sums(hash.MD5, "z", "z")},
			want: files{"MD5SUMS": sums(hash.MD5, "z", "z"), "SHA256SUMS": list}, guarded: "MD5SUMS",
		},
		"without one, the source's is a file": {
			source: files{"MD5SUMS": sums(hash.MD5, "a", "x")},
			want:   files{"MD5SUMS": sums(hash.MD5, "a", "x"), "SHA256SUMS": sha("a", "one", "d/b", "two", "MD5SUMS", sums(hash.MD5, "a", "x"))},
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t, with(tree, test.source).tree(), test.dest.tree())
			c := p.begin(options{Hashes: test.hashes})
			if test.guarded != "" && !c.Guards(test.guarded) {
				t.Error("it may be replaced")
			}
			c.Books.Close()
			p.copy(options{Hashes: test.hashes})
			wantFiles(t, p.dest, with(tree, test.want))
		})
	}
	p := newPair(t, files{"SHA256SUMS": "x", "sealift.sha256": "x"}.tree(), treetest.Dir{})
	if _, err := p.open(options{}); err == nil || !strings.Contains(err.Error(), "--manifest") {
		t.Errorf("both names are taken: %v", err)
	}
	if _, err := p.open(options{Usual: "SHA256SUMS"}); err == nil {
		t.Error("--manifest is literal")
	}
}

// TestManifestOfASourceThatIsLeftAlone is a second run with policy never. The manifest stays.
func TestManifestOfASourceThatIsLeftAlone(t *testing.T) {
	tree := files{"a": "one"}
	all := with(tree, files{"SHA256SUMS": sha("a", "one")})
	p := newPair(t, all.tree(), all.tree())
	c := p.begin(options{})
	c.Books.Account(record.Outcome{Path: "a"})
	if _, err := c.Write(); err != nil {
		t.Fatal(err)
	}
	wantFiles(t, p.dest, all)
}

// TestWorkersAskAtTheSameTime is also a test for the race detector.
func TestWorkersAskAtTheSameTime(t *testing.T) {
	dest, list := files{}, []string{}
	for i := range 50 {
		name := "f" + strconv.Itoa(i)
		dest[name], list = "old", append(list, name, "old")
	}
	p := newPair(t, dest.tree(), with(dest, files{"SHA256SUMS": sha(list...)}).tree())
	treetest.Create(t, filepath.Join(p.source, "list.sha256"), treetest.File(sha(list...)))
	source, _ := OpenSource(openRoot(t, p.source), SourceOptions{Hashes: usualHashes, Check: true})
	defer source.Close()
	c := p.begin(options{})
	var workers sync.WaitGroup
	for w := range 4 {
		workers.Go(func() {
			for i := w; i < 50; i += 2 {
				name := "f" + strconv.Itoa(i)
				x, err := source.Expect(name)
				line, _, kept := c.Kept(name)
				if err != nil || !kept || !x.Met(line) || c.Accepts(line) != nil {
					t.Errorf("%s: kept %v, %v", name, kept, err)
				}
				if err := c.Books.BeforeChange(name); err != nil {
					t.Error(err)
				}
			}
		})
	}
	workers.Wait()
	if got := read(t, p.dest); got["SHA256SUMS"] != "" || got[".sealift-was-SHA256SUMS"] != sha(list...) {
		t.Error("the manifest is not where it should be")
	}
}

// TestDescriptors checks that Close closes all descriptors in each case.
func TestDescriptors(t *testing.T) {
	count := func() int {
		open, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Skip(err)
		}
		return len(open)
	}
	both := []hash.Algorithm{hash.SHA256, hash.BLAKE3}
	list, blake := sha("a", "one"), sums(hash.BLAKE3, "a", "one")
	for name, test := range map[string]struct {
		source, dest files
		options      options
	}{
		"many manifests": {
			source:  files{"SHA256SUMS": list, "MD5SUMS": "x"},
			dest:    files{"SHA256SUMS": list, ".sealift-was-SHA256SUMS": list, "MD5SUMS": sums(hash.MD5, "a", "x"), "sealift.sha256": list, "BLAKE3SUMS": blake},
			options: options{Hashes: both, Asides: memoryJournal{"SHA256SUMS": ".sealift-was-SHA256SUMS"}},
		},
		"with a name that is taken": {
			source: files{"SHA256SUMS": "x"}, dest: files{"SHA256SUMS": list, "sealift.sha256": "x"},
		},
		"in a directory":            {dest: files{"d/e/list": list}, options: options{Usual: "d/e/list"}},
		"in a directory, refused":   {dest: files{"d/e/list": "x"}, options: options{Usual: "d/e/list"}},
		"of a single file":          {source: files{"a": "one"}, dest: files{"a.sha256": list}, options: options{File: "a"}},
		"of a single file, refused": {source: files{"a": "one"}, dest: files{"a.sha256": "x"}, options: options{File: "a"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t, test.source.tree(), test.dest.tree())
			source, dest := openRoot(t, p.source), openRoot(t, p.dest)
			if test.options.Hashes == nil {
				test.options.Hashes = usualHashes
			}
			before := count()
			s, _ := OpenSource(source, SourceOptions{Hashes: test.options.Hashes, Check: true})
			if c, err := openBooks(dest, source, test.options, nil); err == nil {
				c.Books.Close()
			}
			s.Close()
			if after := count(); after != before {
				t.Errorf("%d are open, and %d were", after, before)
			}
		})
	}
}
