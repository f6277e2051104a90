package verify

import "sync"

// maxHeld is how many results may wait in memory for those of earlier trees.
const maxHeld = 1 << 16

// order brings what is done in any order into that of its numbers. Of most
// lines nothing is to be said: they are remembered by a bit.
//
// All methods but wait belong to one goroutine.
type order struct {
	trees []*tree         // those that are not reported completely, in order
	next  int64           // the first number that is not done
	bits  []uint64        // done, by number
	told  map[int64]*part // done before its turn, and to be told

	mu struct {
		sync.Mutex
		changed *sync.Cond
		device  uint64 // of the tree that next belongs to
		held    int    // len(told)
	}
}

// newOrder returns an order of so many numbers, which belong to the trees.
func newOrder(numbers int64, trees []*tree) *order {
	o := &order{trees: trees, bits: make([]uint64, numbers/64+1), told: map[int64]*part{}}
	o.mu.changed = sync.NewCond(&o.mu)
	o.publish()
	return o
}

// wait returns when a device may be read on: when it is its turn, or when few results
// wait for their turn. The device whose turn it is never waits, so no device waits forever.
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
	o.mu.device, o.mu.held = o.trees[0].device(), len(o.told)
	o.mu.changed.Broadcast()
}

// done takes a number that is done, and what is to be told of it or nil. tell is
// called for whatever is next, in order.
func (o *order) done(number int64, told *part, tell func(*part)) {
	defer o.publish()
	if number != o.next {
		o.bits[number/64] |= 1 << (number % 64)
		if told != nil {
			o.told[number] = told
		}
		return
	}
	for {
		if told != nil {
			tell(told)
			delete(o.told, o.next)
		}
		o.next++
		if o.bits[o.next/64]&(1<<(o.next%64)) == 0 {
			return
		}
		told = o.told[o.next]
	}
}
