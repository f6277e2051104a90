package catalog

import (
	"errors"
	"strings"
	"testing"

	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/treetest"
)

// TestNamesOfEachHash is rules 2 and 4: a manifest is found again under the name that
// it has, and a run that changes nothing keeps all its lines.
func TestNamesOfEachHash(t *testing.T) {
	eachHash(t, func(t *testing.T, a hash.Algorithm, extension string) {
		o := options{Hashes: []hash.Algorithm{a}}
		for want, source := range map[string]files{
			a.FileName():          {"a": "one", "d/new\nline": "two"},
			"sealift" + extension: {"a": "one", a.FileName(): "x"},
		} {
			p := newPair(t, source.tree(), treetest.Dir{})
			p.copy(o)
			var lines []string
			for name, content := range source {
				lines = append(lines, name, content)
			}
			after := with(source, files{want: sums(a, lines...)})
			wantFiles(t, p.dest, after)

			c := p.begin(o)
			for name, content := range source {
				if digests, _, complete := c.Kept(name); !complete || !digests.Equal(digestsOf(content, a)) {
					t.Errorf("the line of %q in %s is not kept", name, want)
				}
			}
			written, err := c.Write()
			if err != nil || len(written) != 1 || written[0].Lines != len(source) || written[0].Dropped != 0 {
				t.Errorf("%s: %+v, %v", want, written, err)
			}
			wantFiles(t, p.dest, after)
		}
	})
}

// TestChainOfEachHash is rule 2 about the source's own manifest.
func TestChainOfEachHash(t *testing.T) {
	eachHash(t, func(t *testing.T, a hash.Algorithm, _ string) {
		tree := files{"a": "one", a.FileName(): sums(a, "a", "one")}
		p := newPair(t, tree.tree(), treetest.Dir{})
		for range 2 {
			p.copy(options{Hashes: []hash.Algorithm{a}})
			wantFiles(t, p.dest, tree)
		}
	})
}

// TestFormOfEachHash is rule 3.
func TestFormOfEachHash(t *testing.T) {
	eachHash(t, func(t *testing.T, a hash.Algorithm, _ string) {
		list := sums(a, "a", "one", "b", "two")
		for name, test := range map[string]struct {
			content string
			refused bool
		}{
			"what Sealift writes":                {content: list},
			"what earlier versions have written": {content: strings.Replace(list, "  b", " *b", 1)},
			"a comment":                          {content: "#\n" + list, refused: true},
			"another order":                      {content: sums(a, "b", "two") + sums(a, "a", "one"), refused: true},
			"no last line feed":                  {content: strings.TrimSuffix(list, "\n"), refused: true},
			"a digest alone":                     {content: a.Text(digestsOf("one", a)[0]) + "\n", refused: true},
			"OpenSSL's form":                     {content: a.Tags()[0] + "(a)= " + a.Text(digestsOf("one", a)[0]) + "\n", refused: true},
		} {
			p := newPair(t, treetest.Dir{}, treetest.Dir{a.FileName(): treetest.File(test.content)})
			_, err := p.open(options{Hashes: []hash.Algorithm{a}, Usual: a.FileName()})
			if refusal := (*failure.RefusedError)(nil); errors.As(err, &refusal) != test.refused {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

// TestOthersOfEachHash is rule 1, for manifests of a tree and beside a file, and a copy of the tree and of the file.
func TestOthersOfEachHash(t *testing.T) {
	eachHash(t, func(t *testing.T, a hash.Algorithm, extension string) {
		this := hash.SHA256
		if a == this {
			this = hash.MD5
		}
		beside := "a" + extension
		for _, file := range []string{"", "a"} {
			dest := files{"a": "old", "b": "b", beside: sums(a, "a", "old")}
			for _, name := range a.FileNames() {
				dest[name] = sums(a, "a", "old", "b", "b")
			}
			p := newPair(t, files{"a": "new"}.tree(), dest.tree())
			c := p.begin(options{Hashes: []hash.Algorithm{this}, File: file})
			p.copyAll(c)
			if _, err := c.Write(); err != nil {
				t.Fatal(err)
			}
			if stale := c.Stale(); len(stale) > 0 {
				t.Errorf("file %q: %q are out of date", file, stale)
			}
			after := read(t, p.dest)
			for _, name := range a.FileNames() {
				if after[name] != sums(a, "b", "b") {
					t.Errorf("file %q: %s holds %q", file, name, after[name])
				}
			}
			if _, exists := after[beside]; exists {
				t.Errorf("file %q: %s holds %q", file, beside, after[beside])
			}
		}
	})
}

// TestOneFileOfEachHash is rule 7: beside a file, a manifest is renewed, and a digest
// alone stays and is compared, in the notation of its hash.
func TestOneFileOfEachHash(t *testing.T) {
	eachHash(t, func(t *testing.T, a hash.Algorithm, extension string) {
		o := options{Hashes: []hash.Algorithm{a}, File: "a"}
		name := "a" + extension
		p := newPair(t, files{"a": "new"}.tree(), files{"a": "old", name: sums(a, "a", "old")}.tree())
		p.copy(o)
		wantFiles(t, p.dest, files{"a": "new", name: sums(a, "a", "new")})

		alone := func(content string) string { return a.Text(digestsOf(content, a)[0]) }
		for content, bad := range map[string]bool{"new": false, "other": true} {
			p := newPair(t, files{"a": "new"}.tree(), files{name: alone(content) + "\n"}.tree())
			c := p.begin(o)
			err := c.Accepts(digestsOf("new", a))
			if (err != nil) != bad {
				t.Errorf("the digest of %q alone: %v", content, err)
			}
			if bad && !strings.HasSuffix(err.Error(), "is "+alone("new")+" and should be "+alone("other")) {
				t.Error(err)
			}
			if !bad {
				p.copyAll(c)
				if _, err := c.Write(); err != nil {
					t.Fatal(err)
				}
				wantFiles(t, p.dest, files{"a": "new", name: alone("new") + "\n"})
			}
		}
	})
}

// TestSourceListsOfEachHash shows that manifests in the source are recognized.
func TestSourceListsOfEachHash(t *testing.T) {
	eachHash(t, func(t *testing.T, a hash.Algorithm, extension string) {
		for _, name := range []string{a.FileName(), "a" + extension, "list" + extension} {
			for _, file := range []string{"", "a"} {
				if file != "" && name != "a"+extension {
					continue
				}
				for content, met := range map[string]bool{"one": true, "x": false} {
					p := newPair(t, files{"a": "one", name: sums(a, "a", content)}.tree(), treetest.Dir{})
					s, notes := OpenSource(openRoot(t, p.source), SourceOptions{Hashes: []hash.Algorithm{hash.SHA224, a}, File: file, Check: true})
					x, err := s.Expect("a")
					if err != nil || !x.Any() || len(notes) > 0 {
						t.Errorf("%s is not read: %v, %v", name, err, notes)
					} else if x.Met(digestsOf("one", hash.SHA224, a)) != met {
						t.Errorf("%s: met should be %v", name, met)
					}
					s.Close()
				}
			}
		}
	})
}
