package catalog

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/seed65876f4f/sealift/internal/event"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/manifest"
	"github.com/seed65876f4f/sealift/internal/record"
	"github.com/seed65876f4f/sealift/internal/treetest"
)

// files maps the regular files of a tree to their contents.
type files map[string]string

// tree returns a literal of the files.
func (f files) tree() treetest.Dir {
	root := treetest.Dir{}
	for _, name := range slices.Sorted(maps.Keys(f)) {
		dir := root
		parts := strings.Split(name, "/")
		for _, part := range parts[:len(parts)-1] {
			if dir[part] == nil {
				dir[part] = treetest.Dir{}
			}
			dir = dir[part].(treetest.Dir)
		}
		dir[parts[len(parts)-1]] = treetest.File(f[name])
	}
	return root
}

// sums returns a manifest in the form that Sealift writes. Its arguments are paths, each
// followed by the content whose digest is listed.
func sums(a hash.Algorithm, pathsAndContents ...string) string {
	b := manifest.NewBuilder([]hash.Algorithm{a}, nil, 0)
	for i := 0; i < len(pathsAndContents); i += 2 {
		if err := b.Put(manifest.Entry{Path: pathsAndContents[i], Digests: digestsOf(pathsAndContents[i+1], a)}); err != nil {
			panic(err)
		}
	}
	var text strings.Builder
	if _, err := b.Write(&text, manifest.Document{}); err != nil {
		panic(err)
	}
	return text.String()
}

func sha(pathsAndContents ...string) string { return sums(hash.SHA256, pathsAndContents...) }

func digestsOf(content string, hashes ...hash.Algorithm) hash.Digests {
	set := hash.NewSet(hashes)
	set.Write([]byte(content))
	return set.Digests()
}

var usualHashes = []hash.Algorithm{hash.SHA256}

// pair is a source and a destination on disk.
type pair struct {
	t            *testing.T
	source, dest string
	journal      memoryJournal
}

// memoryJournal has the present names of manifests that are aside, by their paths.
type memoryJournal map[string]string

func (j memoryJournal) RecordAside(file, name string, _ bool) error { j[file] = name; return nil }
func (j memoryJournal) ForgetAside(file string) error               { delete(j, file); return nil }

func newPair(t *testing.T, source, dest treetest.Node) *pair {
	t.Helper()
	p := &pair{t, filepath.Join(t.TempDir(), "source"), filepath.Join(t.TempDir(), "dest"), memoryJournal{}}
	treetest.Create(t, p.source, source)
	treetest.Create(t, p.dest, dest)
	return p
}

func openRoot(t *testing.T, name string) *fsys.Dir {
	t.Helper()
	root, err := fsys.OpenRoot(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	return root
}

// options are those of record.Destination that tests set.
type options struct {
	Hashes                      []hash.Algorithm
	File, Usual, Outside, Shown string
	ReadsBack                   bool
	Asides                      map[string]string
}

// books are the books of one run with line manifests.
type books struct {
	*record.Books
	*manifests
	t        *testing.T
	warnings []string
}

func openBooks(root, source *fsys.Dir, o options, j record.Journal) (*books, error) {
	b := &books{}
	opened, err := record.Open(&record.Destination{
		Source: source, Root: root, Hashes: o.Hashes, File: o.File, Usual: o.Usual, Outside: o.Outside, Shown: o.Shown,
		ReadsBack: o.ReadsBack, Asides: o.Asides, Journal: j, Report: func(e event.Event) { b.warnings = append(b.warnings, e.Path+": "+e.Err.Error()) },
	}, Lines{Hashes: o.Hashes})
	if err != nil {
		return nil, err
	}
	b.Books = &opened
	switch book := record.Of[record.Book](b.Books).(type) {
	case *Tree:
		b.manifests = book.manifests
	case *Outside:
		b.manifests = book.manifests
	case *Single:
		b.manifests = book.manifests
	}
	return b, nil
}

// Kept is that of the Books.
func (b *books) Kept(file string) (digests hash.Digests, line record.Line, complete bool) {
	k := b.Books.Kept(file)
	return k.Digests, k.Line, k.Complete
}

// Accepts is that of the Books, for the only file.
func (b *books) Accepts(digests hash.Digests) error { return b.Books.Accepts(b.File, digests, true) }

// Write is Books.Finish.
func (b *books) Write() ([]record.Written, error) { return b.Books.Finish(record.End{Complete: true}) }

// Stale returns the other manifests that Write has warned of, and how many of their lines are out
// of date.
func (b *books) Stale() (stale []string) {
	for _, w := range b.warnings {
		var lines int
		name, text, _ := strings.Cut(w, ": ")
		if _, err := fmt.Sscanf(text, "%d", &lines); err != nil {
			b.t.Error(w)
		}
		stale = append(stale, fmt.Sprintf("%s %d", name, lines))
	}
	return stale
}

// IsManifest and Guards report what Claim says.
func (b *books) IsManifest(file string) bool { return b.Books.Claim(file).Own }
func (b *books) Guards(file string) bool     { return b.Books.Claim(file).Guarded != nil }

// Drop and DropBelow record that lines are dropped.
func (b *books) Drop(file string)     { b.Books.Account(record.Outcome{Path: file, Dropped: true}) }
func (b *books) DropBelow(dir string) { b.Books.Account(record.Outcome{Path: dir, Below: true}) }

// open opens the books of a run with the default options, changed by o.
func (p *pair) open(o options) (*books, error) {
	p.t.Helper()
	if o.Hashes == nil {
		o.Hashes = usualHashes
	}
	o.Asides = maps.Clone(p.journal)
	b, err := openBooks(openRoot(p.t, p.dest), openRoot(p.t, p.source), o, p.journal)
	if err == nil {
		b.t = p.t
		p.t.Cleanup(b.Books.Close)
	}
	return b, err
}

// begin opens the books of a run without refusals, after completed runs.
func (p *pair) begin(o options) *books {
	p.t.Helper()
	c, err := p.open(o)
	if err != nil {
		p.t.Fatal(err)
	}
	return c
}

// put copies one file of the source, and replaces an existing one.
func (p *pair) put(c *books, name string) {
	p.t.Helper()
	content, err := os.ReadFile(filepath.Join(p.source, name))
	if err != nil {
		p.t.Fatal(err)
	}
	if err := c.Books.BeforeChange(name); err != nil {
		p.t.Fatal(err)
	}
	to := filepath.Join(p.dest, name)
	_, err = os.Lstat(to)
	existed := err == nil
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(to+"~", content, 0o644); err != nil {
		p.t.Fatal(err)
	}
	if err := os.Rename(to+"~", to); err != nil {
		p.t.Fatal(err)
	}
	c.Books.Account(record.Outcome{Path: name, Digests: digestsOf(string(content), c.Hashes...), Created: !existed, Replaced: existed})
}

// copyAll copies the files of the source except those in leave and the source's own manifests.
func (p *pair) copyAll(c *books, leave ...string) {
	p.t.Helper()
	for _, name := range slices.Sorted(maps.Keys(read(p.t, p.source))) {
		if !slices.Contains(leave, name) && !c.IsManifest(name) && !c.Guards(name) {
			p.put(c, name)
		}
	}
}

// copy runs a copy of the files of the source except those in leave.
func (p *pair) copy(o options, leave ...string) []record.Written {
	p.t.Helper()
	c := p.begin(o)
	p.copyAll(c, leave...)
	written, err := c.Write()
	if err != nil {
		p.t.Fatal(err)
	}
	c.Books.Close()
	return written
}

// read returns the regular files of a tree.
func read(t *testing.T, root string) files {
	t.Helper()
	found := files{}
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(name) //nolint:gosec // below a directory of the test
		rel, _ := filepath.Rel(root, name)
		found[filepath.ToSlash(rel)] = string(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// wantFiles fails the test unless the tree has exactly these files.
func wantFiles(t *testing.T, root string, want files) {
	t.Helper()
	got := read(t, root)
	for name := range want {
		if _, ok := got[name]; !ok {
			t.Errorf("%s is missing", name)
		} else if got[name] != want[name] {
			t.Errorf("%s holds\n%s\nand should hold\n%s", name, got[name], want[name])
		}
	}
	for name := range got {
		if _, ok := want[name]; !ok {
			t.Errorf("%s should not be there; it holds\n%s", name, got[name])
		}
	}
}

func with(f files, more files) files {
	all := files{}
	maps.Copy(all, f)
	maps.Copy(all, more)
	return all
}

func remove(t *testing.T, parts ...string) {
	t.Helper()
	if err := os.Remove(filepath.Join(parts...)); err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, dir, name, content string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// eachHash runs a test with each hash that manifests can have. extension is that of its
// manifests.
func eachHash(t *testing.T, test func(t *testing.T, a hash.Algorithm, extension string)) {
	t.Helper()
	for _, a := range hash.Algorithms() {
		t.Run(string(a), func(t *testing.T) { test(t, a, "."+string(a)) })
	}
}
