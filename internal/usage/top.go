package usage

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/seed65876f4f/sealift/internal/fsys"
)

// top keeps the largest entries of a tree.
type top struct {
	size  int
	least atomic.Uint64 // the least size of the largest entries; 0 until there are enough entries
	mu    struct {
		sync.Mutex
		list []candidate // the first size elements are sorted, if there are that many
	}
}

// candidate is an entry that may be among the largest.
type candidate struct {
	file
	dir *node
}

// offer adds c if it is among the largest entries so far, and clones its name.
func (t *top) offer(c candidate) {
	if c.Size < t.least.Load() {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.mu.list) >= t.size && compareCandidates(c, t.mu.list[t.size-1]) >= 0 {
		return
	}
	c.name = strings.Clone(c.name)
	t.mu.list = append(t.mu.list, c)
	if n := len(t.mu.list); n == t.size || n == 2*t.size {
		t.cut()
	}
}

// offer adds c if the threshold lets it through and it is among the largest entries.
func (t *tree) offer(c candidate) {
	if t.run.opts.Passes(c.Size) {
		t.top.offer(c)
	}
}

// cut sorts the list and removes all but the largest entries. The caller holds the lock.
func (t *top) cut() {
	slices.SortFunc(t.mu.list, compareCandidates)
	if len(t.mu.list) >= t.size {
		t.mu.list = t.mu.list[:t.size]
		t.least.Store(t.mu.list[t.size-1].Size)
	}
}

// largest returns the largest entries, the largest first.
func (t *top) largest() []candidate {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cut()
	return t.mu.list
}

// emitTop emits the path and its largest entries.
func (t *tree) emitTop() {
	t.run.emit(Entry{Path: t.path, Kind: fsys.Directory, Amount: t.root.sum.amount()})
	t.root.each(func(n *node) {
		t.offer(candidate{file{name: n.name, kind: fsys.Directory, Amount: n.sum.amount()}, n.parent})
	})
	for _, c := range t.top.largest() {
		t.run.emit(Entry{Path: t.join(c.path()), Kind: c.kind, Amount: c.Amount, Depth: c.dir.depth + 1})
	}
}

// each calls f for the directories below n that are listed.
func (n *node) each(f func(*node)) {
	for _, c := range n.mu.children {
		f(c)
		c.each(f)
	}
}

// path returns the path below the root.
func (c candidate) path() string {
	names := []string{c.name}
	for n := c.dir; n.parent != nil; n = n.parent {
		names = append(names, n.name)
	}
	slices.Reverse(names)
	return strings.Join(names, "/")
}

// compareCandidates sorts larger entries first, and entries of equal size by path.
func compareCandidates(a, b candidate) int {
	if c := cmp.Compare(b.Size, a.Size); c != 0 {
		return c
	}
	return comparePaths(a, b)
}

// comparePaths compares paths as strings, and does not allocate them: often all entries of a
// tree have the same size.
func comparePaths(a, b candidate) int {
	dirA, dirB := a.dir, b.dir
	nameA, nameB := a.name, b.name
	var belowA, belowB bool // the path continues after the name
	for dirA != dirB {
		if dirA.depth >= dirB.depth {
			dirA, nameA, belowA = dirA.parent, dirA.name, true
		} else {
			dirB, nameB, belowB = dirB.parent, dirB.name, true
		}
	}
	if belowA && strings.HasPrefix(nameB, nameA) {
		nameA += "/"
	}
	if belowB && strings.HasPrefix(nameA, nameB) {
		nameB += "/"
	}
	return strings.Compare(nameA, nameB)
}
