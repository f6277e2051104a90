package catalog

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/record"
)

// TestLinesThatStay is a second run. All files that it finds up to date keep their lines; the
// manifest is written again only if a line changes.
func TestLinesThatStay(t *testing.T) {
	tree := files{"a": "one", "d/b": "two", "z": "three"}
	list := sha("a", "one", "d/b", "two", "z", "three")
	keep := func(c *books, names ...string) {
		for _, name := range names {
			digests, line, _ := c.Kept(name)
			c.Books.Account(record.Outcome{Path: name, Digests: digests, Line: line})
		}
	}
	for name, test := range map[string]struct {
		dest    files // besides tree
		options options
		run     func(p *pair, c *books)
		want    string
		lines   int
		dropped int
		stays   bool // the same file
		marked  bool // the lines are not in the builder
	}{
		"all files are up to date": {
			run: func(_ *pair, c *books) { keep(c, "z", "a", "d/b") }, want: list, lines: 3, stays: true, marked: true,
		},
		"a file that the run did not meet exists": {
			run: func(_ *pair, c *books) { keep(c, "a", "z") }, want: list, lines: 3, stays: true, marked: true,
		},
		"a file that the run did not meet is gone": {
			run:  func(p *pair, c *books) { keep(c, "a", "z"); remove(p.t, p.dest, "d/b") },
			want: sha("a", "one", "z", "three"), lines: 2, dropped: 1, marked: true,
		},
		"a file is new": {
			run: func(p *pair, c *books) {
				keep(c, "a", "d/b", "z")
				c.Books.Account(record.Outcome{Path: "c", Digests: digestsOf("new", hash.SHA256), Created: true})
			},
			want: sha("a", "one", "c", "new", "d/b", "two", "z", "three"), lines: 4,
		},
		"a file has other content": {
			run: func(_ *pair, c *books) {
				keep(c, "a", "z")
				c.Books.Account(record.Outcome{Path: "d/b", Digests: digestsOf("new", hash.SHA256), Replaced: true})
			},
			want: sha("a", "one", "d/b", "new", "z", "three"), lines: 3,
		},
		"a file is dropped later": {
			run:  func(_ *pair, c *books) { keep(c, "a", "d/b", "z"); c.Drop("z") },
			want: sha("a", "one", "d/b", "two"), lines: 2, dropped: 1,
		},
		"a file was dropped before": {
			run: func(_ *pair, c *books) { c.Drop("z"); keep(c, "a", "d/b", "z") }, want: list, lines: 3, stays: true,
		},
		"a line has the mark of earlier versions": {
			dest: files{"SHA256SUMS": strings.Replace(list, "  d/b", " *d/b", 1)},
			run:  func(_ *pair, c *books) { keep(c, "a", "d/b", "z") }, want: list, lines: 3, marked: true,
		},
		"the last line has a path that another process has removed": {
			dest: files{"SHA256SUMS": sha("a", "one", "d/b", "two", "z", "three", "zz", "x")},
			run:  func(_ *pair, c *books) { keep(c, "a", "d/b", "z") }, want: list, lines: 3, dropped: 1, marked: true,
		},
		"there are manifests of two hashes": {
			dest:    files{"BLAKE3SUMS": sums(hash.BLAKE3, "a", "one", "d/b", "two", "z", "three")},
			options: options{Hashes: []hash.Algorithm{hash.SHA256, hash.BLAKE3}},
			run:     func(_ *pair, c *books) { keep(c, "a", "d/b", "z") }, want: list, lines: 3, stays: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t, tree.tree(), with(with(tree, files{"SHA256SUMS": list}), test.dest).tree())
			before, err := os.Stat(filepath.Join(p.dest, "SHA256SUMS"))
			if err != nil {
				t.Fatal(err)
			}
			c := p.begin(test.options)
			test.run(p, c)
			if c.Files.Changed == test.marked {
				t.Errorf("the builder has records: %v", c.Files.Changed)
			}
			written, err := c.Write()
			if err != nil || len(written) != max(len(test.options.Hashes), 1) {
				t.Fatal(written, err)
			}
			if got := read(t, p.dest)["SHA256SUMS"]; got != test.want {
				t.Errorf("the manifest is\n%s\nand should be\n%s", got, test.want)
			}
			sum := sha256.Sum256([]byte(test.want))
			if w := written[0]; w.Lines != test.lines || w.Dropped != test.dropped || w.SHA256 != hex.EncodeToString(sum[:]) {
				t.Errorf("it is described as %+v", w)
			}
			after, err := os.Stat(filepath.Join(p.dest, "SHA256SUMS"))
			if err != nil || os.SameFile(before, after) != test.stays {
				t.Errorf("it is the same file: %v, %v", !test.stays, err)
			}
		})
	}
}

// TestLinesAreReadBack checks that Lines has the kept files when a run reads them back.
func TestLinesAreReadBack(t *testing.T) {
	p := newPair(t, files{"a": "one"}.tree(), files{"a": "one", "SHA256SUMS": sha("a", "one")}.tree())
	c := p.begin(options{ReadsBack: true})
	digests, line, complete := c.Kept("a")
	if !complete {
		t.Fatal("the line is not kept")
	}
	c.Books.Account(record.Outcome{Path: "a", Digests: digests, Line: line})
	var found []string
	for file := range c.Books.Lines() {
		found = append(found, file)
	}
	if len(found) != 1 || found[0] != "a" {
		t.Errorf("these are read back: %q", found)
	}
}

// TestAnotherProcessChangesAManifestThatStays checks that lines are not taken from a manifest
// that has changed since it was indexed, whatever byte of it has.
func TestAnotherProcessChangesAManifestThatStays(t *testing.T) {
	list := sha("a", "one", "b", "two", "c", "three")
	for name, at := range map[string]int{"in the first line": 0, "in the middle": len(list) / 2, "at the end": len(list) - 2} {
		t.Run(name, func(t *testing.T) {
			tree := files{"a": "one", "b": "two", "c": "three"}
			p := newPair(t, tree.tree(), with(tree, files{"SHA256SUMS": list}).tree())
			c := p.begin(options{})
			for name := range tree {
				digests, line, _ := c.Kept(name)
				c.Books.Account(record.Outcome{Path: name, Digests: digests, Line: line})
			}
			changed := []byte(list)
			if changed[at]++; changed[at] == '9'+1 {
				changed[at] = '0'
			}
			write(t, p.dest, "SHA256SUMS", string(changed))
			if _, err := c.Write(); err == nil || !strings.Contains(err.Error(), "another process has changed the manifest meanwhile") {
				t.Errorf("the error is %v", err)
			}
			if got := read(t, p.dest)["SHA256SUMS"]; got != string(changed) {
				t.Errorf("the file of the other process holds %q", got)
			}
		})
	}
}
