package usage

import (
	"cmp"
	"container/heap"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/seed65876f4f/sealift/internal/fsys"
)

// top keeps the largest entries of a tree.
type top struct {
	size  int
	least atomic.Uint64 // what is smaller is not among them; 0 while there is room
	mu    sync.Mutex
	heap  candidates
}

// candidate is an entry that may be among the largest.
type candidate struct {
	dir   *node
	name  string
	kind  fsys.Kind
	bytes uint64
}

func newTop(size int) *top {
	return &top{size: size}
}

// offer keeps c if it is among the largest so far. Its name is cloned then.
func (t *top) offer(c candidate) {
	if c.bytes < t.least.Load() {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.heap) == t.size {
		if compareCandidates(c, t.heap[0]) >= 0 {
			return
		}
		heap.Pop(&t.heap)
	}
	c.name = strings.Clone(c.name)
	heap.Push(&t.heap, c)
	if len(t.heap) == t.size {
		t.least.Store(t.heap[0].bytes)
	}
}

// tellTop tells the path and its largest entries.
func (t *tree) tellTop() {
	t.run.tell(Entry{Path: t.path, Kind: fsys.Directory, Bytes: t.root.bytes.Load()})
	t.root.each(func(n *node) {
		t.top.offer(candidate{n.parent, n.name, fsys.Directory, n.bytes.Load()})
	})
	slices.SortFunc(t.top.heap, compareCandidates)
	for _, c := range t.top.heap {
		t.run.tell(Entry{Path: t.join(c.path()), Kind: c.kind, Bytes: c.bytes, Depth: c.dir.depth + 1})
	}
}

// each calls f for the directories below n that are told.
func (n *node) each(f func(*node)) {
	for _, c := range n.children {
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

// compareCandidates puts the larger first, and of equal ones the first path.
func compareCandidates(a, b candidate) int {
	if c := cmp.Compare(b.bytes, a.bytes); c != 0 {
		return c
	}
	return comparePaths(a, b)
}

// comparePaths compares paths as strings, without making them: often a whole tree is
// of equal size.
func comparePaths(a, b candidate) int {
	dirA, dirB := a.dir, b.dir
	nameA, nameB := a.name, b.name
	var belowA, belowB bool // the path goes on behind the name
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

// candidates is a heap with the last in their order on top.
type candidates []candidate

func (h candidates) Len() int           { return len(h) }
func (h candidates) Less(i, j int) bool { return compareCandidates(h[i], h[j]) > 0 }
func (h candidates) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

// Push implements heap.Interface.
func (h *candidates) Push(x any) { *h = append(*h, x.(candidate)) }

// Pop implements heap.Interface.
func (h *candidates) Pop() any {
	last := len(*h) - 1
	c := (*h)[last]
	*h = (*h)[:last]
	return c
}
