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
			o := Options{Hashes: test.hashes, Usual: test.usual}
			c := p.begin(o)
			digests, _, kept := c.Kept("a")
			if kept != test.kept {
				t.Fatalf("kept: %v", kept)
			}
			if kept && !slices.EqualFunc(digests, digestsOf("one", c.opts.Hashes...), slices.Equal[[]byte]) {
				t.Errorf("the line has the digests %x", digests)
			}
		})
	}
}

// TestManifestOutside is rule 6.
func TestManifestOutside(t *testing.T) {
	p := newPair(t, files{"a": "one"}.tree(), files{"a": "one", "b": "two"}.tree())
	elsewhere := t.TempDir()
	o := Options{Outside: filepath.Join(elsewhere, "made", "list.sha256")}
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

// TestChainOfCopies is the exception of rule 2: a copy of a copy has the manifest of
// the first one.
func TestChainOfCopies(t *testing.T) {
	both := []hash.Algorithm{hash.SHA256, hash.BLAKE3}
	tree := files{"a": "one", "d/b": "two"}
	list, blake := sha("a", "one", "d/b", "two"), sums(hash.BLAKE3, "a", "one", "d/b", "two")
	for name, test := range map[string]struct {
		source, dest files
		hashes       []hash.Algorithm
		leave        string
		want         files // of manifests
	}{
		"the source's manifest is the run's":              {source: files{"SHA256SUMS": list}, want: files{"SHA256SUMS": list}},
		"one that lists less is a file":                   {source: files{"SHA256SUMS": sha("a", "one")}, want: files{"SHA256SUMS": sha("a", "one"), "sealift.sha256": sha("a", "one", "d/b", "two", "SHA256SUMS", sha("a", "one"))}},
		"one in another form is a file":                   {source: files{"SHA256SUMS": list + "#\n"}, want: files{"SHA256SUMS": list + "#\n", "sealift.sha256": sha("a", "one", "d/b", "two", "SHA256SUMS", list+"#\n")}},
		"one in another case is a file":                   {source: files{"sha256sums": list}, want: files{"sha256sums": list, "sealift.sha256": sha("a", "one", "d/b", "two", "sha256sums", list)}},
		"one that is left out is not the run's":           {source: files{"SHA256SUMS": list}, leave: "SHA256SUMS", want: files{"sealift.sha256": list}},
		"the second level is the run's in the same way":   {source: files{"SHA256SUMS": "x", "sealift.sha256": sha("SHA256SUMS", "x", "a", "one", "d/b", "two")}, want: files{"SHA256SUMS": "x", "sealift.sha256": sha("SHA256SUMS", "x", "a", "one", "d/b", "two")}},
		"with one hash more, that is written beside it":   {source: files{"SHA256SUMS": list}, hashes: both, want: files{"SHA256SUMS": list, "BLAKE3SUMS": blake}},
		"all entries of the level have to be the run's":   {source: files{"SHA256SUMS": list, "BLAKE3SUMS": "x"}, hashes: both, want: files{"SHA256SUMS": list, "BLAKE3SUMS": "x", "sealift.sha256": sha("a", "one", "d/b", "two", "SHA256SUMS", list, "BLAKE3SUMS", "x"), "sealift.blake3": sums(hash.BLAKE3, "a", "one", "d/b", "two", "SHA256SUMS", list, "BLAKE3SUMS", "x")}},
		"lines of other paths do not fit into it":         {source: files{"SHA256SUMS": list}, dest: files{"z": "z", "sealift.sha256": sha("z", "z")}, want: files{"z": "z", "SHA256SUMS": list, "sealift.sha256": sha("a", "one", "d/b", "two", "SHA256SUMS", list, "z", "z")}},
		"what the later level lists only in part is gone": {source: files{"SHA256SUMS": list}, dest: files{"a": "one", "sealift.sha256": sha("a", "one")}, want: files{"SHA256SUMS": list}},
		"another file of the other hash is left alone":    {source: files{"SHA256SUMS": list}, dest: files{"BLAKE3SUMS": "x"}, hashes: both, want: files{"SHA256SUMS": list, "BLAKE3SUMS": "x", "sealift.sha256": sha("a", "one", "d/b", "two", "SHA256SUMS", list), "sealift.blake3": sums(hash.BLAKE3, "a", "one", "d/b", "two", "SHA256SUMS", list)}},
		"two manifests of the other hash are not mixed":   {source: files{"SHA256SUMS": list}, dest: files{"BLAKE3SUMS": blake, "sealift.blake3": blake}, hashes: both, want: files{"SHA256SUMS": list, "BLAKE3SUMS": blake, "sealift.sha256": sha("a", "one", "d/b", "two", "SHA256SUMS", list), "sealift.blake3": sums(hash.BLAKE3, "a", "one", "d/b", "two", "SHA256SUMS", list)}},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t, with(tree, test.source).tree(), test.dest.tree())
			p.copy(Options{Hashes: test.hashes}, test.leave)
			wantFiles(t, p.dest, with(tree, test.want))
			p.copy(Options{Hashes: test.hashes}, test.leave) // a second run has the same outcome
			wantFiles(t, p.dest, with(tree, test.want))
		})
	}
}

// TestChainThatIsLeftAlone is a second run with policy never. It must not write a manifest
// beside the one that was copied from the source.
func TestChainThatIsLeftAlone(t *testing.T) {
	tree := files{"a": "one"}
	all := with(tree, files{"SHA256SUMS": sha("a", "one")})
	p := newPair(t, all.tree(), all.tree())
	c := p.begin(Options{})
	for name := range all {
		c.Record(Outcome{Path: name})
	}
	if err := c.MakeWay(); err != nil {
		t.Fatal(err)
	}
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
	c := p.begin(Options{})
	var workers sync.WaitGroup
	for w := range 4 {
		workers.Go(func() {
			for i := w; i < 50; i += 2 {
				name := "f" + strconv.Itoa(i)
				x, err := source.Expect(name)
				line, _, kept := c.Kept(name)
				if err != nil || !kept || !x.Met(line) || !c.ListsInPlace(name) || c.Accepts(line) != nil {
					t.Errorf("%s: kept %v, %v", name, kept, err)
				}
				if err := c.BeforeChange(name); err != nil {
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
		options      Options
	}{
		"manifests at many levels": {
			source:  files{"SHA256SUMS": list, "sealift-3.sha256": "x"},
			dest:    files{"SHA256SUMS": list, ".sealift-was-SHA256SUMS": list, "sealift-3.sha256": list, "sealift-5.sha256": list, ".sealift-was-sealift-5.sha256": list, "BLAKE3SUMS": blake, "sealift-7.blake3": blake},
			options: Options{Hashes: both},
		},
		"in a directory":            {dest: files{"d/e/list": list}, options: Options{Usual: "d/e/list"}},
		"in a directory, refused":   {dest: files{"d/e/list": "x"}, options: Options{Usual: "d/e/list"}},
		"of a single file":          {source: files{"a": "one"}, dest: files{"a.sha256": list}, options: Options{File: "a"}},
		"of a single file, refused": {source: files{"a": "one"}, dest: files{"a.sha256": "x"}, options: Options{File: "a"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t, test.source.tree(), test.dest.tree())
			source, dest := openRoot(t, p.source), openRoot(t, p.dest)
			if test.options.Hashes == nil {
				test.options.Hashes = usualHashes
			}
			before := count()
			s, _ := OpenSource(source, SourceOptions{Hashes: test.options.Hashes, Check: true})
			if c, err := Open(dest, s, test.options); err == nil {
				c.Close()
			}
			s.Close()
			if after := count(); after != before {
				t.Errorf("%d are open, and %d were", after, before)
			}
		})
	}
}
