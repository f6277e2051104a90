package usage

import (
	"sync"

	"github.com/seed65876f4f/sealift/internal/fsys"
)

// links contains the files with several names that the run has met. Each file counts once.
type links struct {
	mu struct {
		sync.Mutex
		files map[fsys.ID]*link // names by identity; countsAlready for a file that counts under an earlier name
	}
}

// countsAlready marks a file one of whose names was counted.
var countsAlready = new(link)

// link is one name of a file with several names.
type link struct {
	file
	dir  *node
	next *link // another name of the same file
}

// first reports whether the file has not been counted, and marks it as counted.
func (l *links) first(id fsys.ID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.files[id] != nil {
		return false
	}
	l.mu.files[id] = countsAlready
	return true
}

// meet records a name, unless the file was counted.
func (l *links) meet(id fsys.ID, name link) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if name.next = l.mu.files[id]; name.next != countsAlready {
		l.mu.files[id] = &name
	}
}

// settle chooses, for each recorded file, the name that du meets first, calls f with it, and
// marks the file as counted.
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

// compare returns a negative number if du meets l before m.
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
