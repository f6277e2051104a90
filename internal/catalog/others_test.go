package catalog

import (
	"slices"
	"strconv"
	"testing"

	"github.com/seed65876f4f/sealift/internal/hash"
)

// TestOtherManifestsAreOnlyWarnedOf is rule 1. The source has "a" and "b", both with
// the content "new".
func TestOtherManifestsAreOnlyWarnedOf(t *testing.T) {
	old, renewed := files{"a": "old", "b": "old"}, sha("a", "new", "b", "new")
	for name, test := range map[string]struct {
		source, dest files
		options      Options
		leave        string
		want         []string // manifests, each with the number of its lines
		after        files    // manifests, besides the others of dest
	}{
		"without one there is no warning":             {dest: old, after: files{"SHA256SUMS": renewed}},
		"each line of a replaced file is out of date": {dest: with(old, files{"MD5SUMS": "#\n" + sums(hash.MD5, "a", "old", "b", "old", "c", "c")}), want: []string{"MD5SUMS 2"}, after: files{"SHA256SUMS": renewed}},
		"a file that is new makes none so":            {dest: files{"MD5SUMS": sums(hash.MD5, "a", "old")}, after: files{"SHA256SUMS": renewed}},
		"nor does one that was left":                  {dest: with(old, files{"MD5SUMS": sums(hash.MD5, "b", "old")}), leave: "b", after: files{"b": "old", "SHA256SUMS": sha("a", "new")}},
		"the manifest of an earlier run with another hash": {
			dest: with(old, files{"BLAKE3SUMS": sums(hash.BLAKE3, "a", "old")}), want: []string{"BLAKE3SUMS 1"}, after: files{"SHA256SUMS": renewed},
		},
		"a line that says what the file is now is right": {dest: with(old, files{"x.sha256": sha("a", "new", "b", "old")}), want: []string{"x.sha256 1"}, after: files{"SHA256SUMS": renewed}},
		"several are in the order of their names": {
			dest: with(old, files{"z.sha256": sha("a", "old"), "a.md5": sums(hash.MD5, "a", "old")}), want: []string{"a.md5 1", "z.sha256 1"}, after: files{"SHA256SUMS": renewed},
		},
		"the names of other tools count, and paths with ./": {dest: with(old, files{"shasum.2020.txt": "#\n" + sha("./a", "old")}), want: []string{"shasum.2020.txt 1"}, after: files{"SHA256SUMS": renewed}},
		"an AppleDouble file is none": {
			dest: with(old, files{"._x.mhl": "\x00\x05\x16\x07", "z.sha256": sha("a", "old")}), want: []string{"z.sha256 1"}, after: files{"SHA256SUMS": renewed},
		},
		"what the copy has brought is not another one": {source: files{"a.sha256": sha("a", "x")}, dest: old, after: files{"SHA256SUMS": sha("a", "new", "b", "new", "a.sha256", sha("a", "x"))}},
		"the usual manifest is another one with --manifest": {
			dest: with(old, files{"SHA256SUMS": sha("a", "old")}), options: Options{Usual: "list"}, want: []string{"SHA256SUMS 1"}, after: files{"list": renewed},
		},
		"and outside of the destination": {
			dest: with(old, files{"SHA256SUMS": sha("a", "old")}), options: Options{Outside: "elsewhere"}, want: []string{"SHA256SUMS 1"},
		},
		"beside a single file the usual ones are read": {
			dest:    with(old, files{"SHA256SUMS": sha("a", "old"), "a.md5": sums(hash.MD5, "a", "old"), "b.md5": sums(hash.MD5, "a", "old"), "x.md5": "x"}),
			options: Options{File: "a"}, leave: "b", want: []string{"SHA256SUMS 1", "a.md5 1"}, after: files{"b": "old", "a.sha256": sha("a", "new")},
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
			stale, err := c.Stale()
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, s := range stale {
				got = append(got, s.Path+" "+strconv.Itoa(s.Lines))
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("out of date: %q, want %q", got, test.want)
			}
			wantFiles(t, p.dest, with(with(test.dest, files{"a": "new", "b": "new"}), with(test.source, test.after)))
		})
	}
}
