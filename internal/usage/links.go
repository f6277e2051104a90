package usage

import (
	"sync"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/walk"
)

// links are the files that may have several names, of which one counts. They are
// spread over shards, so that goroutines seldom meet at one.
type links [64]shard

type shard struct {
	mu    sync.Mutex
	files map[fsys.ID]*link // that were met; countsAlready: that count
}

// countsAlready stands for a file of which a name counts.
var countsAlready = new(link)

// link is one name of such a file.
type link struct {
	next  *link // another name of it
	dir   *node
	name  string
	place walk.Place
	kind  fsys.Kind
	bytes uint64
}

func (l *links) shard(id fsys.ID) *shard { return &l[(id.Ino^id.Ino>>6^id.Dev)%uint64(len(l))] }

// first reports whether the file does not count yet. It does from then on.
func (l *links) first(id fsys.ID) bool {
	s := l.shard(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.files[id] != nil {
		return false
	}
	s.put(id, countsAlready)
	return true
}

// meet notes a name, unless the file counts already.
func (l *links) meet(id fsys.ID, name link) {
	s := l.shard(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	if name.next = s.files[id]; name.next != countsAlready {
		s.put(id, &name)
	}
}

func (s *shard) put(id fsys.ID, name *link) {
	if s.files == nil {
		s.files = map[fsys.ID]*link{}
	}
	s.files[id] = name
}

// settle calls f with the name that du meets first, of each file that was noted. The
// files count from then on.
func (l *links) settle(f func(*link)) {
	for i := range l {
		files := l[i].files
		for id, name := range files {
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
			files[id] = countsAlready
		}
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
