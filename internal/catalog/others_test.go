package catalog

import (
	"maps"
	"slices"
	"testing"

	"github.com/seed65876f4f/sealift/internal/hash"
)

// TestOtherManifests is rule 1. The source has "a" and "b", both with the content "new". A
// manifest in after has this content, "" if it is gone; all others stay as they are in dest.
func TestOtherManifests(t *testing.T) {
	old, renewed := files{"a": "old", "b": "old"}, sha("a", "new", "b", "new")
	for name, test := range map[string]struct {
		source, dest files
		options      options
		leave        string
		want         []string // manifests, each with the number of its lines
		after        files    // manifests, besides the others of dest
	}{
		"without one there is no warning":             {dest: old, after: files{"SHA256SUMS": renewed}},
		"each line of a replaced file is out of date": {dest: with(old, files{"MD5SUMS": "#\n" + sums(hash.MD5, "a", "old", "b", "old", "c", "c")}), want: []string{"MD5SUMS 2"}, after: files{"SHA256SUMS": renewed}},
		"a file that is new makes none so":            {dest: files{"MD5SUMS": sums(hash.MD5, "a", "old")}, after: files{"SHA256SUMS": renewed}},
		"nor does one that was left":                  {dest: with(old, files{"MD5SUMS": sums(hash.MD5, "b", "old")}), leave: "b", after: files{"b": "old", "SHA256SUMS": sha("a", "new")}},
		"an own one of another hash loses these lines": {
			dest:  with(old, files{"BLAKE3SUMS": sums(hash.BLAKE3, "a", "old", "c", "c")}),
			after: files{"SHA256SUMS": renewed, "BLAKE3SUMS": sums(hash.BLAKE3, "c", "c")},
		},
		"and is removed without any line": {
			dest: with(old, files{"BLAKE3SUMS": sums(hash.BLAKE3, "a", "old")}), after: files{"SHA256SUMS": renewed, "BLAKE3SUMS": ""},
		},
		"also if the run computes no hash": {
			dest: with(old, files{"SHA256SUMS": sha("a", "old", "c", "c")}), options: options{Hashes: []hash.Algorithm{}}, after: files{"SHA256SUMS": sha("c", "c")},
		},
		"one that the source has stays": {
			source: files{"MD5SUMS": sums(hash.MD5, "a", "old")}, dest: with(old, files{"MD5SUMS": sums(hash.MD5, "a", "old")}),
			after: files{"SHA256SUMS": sha("a", "new", "b", "new", "MD5SUMS", sums(hash.MD5, "a", "old"))},
		},
		"one that differs from the source's loses lines and is not replaced": {
			source: files{"MD5SUMS": sums(hash.MD5, "a", "new")}, dest: with(old, files{"MD5SUMS": sums(hash.MD5, "a", "old", "c", "c")}),
			after: files{"SHA256SUMS": renewed, "MD5SUMS": sums(hash.MD5, "c", "c")},
		},
		"a line of one that stays is kept": {
			source: files{"MD5SUMS": sums(hash.MD5, "a", "new")},
			dest:   with(old, files{"SHA256SUMS": sha("a", "old", "MD5SUMS", "x"), "MD5SUMS": sums(hash.MD5, "c", "c"), "sealift.sha256": sha("a", "old", "c", "c")}),
			after:  files{"SHA256SUMS": sha("a", "new", "b", "new", "MD5SUMS", "x"), "MD5SUMS": sums(hash.MD5, "c", "c"), "sealift.sha256": sha("c", "c")},
		},
		"that of one that loses lines is not": {
			source: files{"MD5SUMS": sums(hash.MD5, "a", "new")},
			dest:   with(old, files{"SHA256SUMS": sha("a", "old", "MD5SUMS", "x"), "MD5SUMS": sums(hash.MD5, "a", "old", "c", "c")}),
			after:  files{"SHA256SUMS": renewed, "MD5SUMS": sums(hash.MD5, "c", "c")},
		},
		"no own one keeps a line of a manifest that changes": {
			dest:  files{"SHA256SUMS": sha("a", "old"), "SHA512SUMS": sums(hash.SHA512, "SHA256SUMS", "x", "c", "c")},
			after: files{"SHA256SUMS": renewed, "SHA512SUMS": sums(hash.SHA512, "c", "c")},
		},
		"one that others list changes those, too": {
			dest: with(old, files{
				"BLAKE3SUMS": sums(hash.BLAKE3, "a", "old", "c", "c"), "MD5SUMS": sums(hash.MD5, "BLAKE3SUMS", "x", "d", "d"),
				"SHA512SUMS": sums(hash.SHA512, "MD5SUMS", "x"), "sealift.sha512": sums(hash.SHA512, "d", "d"),
			}),
			after: files{
				"SHA256SUMS": renewed, "BLAKE3SUMS": sums(hash.BLAKE3, "c", "c"), "MD5SUMS": sums(hash.MD5, "d", "d"), "SHA512SUMS": "",
			},
		},
		"also this run's, and those that list this run's": {
			dest: with(old, files{
				"BLAKE3SUMS": sums(hash.BLAKE3, "b", "old", "c", "c"), "SHA256SUMS": sha("BLAKE3SUMS", "x", "c", "c"), "MD5SUMS": sums(hash.MD5, "SHA256SUMS", "x", "d", "d"),
			}),
			after: files{"SHA256SUMS": renewed, "BLAKE3SUMS": sums(hash.BLAKE3, "c", "c"), "MD5SUMS": sums(hash.MD5, "d", "d")},
		},
		"lines of manifests that do not change stay": {
			dest: with(old, files{
				"BLAKE3SUMS": sums(hash.BLAKE3, "c", "c"), "MD5SUMS": sums(hash.MD5, "BLAKE3SUMS", "x", "a", "old"), "SHA512SUMS": sums(hash.SHA512, "BLAKE3SUMS", "x"),
			}),
			after: files{"SHA256SUMS": renewed, "MD5SUMS": sums(hash.MD5, "BLAKE3SUMS", "x")},
		},
		"one beside a file that is replaced is removed": {
			dest:  with(old, files{"a.md5": sums(hash.MD5, "a", "old"), "a.sha256": sha("a", "old")}),
			after: files{"SHA256SUMS": renewed, "a.md5": "", "a.sha256": ""},
		},
		"with the line of it in others": {
			dest:  with(old, files{"a.md5": sums(hash.MD5, "a", "old"), "BLAKE3SUMS": sums(hash.BLAKE3, "a.md5", "x", "c", "c")}),
			after: files{"SHA256SUMS": renewed, "a.md5": "", "BLAKE3SUMS": sums(hash.BLAKE3, "c", "c")},
		},
		"not beside a file that is left": {
			dest: with(old, files{"b.md5": sums(hash.MD5, "b", "old")}), leave: "b", after: files{"b": "old", "SHA256SUMS": sha("a", "new")},
		},
		"nor one that does not match the file": {
			dest: with(old, files{"a.md5": sums(hash.MD5, "a", "x")}), want: []string{"a.md5 1"}, after: files{"SHA256SUMS": renewed},
		},
		"nor a signed one": {
			dest: with(old, files{"a.md5": sums(hash.MD5, "a", "old"), "a.md5.asc": "x"}), want: []string{"a.md5 1"}, after: files{"SHA256SUMS": renewed},
		},
		"nor one that lists another file, too": {
			dest: with(old, files{"a.md5": sums(hash.MD5, "a", "old", "b", "old")}), want: []string{"a.md5 2"}, after: files{"SHA256SUMS": renewed},
		},
		"nor one that the source has": {
			source: files{"a.md5": sums(hash.MD5, "a", "new")}, dest: with(old, files{"a.md5": sums(hash.MD5, "a", "old")}),
			after: files{"SHA256SUMS": sha("a", "new", "a.md5", sums(hash.MD5, "a", "new"), "b", "new")},
		},
		"a line that says what the file is now is right": {dest: with(old, files{"x.sha256": sha("a", "new", "b", "old")}), want: []string{"x.sha256 1"}, after: files{"SHA256SUMS": renewed}},
		"several are in the order of their names": {
			dest: with(old, files{"z.sha256": sha("a", "old"), "b.md5": sums(hash.MD5, "a", "old")}), want: []string{"b.md5 1", "z.sha256 1"}, after: files{"SHA256SUMS": renewed},
		},
		"the names of other tools count, and paths with ./": {dest: with(old, files{"shasum.2020.txt": "#\n" + sha("./a", "old")}), want: []string{"shasum.2020.txt 1"}, after: files{"SHA256SUMS": renewed}},
		"an AppleDouble file is none": {
			dest: with(old, files{"._x.mhl": "\x00\x05\x16\x07", "z.sha256": sha("a", "old")}), want: []string{"z.sha256 1"}, after: files{"SHA256SUMS": renewed},
		},
		"what the copy has brought is not another one": {source: files{"a.sha256": sha("a", "x")}, dest: old, after: files{"SHA256SUMS": sha("a", "new", "b", "new", "a.sha256", sha("a", "x"))}},
		"the usual manifest is another one with --manifest": {
			dest: with(old, files{"SHA256SUMS": sha("a", "old")}), options: options{Usual: "list"}, after: files{"list": renewed, "SHA256SUMS": ""},
		},
		"and outside of the destination": {
			dest: with(old, files{"SHA256SUMS": sha("a", "old")}), options: options{Outside: "elsewhere"}, after: files{"SHA256SUMS": ""},
		},
		"beside a single file the usual ones are read": {
			dest:    with(old, files{"SHA256SUMS": "#\n" + sha("a", "old"), "a.md5": "#\n" + sums(hash.MD5, "a", "old"), "b.md5": sums(hash.MD5, "a", "old"), "x.md5": "x"}),
			options: options{File: "a"}, leave: "b", want: []string{"SHA256SUMS 1", "a.md5 1"}, after: files{"b": "old", "a.sha256": sha("a", "new")},
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t, with(test.source, files{"a": "new", "b": "new"}).tree(), test.dest.tree())
			if test.options.Outside != "" {
				test.options.Outside = t.TempDir() + "/" + test.options.Outside
			}
			c := p.begin(test.options)
			p.copyAll(c, test.leave)
			if _, err := c.Write(); err != nil {
				t.Fatal(err)
			}
			if got := c.Stale(); !slices.Equal(got, test.want) {
				t.Errorf("out of date: %q, want %q", got, test.want)
			}
			want := with(with(test.dest, files{"a": "new", "b": "new"}), with(test.source, test.after))
			maps.DeleteFunc(want, func(_, content string) bool { return content == "" })
			wantFiles(t, p.dest, want)
		})
	}
}
