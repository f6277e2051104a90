package mhl

import (
	"bufio"
	"bytes"
	"cmp"
	"io"
	"iter"
	"path"
	"slices"
	"strings"

	"github.com/seed65876f4f/sealift/internal/extsort"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/manifest"
)

// Order describes the generations of one run.
type Order struct {
	Creator Creator
	Process Process
	Name    string // name of the tree's directory, for the names of generations
	Ignore  []string

	Hashes   []hash.Algorithm // hashes to record for each file and directory
	Computed []hash.Algorithm // hashes of the digests of the entries: Hashes and those that Formats adds

	// Select reports whether a file gets a hash element; nil for all. listed means that the
	// history lists the file already.
	Select func(path string, listed bool) bool

	// Partial means that the entries are not the complete tree. Then no root hash and no
	// hashes of directories are written, and only histories with entries get a generation.
	Partial bool

	// Always writes a generation for the root even if there is nothing to record but ignore
	// patterns.
	Always bool

	Renamed map[string]string // the result of Renames, or nil

	// Report receives the findings of the comparison with the history. It may be nil. Paths of
	// directories end in a slash.
	Report func(path string, finding Finding)

	Durable  bool // sync the files
	NewSpill func() (extsort.Spill, error)
}

// Finding is the result of comparing an entry with its history.
type Finding uint8

// The findings.
const (
	Mismatch Finding = iota + 1 // The file has another hash, which is recorded as failed.
	Missing                     // The history lists the entry, and it does not exist.
	New                         // The history does not list the file.
)

// Entries calls yield for the files and directories of a tree, sorted by path. For sorting,
// the paths of directories end in a slash. The digests of directories are ignored.
type Entries func(yield func(manifest.Entry) error) error

// Written is one generation that was written.
type Written struct {
	Path   string // path of the generation relative to the tree
	SHA256 string // digest of the generation
	Files  int    // number of files that it lists
}

// Compare compares the entries of a tree with its histories, and reports the findings.
// It writes nothing.
func (t *Tree) Compare(entries Entries, computed []hash.Algorithm, report func(path string, finding Finding, e *manifest.Entry, r *Record) error) error {
	next, stop := iter.Pull2(extsort.Seq(t.Each))
	defer stop()
	record, err, ok := next()
	if err != nil {
		return err
	}
	advance := func() error {
		record, err, ok = next()
		return err
	}
	missing := func() error {
		return report(sortedPath(record), Missing, nil, record)
	}
	err = entries(func(e manifest.Entry) error {
		for ok && sortedPath(record) < e.Path {
			if err := cmp.Or(missing(), advance()); err != nil {
				return err
			}
		}
		if !ok || sortedPath(record) != e.Path {
			return report(e.Path, New, &e, nil)
		}
		finding := Finding(0)
		for i, a := range computed {
			if known := record.Find(a); !record.IsDir && known != nil && !bytes.Equal(known, e.Digests[i]) {
				finding = Mismatch
			}
		}
		return cmp.Or(report(e.Path, finding, &e, record), advance())
	})
	for err == nil && ok {
		err = cmp.Or(missing(), advance())
	}
	return err
}

// sortedPath returns the path by which a record is sorted.
func sortedPath(r *Record) string {
	if r.IsDir {
		return r.Path + "/"
	}
	return r.Path
}

// Write writes a generation for each history of the tree, and for the tree itself, deepest
// first. Each generation is complete when it gets its name. Then its chain is written.
func (t *Tree) Write(o *Order, entries Entries) (_ []Written, err error) {
	sorted := *o
	o = &sorted
	o.Hashes = slices.SortedFunc(slices.Values(o.Hashes), inSchemaOrder)
	w := &writer{tree: t, order: o, dirs: newDirHasher(o.Hashes, o.NewSpill), finder: fsys.NewFinder(t.root, 4)}
	defer func() {
		w.finder.Close()
		for _, g := range w.open {
			err = cmp.Or(err, g.close())
		}
		err = cmp.Or(err, w.dirs.close())
	}()
	w.enterRoot()
	if err := t.Compare(entries, o.Computed, w.take); err != nil {
		return w.written, err
	}
	for len(w.path) > 0 {
		if err := w.leave(); err != nil {
			return w.written, err
		}
	}
	return w.written, w.leaveRoot()
}

// writer writes the generations of one run.
type writer struct {
	tree    *Tree
	order   *Order
	dirs    *dirHasher
	finder  *fsys.Finder
	path    []openDir     // directories above the last entry, from the root down, without the root
	open    []*generation // generations of the histories above the last entry, the deepest last
	written []Written
}

// openDir is a directory whose entries are being read.
type openDir struct {
	path    string
	mtime   int64
	history bool // true if the directory has a history
}

// generation is a generation that is being written.
type generation struct {
	path       string // path of the directory that has the history
	history    *History
	spill      extsort.Spill // storage of the hashes; nil before the first hash
	body       *bufio.Writer // a buffer before spill
	references []Reference
	files      int
	used       bool // true if there is something to record
}

func (g *generation) close() error {
	if g.spill == nil {
		return nil
	}
	return g.spill.Close()
}

// out returns the writer for the hash elements.
func (g *generation) out(newSpill func() (extsort.Spill, error)) (*bufio.Writer, error) {
	g.used = true
	if g.spill == nil {
		spill, err := newSpill()
		if err != nil {
			return nil, err
		}
		g.spill, g.body = spill, bufio.NewWriterSize(spill, 64<<10)
	}
	return g.body, nil
}

// content returns the hash elements.
func (g *generation) content() (io.Reader, error) {
	if g.spill == nil {
		return strings.NewReader(""), nil
	}
	if err := g.body.Flush(); err != nil {
		return nil, err
	}
	return io.NewSectionReader(g.spill, 0, 1<<62), nil
}

// in returns a path relative to the history of the generation.
func (g *generation) in(path string) string {
	if g.path == "" {
		return path
	}
	return path[len(g.path)+1:]
}

func (w *writer) enterRoot() {
	w.dirs.enter()
	w.open = append(w.open, &generation{history: w.tree.At(""), used: w.order.Always})
}

// deepest returns the generation that the last entry belongs to.
func (w *writer) deepest() *generation { return w.open[len(w.open)-1] }

// take records the result of comparing one path.
func (w *writer) take(file string, finding Finding, e *manifest.Entry, r *Record) error {
	isDir := strings.HasSuffix(file, "/")
	if w.order.Report != nil && finding != 0 && (finding != New || !isDir) {
		w.order.Report(file, finding)
	}
	if e == nil {
		return nil
	}
	for len(w.path) > 0 && !strings.HasPrefix(file, w.path[len(w.path)-1].path+"/") {
		if err := w.leave(); err != nil {
			return err
		}
	}
	if isDir {
		w.enter(strings.TrimSuffix(file, "/"), e.Mtime)
		return nil
	}
	if w.order.Select != nil && !w.order.Select(file, r != nil) {
		return nil
	}
	return w.file(e, r)
}

func (w *writer) enter(dir string, mtime int64) {
	d := openDir{dir, mtime, false}
	if h := w.tree.At(dir); h != nil {
		d.history = true
		w.open = append(w.open, &generation{path: dir, history: h})
	}
	w.path = append(w.path, d)
	w.dirs.enter()
}

func (w *writer) file(e *manifest.Entry, r *Record) error {
	g := w.deepest()
	out, err := g.out(w.order.NewSpill)
	if err != nil {
		return err
	}
	if r != nil && r.Depth != depthOf(g.path) {
		r = nil // a history above has listed the file, before there was one here
	}
	g.files++
	previous := ""
	if was, ok := w.order.Renamed[e.Path]; ok && w.tree.owner(was) == g.path {
		previous = g.in(was)
	}
	writeFile(out, g.in(e.Path), previous, e.Size, e.Mtime, w.digests(e, r))
	asked := make([][]byte, len(w.order.Hashes))
	for i, a := range w.order.Hashes {
		asked[i] = e.Digests[slices.Index(w.order.Computed, a)]
	}
	return w.dirs.file(path.Base(e.Path), asked)
}

// digests decides which hashes of a file are recorded, and with which action. It takes the
// hashes of the run. If none of them can be compared with the history, it adds one that can.
func (w *writer) digests(e *manifest.Entry, r *Record) (list []Digest) {
	var compared, equal bool
	find := func(a hash.Algorithm) []byte { return e.Digests[slices.Index(w.order.Computed, a)] }
	add := func(a hash.Algorithm) {
		d := Digest{a, find(a), ""}
		if known := r.Find(a); known != nil {
			d.Action = Failed
			if bytes.Equal(known, d.Sum) {
				d.Action, equal = Verified, true
			}
			compared = true
		}
		list = append(list, d)
	}
	if r == nil || len(r.Known) == 0 {
		r = &Record{}
	}
	for _, a := range w.order.Hashes {
		add(a)
	}
	for _, k := range r.Known {
		if !compared && slices.Contains(w.order.Computed, k.Algorithm) {
			add(k.Algorithm)
		}
	}
	failed := slices.ContainsFunc(list, func(d Digest) bool { return d.Action == Failed })
	for i := range list {
		switch d := &list[i]; {
		case d.Action != "":
		case failed:
			d.Action = Failed // the history has no hash of this kind, but another kind shows that the content differs
		case equal:
			d.Action = Verified
		default:
			d.Action = Original
		}
	}
	slices.SortFunc(list, func(a, b Digest) int { return inSchemaOrder(a.Algorithm, b.Algorithm) })
	return list
}

// leave ends the directory of the last entry.
func (w *writer) leave() error {
	d := w.path[len(w.path)-1]
	w.path = w.path[:len(w.path)-1]
	sums, err := w.dirs.leave(path.Base(d.path))
	if err != nil {
		return err
	}
	if d.history {
		g := w.deepest()
		w.open = w.open[:len(w.open)-1]
		ref, err := w.finish(g, sums)
		err = cmp.Or(err, g.close())
		if err != nil {
			return err
		}
		above := w.deepest()
		if ref != nil {
			ref.Path = above.in(ref.Path)
			above.references = append(above.references, *ref)
			above.used = true
		}
	}
	if w.order.Partial {
		return nil
	}
	g := w.deepest()
	out, err := g.out(w.order.NewSpill)
	if err != nil {
		return err
	}
	previous := ""
	if was, ok := w.order.Renamed[d.path+"/"]; ok && w.tree.owner(was) == g.path {
		previous = g.in(was)
	}
	writeDirectory(out, g.in(d.path), previous, d.mtime, sums, w.order.Hashes)
	return nil
}

func (w *writer) leaveRoot() error {
	sums, err := w.dirs.leave("")
	if err != nil {
		return err
	}
	_, err = w.finish(w.open[0], sums)
	return err
}
