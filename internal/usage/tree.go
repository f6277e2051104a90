package usage

import (
	"cmp"
	"slices"
	"strings"
	"sync"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/walk"
)

// tree has the results for one path of the user. It is the visitor of that path's walk.
type tree struct {
	run    *run
	path   string
	device uint64
	most   int  // depth of listed entries; -1: all
	exact  bool // record the places of entries: lines, and files with several names, are in the order of du
	root   *node
	rest   sum  // sum of directories that have no line, with Options.Separate
	top    *top // nil if everything is listed
}

// node is a directory. A directory below the listed depth is kept only during its walk, or if
// the places of the names in it are recorded.
type node struct {
	parent *node
	name   string
	place  walk.Place
	depth  int
	mount  *walk.Dir // the last mount point on the way to the directory, if any
	sum    sum       // sum of its entries and itself; without Options.Separate, also of unlisted directories below

	entries int  // number of entries in the directory
	byInode bool // true if du would sort a large directory here by inode

	mu struct {
		sync.Mutex
		children []*node // directories in this one that have a line
		files    []file  // files in this directory that have a line
	}
}

// file is an entry that may have a line. Only a candidate can be a directory.
type file struct {
	name  string
	kind  fsys.Kind
	place walk.Place
	Amount
}

func newTree(r *run, p path) *tree {
	t := &tree{run: r, path: p.name, device: p.info.ID.Dev, most: r.opts.MaxDepth, exact: r.opts.MaxDepth != 0 || r.opts.Separate}
	if r.opts.Top > 0 {
		t.top = &top{size: r.opts.Top}
	}
	return t
}

// unread makes the root a directory without entries, because they cannot be read.
func (t *tree) unread(info fsys.Info) {
	t.root = &node{}
	t.root.sum.set(t.run.amount(info))
}

// listed reports whether an entry at that depth has a separate line.
func (t *tree) listed(depth int) bool { return t.most < 0 || depth <= t.most }

// Enter implements walk.Visitor.
func (t *tree) Enter(d *walk.Dir) bool {
	mount := mountAbove(d)
	if t.run.opts.OneFileSystem && d.Info.ID.Dev != t.device || insideItself(d, mount) || !t.run.once(d.Info.ID) {
		return false
	}
	n := &node{mount: mount}
	n.sum.set(t.run.amount(d.Info))
	if d.Parent == nil {
		t.root, t.device = n, d.Info.ID.Dev
	} else {
		t.adopt(d.Parent.State.(*node), n, d.Name, d.Place)
	}
	if t.exact {
		n.byInode = t.run.visitsByInode(d)
	}
	d.State = n
	return true
}

// mountAbove returns the last mount point on the way to d, or nil.
func mountAbove(d *walk.Dir) *walk.Dir {
	switch {
	case d.Parent == nil:
		return nil
	case d.Info.ID.Ino != d.Place.Ino || d.Info.ID.Dev != d.Parent.Info.ID.Dev:
		return d
	}
	return d.Parent.State.(*node).mount
}

// insideItself reports whether d, which was reached through a mount point, is above it
// as well.
func insideItself(d, mount *walk.Dir) bool {
	if mount == nil {
		return false
	}
	for up := mount.Parent; up != nil; up = up.Parent {
		if up.Info.ID == d.Info.ID {
			return true
		}
	}
	return false
}

// adopt adds n, the node of the directory name, to its parent.
func (t *tree) adopt(parent, n *node, name string, place walk.Place) {
	n.parent, n.depth = parent, parent.depth+1
	if !t.exact {
		return
	}
	n.name, n.place = strings.Clone(name), place
	if t.listed(n.depth) {
		parent.mu.Lock()
		parent.mu.children = append(parent.mu.children, n)
		parent.mu.Unlock()
	}
}

// Leave implements walk.Visitor.
func (t *tree) Leave(d *walk.Dir) {
	n, entered := d.State.(*node)
	if !entered {
		return
	}
	n.entries = d.Entries
	if n.parent != nil && !t.listed(n.depth) {
		t.above(n.parent).add(n.sum.amount())
	}
}

// above returns the sum that a directory in n without a line is added to.
func (t *tree) above(n *node) *sum {
	if t.run.opts.Separate {
		return &t.rest
	}
	return &n.sum
}

// Entry implements walk.Visitor.
func (t *tree) Entry(*walk.Dir, string, fsys.Kind) {}

// Found counts an entry that is not a directory.
func (t *tree) Found(d *walk.Dir, name string, place walk.Place, info fsys.Info) {
	if t.run.opts.OneFileSystem && info.ID.Dev != t.device {
		return
	}
	n := d.State.(*node)
	f := file{name, info.Kind, place, t.run.amount(info)}
	switch {
	case !t.run.countsOnce(info):
		n.sum.add(f.Amount)
		t.line(n, f)
	case t.exact:
		t.run.links.meet(info.ID, link{file: f, dir: n})
	case t.run.links.first(info.ID):
		n.sum.add(f.Amount)
	}
}

// line records the file f in n, if it has a line.
func (t *tree) line(n *node, f file) {
	switch {
	case !t.listed(n.depth + 1):
	case t.top != nil:
		t.offer(candidate{f, n})
	case t.run.opts.Files:
		n.mu.Lock()
		n.mu.files = append(n.mu.files, f)
		n.mu.Unlock()
	}
}

// Failed implements walk.Visitor.
func (t *tree) Failed(d *walk.Dir, name string, err error) {
	t.run.fail(t.join(d.Join(name)), err)
}

func (t *tree) join(rel string) string {
	switch {
	case rel == "":
		return t.path
	case strings.HasSuffix(t.path, "/"):
		return t.path + rel
	}
	return t.path + "/" + rel
}

// emit emits the entries of the tree, and frees its memory.
func (t *tree) emit() {
	t.settle()
	t.run.summary.Amount = t.run.summary.plus(t.total(t.root)).plus(t.rest.amount())
	if t.top != nil {
		t.emitTop()
		return
	}
	t.emitNode(t.root, []byte(t.path))
}

// settle counts each file with several names under the name that du meets first.
func (t *tree) settle() {
	t.run.links.settle(func(l *link) {
		owner, to := l.dir, &l.dir.sum
		for !t.listed(owner.depth) {
			owner = owner.parent
			to = t.above(owner)
		}
		to.add(l.Amount)
		t.line(l.dir, l.file)
	})
}

// total adds the listed entries below n to n, unless they are separate, and returns the Amount of
// everything.
func (t *tree) total(n *node) Amount {
	all := n.sum.amount()
	for _, c := range n.mu.children {
		all = all.plus(t.total(c))
	}
	if !t.run.opts.Separate {
		n.sum.set(all)
	}
	return all
}

// emitNode emits the entries of n, and then n. path is the path of n.
func (t *tree) emitNode(n *node, path []byte) {
	below := path
	if len(path) > 0 && path[len(path)-1] != '/' {
		below = append(path, '/')
	}
	slices.SortFunc(n.mu.children, func(a, b *node) int { return n.compare(a.place, b.place) })
	slices.SortFunc(n.mu.files, func(a, b file) int { return n.compare(a.place, b.place) })
	files := n.mu.files
	for _, c := range n.mu.children {
		for len(files) > 0 && n.compare(files[0].place, c.place) < 0 {
			files = t.emitFile(n, files, below)
		}
		t.emitNode(c, append(below, c.name...))
	}
	for len(files) > 0 {
		files = t.emitFile(n, files, below)
	}
	n.mu.children, n.mu.files = nil, nil
	t.run.emit(Entry{Path: string(path), Kind: fsys.Directory, Amount: n.sum.amount(), Depth: n.depth})
}

// emitFile emits the first of the files and returns the rest.
func (t *tree) emitFile(n *node, files []file, below []byte) []file {
	f := &files[0]
	t.run.emit(Entry{Path: string(append(below, f.name...)), Kind: f.kind, Amount: f.Amount, Depth: n.depth + 1})
	return files[1:]
}

// GNU du reads this many entries of a directory at a time. It visits them by inode number if
// there are more than the second number (gnulib's fts.c).
const (
	readAtOnce = 100_000
	fewEntries = 10_000
)

// compare returns a negative number if du visits the entry at a before that at b.
func (n *node) compare(a, b walk.Place) int {
	batch := a.At / readAtOnce
	if n.byInode && batch == b.At/readAtOnce && min(n.entries-batch*readAtOnce, readAtOnce) > fewEntries {
		if c := cmp.Compare(a.Ino, b.Ino); c != 0 {
			return c
		}
	}
	return cmp.Compare(a.At, b.At)
}

// visitsByInode reports whether du visits large directories on the device of d by
// inode.
func (r *run) visitsByInode(d *walk.Dir) bool {
	if known, ok := r.byInode.Load(d.Info.ID.Dev); ok {
		return known.(bool)
	}
	dir, err := d.Acquire()
	if err != nil {
		return true
	}
	defer d.Release()
	byInode := dir.SeeksByInode()
	r.byInode.Store(d.Info.ID.Dev, byInode)
	return byInode
}
