package catalog

import (
	"strconv"
	"strings"
	"testing"

	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/treetest"
)

// TestWhatASourceExpects has the cases of "A manifest in the source" in docs/manifest.md.
// The source has "a", with the content "one", and "d/b", with the content "two".
func TestWhatASourceExpects(t *testing.T) {
	right := sha("a", "one", "d/b", "two")
	digest := right[:64]
	for name, test := range map[string]struct {
		source treetest.Dir
		file   string // the single file that is copied; "" for the tree
		names  []string
		a      string // "", "met" or "not met"
		b      string
		absent string
		notes  string
	}{
		"without a manifest nothing is expected":            {},
		"what it lists is compared":                         {source: treetest.Dir{"SHA256SUMS": treetest.File(right)}, a: "met", b: "met"},
		"what it lists with another digest is not met":      {source: treetest.Dir{"SHA256SUMS": treetest.File(sha("a", "x"))}, a: "not met"},
		"what it lists twice cannot be met":                 {source: treetest.Dir{"SHA256SUMS": treetest.File(sha("a", "one") + sha("a", "x"))}, a: "not met"},
		"several manifests have to agree":                   {source: treetest.Dir{"SHA256SUMS": treetest.File(right), "old.sha256": treetest.File(sha("a", "x"))}, a: "not met", b: "met"},
		"any name that verify reads is one":                 {source: treetest.Dir{"shasum.2020.txt": treetest.File(right)}, a: "met", b: "met"},
		"one of a hash that is not computed is not":         {source: treetest.Dir{"MD5SUMS": treetest.File(sums(hash.MD5, "a", "x"))}},
		"one below the root is not":                         {source: treetest.Dir{"d": treetest.Dir{"SHA256SUMS": treetest.File(sha("b", "x"))}}},
		"one with the names of Windows is":                  {source: treetest.Dir{"x.sha256": treetest.File(digest + " *a\r\n" + sha("d/b", "x")[:64] + ` *d\b` + "\r\n")}, a: "met", b: "not met"},
		"the path that --manifest names is one":             {source: treetest.Dir{"sums": treetest.Dir{"list": treetest.File(right)}}, names: []string{"sums/list"}, a: "met", b: "met"},
		"a manifest beside a file is about the file":        {source: treetest.Dir{"a.sha256": treetest.File(sha("a", "x"))}, a: "not met"},
		"a digest alone is no manifest":                     {source: treetest.Dir{"a.sha256": treetest.File(sha("a", "x")[:64])}},
		"and one with .txt at the end":                      {source: treetest.Dir{"a.sha256.txt": treetest.File(sha("a", "x"))}, a: "not met"},
		"one that lists more is compared with all":          {source: treetest.Dir{"a.sha256": treetest.File(sha("a", "one", "d/b", "x"))}, a: "met", b: "not met"},
		"a directory beside a file is none":                 {source: treetest.Dir{"a.sha256": treetest.Dir{}}},
		"a link beside a file leads to one":                 {source: treetest.Dir{"a.sha256": treetest.Symlink("d/x"), "d": treetest.Dir{"x": treetest.File(sha("a", "x"))}}, a: "not met"},
		"of a single file, the manifest beside it is read":  {source: treetest.Dir{"a.sha256": treetest.File(sha("a", "x")), "SHA256SUMS": treetest.File(right)}, file: "a", a: "not met"},
		"there, too, a digest alone is none":                {source: treetest.Dir{"a.sha256": treetest.File(sha("a", "x")[:64])}, file: "a", notes: "a.sha256 0"},
		"what it lists and is absent is reported, once":     {source: treetest.Dir{"SHA256SUMS": treetest.File(sha("c", "c", "a", "one")), "x.sha256": treetest.File(sha("c", "c"))}, a: "met", absent: "SHA256SUMS c"},
		"its own line is passed over":                       {source: treetest.Dir{"SHA256SUMS": treetest.File(sha("SHA256SUMS", "x", "a", "one"))}, a: "met"},
		"lines that cannot be read are a warning":           {source: treetest.Dir{"SHA256SUMS": treetest.File("x\n" + right)}, a: "met", b: "met", notes: "SHA256SUMS 0"},
		"one of the usual name without a line is a warning": {source: treetest.Dir{"SHA256SUMS": treetest.File("x\n")}, notes: "SHA256SUMS 0"},
		"of other names, nothing is said":                   {source: treetest.Dir{"x.sha256": treetest.File("x\n")}},
		"one that leads out of the source is a warning":     {source: treetest.Dir{"SHA256SUMS": treetest.Symlink("../x")}, notes: "SHA256SUMS 0"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t, files{"a": "one", "d/b": "two"}.tree(), treetest.Dir{})
			if test.source != nil {
				treetest.Create(t, p.source, test.source)
			}
			s, notes := OpenSource(openRoot(t, p.source), SourceOptions{Hashes: usualHashes, File: test.file, Names: test.names, Check: true})
			defer s.Close()
			for file, want := range map[string]struct{ content, met string }{"a": {"one", test.a}, "d/b": {"two", test.b}} {
				x, err := s.Expect(file)
				if err != nil {
					t.Fatal(err)
				}
				got := ""
				if x.Any() {
					got = map[bool]string{true: "met", false: "not met"}[x.Met(digestsOf(want.content, usualHashes...))]
				}
				if got != want.met {
					t.Errorf("%s: %q, want %q", file, got, want.met)
				}
			}
			if x, err := s.Expect("SHA256SUMS"); x.Any() || err != nil {
				t.Errorf("a manifest lists its own digest: %v", err)
			}
			var absent, said []string
			if err := s.Absent(func(list, file string, _ bool) error {
				absent = append(absent, list+" "+file)
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(absent, ", "); test.file == "" && got != test.absent {
				t.Errorf("absent: %q, want %q", got, test.absent)
			}
			for _, n := range notes {
				said = append(said, n.Path+" "+strconv.Itoa(int(n.Severity)))
			}
			if got := strings.Join(said, ", "); got != test.notes {
				t.Errorf("notes: %q, want %q", got, test.notes)
			}
		})
	}
}

// TestManyManifestsBesideFiles checks that the limit does not count manifests beside files,
// because each file may have one.
func TestManyManifestsBesideFiles(t *testing.T) {
	tree := files{}
	for i := range maxSourceLists + 44 {
		name := "f" + strconv.Itoa(i)
		tree[name], tree[name+".sha256"] = "one", sha(name, "x")
	}
	p := newPair(t, tree.tree(), treetest.Dir{})
	s, notes := OpenSource(openRoot(t, p.source), SourceOptions{Hashes: usualHashes, Check: true})
	defer s.Close()
	if len(notes) > 0 || len(s.lists) > 0 {
		t.Fatalf("%d are held open: %+v", len(s.lists), notes)
	}
	for i := range maxSourceLists + 44 {
		x, err := s.Expect("f" + strconv.Itoa(i))
		if err != nil || x.Met(digestsOf("one", usualHashes...)) {
			t.Fatalf("f%d is not checked: %v", i, err)
		}
	}
}

func TestTooManyManifests(t *testing.T) {
	tree := files{}
	for i := range maxSourceLists + 1 {
		tree["list"+strconv.Itoa(i)+".sha256"] = sha("a", "one")
	}
	p := newPair(t, tree.tree(), treetest.Dir{})
	s, notes := OpenSource(openRoot(t, p.source), SourceOptions{Hashes: usualHashes, Check: true})
	defer s.Close()
	if len(s.lists) != maxSourceLists || len(notes) != 1 || notes[0].Severity != Warning {
		t.Errorf("%d manifests are checked, and the notes are %+v", len(s.lists), notes)
	}
}

// TestUncheckedSource checks that the manifests of a source can be ignored.
func TestUncheckedSource(t *testing.T) {
	p := newPair(t, files{"a": "one", "SHA256SUMS": sha("a", "x")}.tree(), treetest.Dir{})
	s, _ := OpenSource(openRoot(t, p.source), SourceOptions{Hashes: usualHashes})
	defer s.Close()
	if x, err := s.Expect("a"); x.Any() || err != nil {
		t.Errorf("it is checked: %v", err)
	}
}
