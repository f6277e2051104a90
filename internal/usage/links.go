package usage

import (
	"sync"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/walk"
)

// links are the files that may have several names, of which one counts.
type links struct {
	mu struct {
		sync.Mutex
		files map[fsys.ID]*link // that were met; countsAlready: that count
	}
}

// countsAlready marks a file with a name that counts already.
var countsAlready = new(link)

// link is one name of a file with several names.
type link struct {
	next  *link // another name of it
	dir   *node
	name  string
	place walk.Place
	kind  fsys.Kind
	bytes uint64
}

// first reports whether the file does not count yet. It does from then on.
func (l *links) first(id fsys.ID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.files[id] != nil {
		return false
	}
	l.put(id, countsAlready)
	return true
}

// meet notes a name, unless the file counts already.
func (l *links) meet(id fsys.ID, name link) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if name.next = l.mu.files[id]; name.next != countsAlready {
		l.put(id, &name)
	}
}

// put is called with the lock held.
func (l *links) put(id fsys.ID, name *link) {
	if l.mu.files == nil {
		l.mu.files = map[fsys.ID]*link{}
	}
	l.mu.files[id] = name
}

// settle calls f with the name that du meets first, of each file that was noted. The
// files count from then on.
func (l *links) settle(f func(*link)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, name := range l.mu.files {
		if name == countsAlready {
			continue
		}
		best := name
		for name = name.next; name != nil; name = name.next {
			if name.compare(best) < 0 {
				best = name
			}
		}
		f(best)
		l.mu.files[id] = countsAlready
	}
}

// compare says which of two names du meets first.
func (l *link) compare(m *link) int {
	a, b := l.dir, m.dir
	inA, inB := l.place, m.place
	for a.depth > b.depth {
		a, inA = a.parent, a.place
	}
	for b.depth > a.depth {
		b, inB = b.parent, b.place
	}
	for a != b {
		a, inA, b, inB = a.parent, a.place, b.parent, b.place
	}
	return a.compare(inA, inB)
}
