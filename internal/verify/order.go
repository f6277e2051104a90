package verify

import "sync"

// maxHeld is how many results may wait in memory for those of earlier trees.
const maxHeld = 1 << 16

// order sorts results by their numbers. For most lines there is nothing to report, so one
// bit for each is enough.
//
// One goroutine uses all methods except wait.
type order struct {
	trees   []*tree         // not completely reported, in order
	next    int64           // the first number that is not finished
	bits    []uint64        // finished, by number
	waiting map[int64]*part // results to report that wait for earlier ones

	mu struct {
		sync.Mutex
		changed *sync.Cond
		device  uint64 // of the tree that next belongs to
		held    int    // len(waiting)
	}
}

// newOrder returns an order of so many numbers, which belong to the trees.
func newOrder(numbers int64, trees []*tree) *order {
	o := &order{trees: trees, bits: make([]uint64, numbers/64+1), waiting: map[int64]*part{}}
	o.mu.changed = sync.NewCond(&o.mu)
	o.publish()
	return o
}

// wait returns when a device may continue: when its results are reported next, or when few
// results wait. The device whose results are next never waits, so there is no deadlock.
func (o *order) wait(device uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.mu.device != device && o.mu.held >= maxHeld {
		o.mu.changed.Wait()
	}
}

// publish updates what wait reads.
func (o *order) publish() {
	for len(o.trees) > 1 && o.next >= o.trees[1].first {
		o.trees = o.trees[1:]
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.mu.device, o.mu.held = o.trees[0].device(), len(o.waiting)
	o.mu.changed.Broadcast()
}

// done accepts a finished number, and the result to report or nil. It calls report for all
// results that are next, in order.
func (o *order) done(number int64, result *part, report func(*part)) {
	defer o.publish()
	if number != o.next {
		o.bits[number/64] |= 1 << (number % 64)
		if result != nil {
			o.waiting[number] = result
		}
		return
	}
	for {
		if result != nil {
			report(result)
			delete(o.waiting, o.next)
		}
		o.next++
		if o.bits[o.next/64]&(1<<(o.next%64)) == 0 {
			return
		}
		result = o.waiting[o.next]
	}
}
