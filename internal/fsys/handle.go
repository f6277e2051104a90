package fsys

import (
	"errors"
	"sync"
)

// ErrMoved means that a directory is no longer the earlier one: another process exchanged it
// while it was not open.
var ErrMoved = errors.New("the directory was exchanged while in use")

// Handles keeps directories of all trees of a run open, up to a limit, so that neither a deep
// nor a wide tree uses up the descriptors. A directory that is not in use may be closed at any time. It is
// then reopened name by name from its nearest open ancestor, without following a link, and
// must have the same identity. A step out of a deep tree does not need that complete way:
// when a directory is closed for good, its parent stays open.
type Handles struct {
	limit int // number of open directories, in use or idle; exceeded only by those in use
	mu    struct {
		sync.Mutex
		open int
		idle Handle // head of the ring of idle handles, most recently used first
	}
}

// NewHandles returns Handles that keep about limit directories open.
func NewHandles(limit int) *Handles {
	s := &Handles{limit: limit}
	s.mu.idle.prev, s.mu.idle.next = &s.mu.idle, &s.mu.idle
	return s
}

// Handle is one directory of a tree, open only while it is in use.
type Handle struct {
	set        *Handles
	parent     *Handle // the directory above; nil for a root, which stays open
	name       string
	id         ID
	opening    sync.Mutex // held while reopening
	dir        *Dir       // nil while closed; guarded by set.mu, as are the fields below
	users      int
	closed     bool // true after Close
	prev, next *Handle
}

// Root returns a handle of an open directory, and takes over the directory. It stays open
// until Close.
func (s *Handles) Root(d *Dir) *Handle {
	return &Handle{set: s, dir: d}
}

// Child returns a handle of d, which was opened as name in h, and takes over d. The handle is
// in use once: the caller must call Release.
func (h *Handle) Child(name string, d *Dir, id ID) *Handle {
	c := h.Unopened(name, id)
	c.opened(d)
	return c
}

// Unopened returns a handle of the directory name in h. The first Acquire opens the directory.
func (h *Handle) Unopened(name string, id ID) *Handle {
	return &Handle{set: h.set, parent: h, name: name, id: id}
}

// Acquire returns the open directory for use until Release.
func (h *Handle) Acquire() (*Dir, error) {
	if d := h.use(); d != nil {
		return d, nil
	}
	h.opening.Lock()
	defer h.opening.Unlock()
	if d := h.use(); d != nil { // another goroutine has just opened it
		return d, nil
	}
	up, err := h.parent.Acquire()
	if err != nil {
		return nil, err
	}
	d, err := up.OpenDir(h.name)
	h.parent.Release()
	if err != nil {
		return nil, err
	}
	if now, err := d.Stat(); err != nil || now.ID != h.id {
		d.Close()
		if err == nil {
			err = ErrMoved
		}
		return nil, err
	}
	h.opened(d)
	return d, nil
}

// opened takes over d as the directory of h, which is then in use once. The caller holds
// h.opening, unless no other goroutine knows h.
func (h *Handle) opened(d *Dir) {
	s := h.set
	s.mu.Lock()
	h.dir, h.users = d, 1
	s.mu.open++
	victims := s.evict()
	s.mu.Unlock()
	closeAll(victims)
}

// Release ends one use begun by Acquire or Child.
func (h *Handle) Release() {
	s := h.set
	s.mu.Lock()
	h.users--
	var victims []*Dir
	switch {
	case h.users > 0:
	case h.parent == nil:
		if h.closed {
			victims, h.dir = append(victims, h.dir), nil
		}
	default:
		h.next, h.prev = s.mu.idle.next, &s.mu.idle
		h.prev.next, h.next.prev = h, h
		if h.closed {
			victims = append(victims, s.shut(h))
		} else {
			victims = s.evict()
		}
	}
	s.mu.Unlock()
	closeAll(victims)
}

// Close declares that the directory is not needed any more. Its descriptor is closed at once,
// or by the last Release.
func (h *Handle) Close() {
	h.openParent()
	s := h.set
	s.mu.Lock()
	h.closed = true
	var victim *Dir
	switch {
	case h.dir == nil || h.users > 0:
	case h.parent == nil:
		victim, h.dir = h.dir, nil
	default:
		victim = s.shut(h)
	}
	s.mu.Unlock()
	if victim != nil {
		victim.Close()
	}
}

// openParent opens the parent of h through "..", if h is open and the parent is not. A walk
// out of h needs the parent next. The opened directory must be the parent. If that fails,
// Acquire reopens it from an ancestor, and reports the error.
func (h *Handle) openParent() {
	p := h.parent
	if p == nil || p.parent == nil || !p.opening.TryLock() {
		return
	}
	defer p.opening.Unlock()
	h.set.mu.Lock()
	needed := p.dir == nil && !p.closed
	h.set.mu.Unlock()
	if !needed {
		return
	}
	d := h.use()
	if d == nil {
		return
	}
	defer h.Release()
	up, err := d.OpenDir("..")
	if err != nil {
		return
	}
	if now, err := up.Stat(); err != nil || now.ID != p.id {
		up.Close()
		return
	}
	p.opened(up)
	p.Release()
}

func (h *Handle) use() *Dir {
	s := h.set
	s.mu.Lock()
	defer s.mu.Unlock()
	if h.dir == nil {
		return nil
	}
	if h.users == 0 && h.parent != nil {
		h.prev.next, h.next.prev = h.next, h.prev
	}
	h.users++
	return h.dir
}

// evict takes the least recently used idle directories out, down to the limit.
func (s *Handles) evict() (victims []*Dir) {
	for s.mu.open > s.limit && s.mu.idle.prev != &s.mu.idle {
		victims = append(victims, s.shut(s.mu.idle.prev))
	}
	return victims
}

// shut takes the idle handle h out of the ring and returns its directory.
func (s *Handles) shut(h *Handle) *Dir {
	h.prev.next, h.next.prev = h.next, h.prev
	d := h.dir
	h.dir = nil
	s.mu.open--
	return d
}

func closeAll(dirs []*Dir) {
	for _, d := range dirs {
		d.Close()
	}
}
