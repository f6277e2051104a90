package catalog

import (
	"errors"
	"strings"
	"testing"

	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/treetest"
)

// TestManifestOfOneFile is rule 7. The source's file is "a" with the content "new".
func TestManifestOfOneFile(t *testing.T) {
	list := func(content string) string { return sha("a", content) }
	bare := func(content string) string { return list(content)[:64] }
	type outcome string
	const (
		copied   outcome = "the file is copied"
		mismatch outcome = "the file is not copied"
		refused  outcome = "nothing is written"
	)
	for name, test := range map[string]struct {
		dest   files
		hashes []hash.Algorithm
		want   outcome
		beside files // the files then beside the file
	}{
		"a new file gets a manifest": {want: copied, beside: files{"a.sha256": list("new")}},
		"each hash has one":          {hashes: []hash.Algorithm{hash.SHA256, hash.MD5}, want: copied, beside: files{"a.sha256": list("new"), "a.md5": sums(hash.MD5, "a", "new")}},

		"a publisher's manifest that matches stays": {dest: files{"a.sha256": "# signed\n" + list("new")}, want: copied, beside: files{"a.sha256": "# signed\n" + list("new")}},
		"so does a digest alone":                    {dest: files{"a.sha256": bare("new")}, want: copied, beside: files{"a.sha256": bare("new")}},
		"so does BSD's form":                        {dest: files{"a.sha256": "SHA256 (a) = " + bare("new")}, want: copied, beside: files{"a.sha256": "SHA256 (a) = " + bare("new")}},
		"so does one in capitals, with ./":          {dest: files{"a.sha256": strings.ToUpper(bare("new")) + " *./a\r\n"}, want: copied, beside: files{"a.sha256": strings.ToUpper(bare("new")) + " *./a\r\n"}},
		"so does one with a signature":              {dest: files{"a.sha256": list("new"), "a.sha256.asc": "x"}, want: copied, beside: files{"a.sha256": list("new"), "a.sha256.asc": "x"}},
		"so does one in Sealift's form":             {dest: files{"a.sha256": list("new")}, want: copied, beside: files{"a.sha256": list("new")}},

		"a publisher's manifest that does not match, of a file that is not there": {dest: files{"a.sha256": "#\n" + list("x")}, want: mismatch},
		"a digest alone that does not match":                                      {dest: files{"a.sha256": bare("x")}, want: mismatch},
		"one in Sealift's form that does not match, of a file that is not there":  {dest: files{"a.sha256": list("x")}, want: mismatch},

		"a file that is replaced has its manifest renewed":         {dest: files{"a": "old", "a.sha256": list("old")}, want: copied, beside: files{"a.sha256": list("new")}},
		"lines of others stay in it":                               {dest: files{"a": "old", "b": "b", "a.sha256": sha("a", "old", "b", "b")}, want: copied, beside: files{"b": "b", "a.sha256": sha("a", "new", "b", "b")}},
		"a file that is replaced, and whose manifest is another's": {dest: files{"a": "old", "a.sha256": bare("old")}, want: mismatch},
		"a file that is replaced, and whose manifest is signed":    {dest: files{"a": "old", "a.sha256": list("old"), "a.sha256.asc": "x"}, want: mismatch},
		"a file that differs from its manifest":                    {dest: files{"a": "other", "a.sha256": list("old")}, want: mismatch},
		"one of a form that nothing reads":                         {dest: files{"a.sha256": "x"}, want: refused},
		"one that lists other files, in another's form":            {dest: files{"a.sha256": "#\n" + sha("b", "new")}, want: refused},
		"one that lists the file twice":                            {dest: files{"a.sha256": list("new") + list("old")}, want: refused},
		"one of more than a megabyte":                              {dest: files{"a.sha256": list("new") + strings.Repeat("#", maxGiven)}, want: refused},

		"own manifests of the directory lose the line of a file that is replaced": {
			dest: files{"a": "old", "b": "b", "SHA256SUMS": sha("a", "old", "b", "b")}, want: copied,
			beside: files{"b": "b", "SHA256SUMS": sha("b", "b"), "a.sha256": list("new")},
		},
		"so do those beside the file": {
			dest:   files{"a": "old", "a.md5": sums(hash.MD5, "a", "old"), "MD5SUMS": sums(hash.MD5, "a.md5", "x", "c", "c"), "BLAKE3SUMS": sums(hash.BLAKE3, "MD5SUMS", "x")},
			want:   copied,
			beside: files{"MD5SUMS": sums(hash.MD5, "c", "c"), "a.sha256": list("new")},
		},
		"and those that list the manifest of the copy": {
			dest: files{"a": "old", "a.sha256": list("old"), "MD5SUMS": sums(hash.MD5, "a.sha256", "x", "c", "c")}, want: copied,
			beside: files{"MD5SUMS": sums(hash.MD5, "c", "c"), "a.sha256": list("new")},
		},
		"not one that does not match the file": {
			dest: files{"a": "old", "a.md5": sums(hash.MD5, "a", "x")}, want: copied, beside: files{"a.md5": sums(hash.MD5, "a", "x"), "a.sha256": list("new")},
		},
		"nor are signed ones": {
			dest: files{"a": "old", "SHA256SUMS": sha("a", "old"), "SHA256SUMS.asc": "x"}, want: copied, beside: files{"SHA256SUMS": sha("a", "old"), "SHA256SUMS.asc": "x", "a.sha256": list("new")},
		},
		"the others are not touched": {
			dest: files{"a": "old", "SHA256SUMS": "#\n" + sha("a", "old")}, want: copied, beside: files{"SHA256SUMS": "#\n" + sha("a", "old"), "a.sha256": list("new")},
		},
		"nor are own ones if the file is new": {
			dest: files{"SHA256SUMS": sha("a", "old")}, want: copied, beside: files{"SHA256SUMS": sha("a", "old"), "a.sha256": list("new")},
		},
		"what a killed run has moved aside is renewed": {dest: files{"a": "old", ".sealift-was-a.sha256": list("old")}, want: copied, beside: files{"a.sha256": list("new")}},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t, files{"a": "new"}.tree(), test.dest.tree())
			if _, killed := test.dest[".sealift-was-a.sha256"]; killed {
				p.journal["a.sha256"] = ".sealift-was-a.sha256"
			}
			c, err := p.open(options{File: "a", Hashes: test.hashes, Shown: "DST"})
			if refusal := (*failure.RefusedError)(nil); errors.As(err, &refusal) != (test.want == refused) {
				t.Fatalf("want that %s: %v", test.want, err)
			}
			if test.want == refused {
				wantFiles(t, p.dest, test.dest)
				return
			}
			c.Resume(nil)
			if err := c.Accepts(digestsOf("new", c.Hashes...)); (err != nil) != (test.want == mismatch) {
				t.Fatalf("want that %s: %v", test.want, err)
			}
			want := test.dest
			if test.want == copied {
				p.put(c, "a")
				want = with(test.beside, files{"a": "new"})
			}
			if _, err := c.Write(); err != nil {
				t.Fatal(err)
			}
			wantFiles(t, p.dest, want)
		})
	}
}

// TestPublisherIsNotAnEarlierRun checks that rule 4 does not apply to lines of other
// programs.
func TestPublisherIsNotAnEarlierRun(t *testing.T) {
	p := newPair(t, files{"a": "new"}.tree(), files{"a": "old", "a.sha256": sha("a", "new")[:64]}.tree())
	c := p.begin(options{File: "a"})
	if _, _, kept := c.Kept("a"); kept {
		t.Error("a publisher's digest proves what is at the destination")
	}
}

func TestLinkBesideOneFile(t *testing.T) {
	p := newPair(t, files{"a": "new"}.tree(), treetest.Dir{"a.sha256": treetest.Symlink("x"), "x": treetest.File(sha("a", "new"))})
	if _, err := p.open(options{File: "a"}); err == nil {
		t.Error("a link is taken for a manifest")
	}
}
