package catalog

import (
	"errors"
	"strings"
	"testing"

	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/treetest"
)

// TestWhatMayBeReplaced is rule 3.
func TestWhatMayBeReplaced(t *testing.T) {
	list := sha("a", "one", "b", "two")
	lines := strings.SplitAfter(list, "\n")
	manifest := func(content string) treetest.Dir { return treetest.Dir{"SHA256SUMS": treetest.File(content)} }
	for name, test := range map[string]struct {
		dest    treetest.Dir
		source  treetest.Dir
		usual   string
		refused string // a part of the message
	}{
		"nothing is there":                               {dest: treetest.Dir{}},
		"a manifest of Sealift's form":                   {dest: manifest(list)},
		"an empty file":                                  {dest: manifest("")},
		"lines with the mark of earlier versions":        {dest: manifest(strings.Replace(list, "  b", " *b", 1))},
		"a file with a comment":                          {dest: manifest("# mine\n" + list), refused: "not a manifest that Sealift wrote: line 1"},
		"lines in another order":                         {dest: manifest(lines[1] + lines[0]), refused: "line 2 is not in ascending order"},
		"a line twice":                                   {dest: manifest(lines[0] + lines[0]), refused: "line 2 is not in ascending order"},
		"paths as find prints them":                      {dest: manifest(strings.Replace(list, "  a", "  ./a", 1)), refused: "line 1"},
		"digests in capitals":                            {dest: manifest(strings.ToUpper(list)), refused: "line 1"},
		"lines that end as on Windows":                   {dest: manifest(strings.ReplaceAll(list, "\n", "\r\n")), refused: "line 1"},
		"a last line without an end":                     {dest: manifest(strings.TrimSuffix(list, "\n")), refused: "line 2"},
		"lines of another hash":                          {dest: manifest("d41d8cd98f00b204e9800998ecf8427e  a\n"), refused: "line 1"},
		"BSD's lines":                                    {dest: manifest("SHA256 (a) = " + list[:64] + "\n"), refused: "line 1"},
		"a signed manifest":                              {dest: manifest("-----BEGIN PGP SIGNED MESSAGE-----\n" + list), refused: "line 1"},
		"a path that leads out of the tree":              {dest: manifest(list[:64] + "  ../a\n"), refused: "line 1"},
		"a signature beside it, .asc":                    {dest: treetest.Dir{"SHA256SUMS": treetest.File(list), "SHA256SUMS.asc": treetest.File("")}, refused: "there is also 'SHA256SUMS."},
		"a signature beside it, .sig":                    {dest: treetest.Dir{"SHA256SUMS": treetest.File(list), "SHA256SUMS.sig": treetest.File("")}, refused: "there is also 'SHA256SUMS."},
		"a signature beside it, .gpg":                    {dest: treetest.Dir{"SHA256SUMS": treetest.File(list), "SHA256SUMS.gpg": treetest.Dir{}}, refused: "there is also 'SHA256SUMS."},
		"a directory":                                    {dest: treetest.Dir{"SHA256SUMS": treetest.Dir{}}, refused: "it is a directory"},
		"a link, even to a manifest":                     {dest: treetest.Dir{"SHA256SUMS": treetest.Symlink("x"), "x": treetest.File(list)}, refused: "it is a symbolic link"},
		"a link in place of the directory":               {dest: treetest.Dir{"sums": treetest.Symlink("."), "list": treetest.File(list)}, usual: "sums/list", refused: "not a directory"},
		"a manifest in a directory":                      {dest: treetest.Dir{"sums": treetest.Dir{"list": treetest.File(list)}}, usual: "sums/list"},
		"no directory yet":                               {dest: treetest.Dir{}, usual: "sums/list"},
		"a name of 255 bytes, which has no signature":    {dest: treetest.Dir{strings.Repeat("x", 255): treetest.File(list)}, usual: strings.Repeat("x", 255)},
		"a link of the source in place of the directory": {dest: treetest.Dir{}, source: treetest.Dir{"sums": treetest.Symlink("x")}, usual: "sums/list", refused: "in the source, its directory is reached through something that is not a directory"},
		"a file of the source in place of the directory": {dest: treetest.Dir{}, source: treetest.Dir{"sums": treetest.File("x")}, usual: "sums/list", refused: "in the source, its directory is reached through something that is not a directory"},
		"a directory of the source":                      {dest: treetest.Dir{}, source: treetest.Dir{"sums": treetest.Dir{}}, usual: "sums/list"},
	} {
		t.Run(name, func(t *testing.T) {
			source := test.source
			if source == nil {
				source = treetest.Dir{}
			}
			p := newPair(t, source, test.dest)
			before := read(t, p.dest)
			if test.usual == "" {
				test.usual = "SHA256SUMS" // the only name
			}
			_, err := p.open(options{Usual: test.usual, Shown: "DST"})
			wantFiles(t, p.dest, before)
			var refused *failure.RefusedError
			switch {
			case test.refused == "" && err != nil:
				t.Fatal(err)
			case test.refused == "":
			case !errors.As(err, &refused):
				t.Fatalf("it is not refused: %v", err)
			case !strings.Contains(err.Error(), test.refused) || !strings.Contains(err.Error(), "DST"):
				t.Errorf("the message is %q", err)
			}
		})
	}
}
