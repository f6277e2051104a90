package verify

import (
	"sync"

	"github.com/seed65876f4f/sealift/internal/fsys"
)

const (
	// partSize is the memory of a waiting result without its path, in bytes.
	partSize = 320

	// ahead is the number of results that may be in work at any time, so that all workers are busy.
	ahead = 1000
)

// heldLimit returns how much memory the results may use that wait for earlier ones, in bytes.
func heldLimit() int {
	const most = 128 << 20
	memory := fsys.Memory()
	if memory == 0 {
		return most
	}
	return int(min(max(memory/8, 8<<20), most))
}

// order sorts results by their numbers. For most lines there is nothing to report, so one
// bit for each is enough.
//
// One goroutine uses all methods except wait and isFull.
type order struct {
	next    int64           // the first number that is not finished
	bits    []uint64        // a bit for each finished number
	waiting map[int64]*part // results to report that wait for earlier ones
	limit   int             // limit of the memory of waiting, in bytes

	mu struct {
		sync.Mutex
		changed *sync.Cond
		next    int64 // a copy of next for other goroutines
		held    int   // memory of waiting, in bytes
	}
}

// newOrder returns an order of so many numbers, with a limit of the memory of waiting results.
func newOrder(numbers int64, limit int) *order {
	o := &order{limit: limit, bits: make([]uint64, numbers/64+1), waiting: map[int64]*part{}}
	o.mu.changed = sync.NewCond(&o.mu)
	return o
}

// wait returns when work on the result of a number may begin: when the number is soon next, or when
// few results wait. The caller has begun all earlier numbers of its device. So the number that all
// others wait for is in work, or the caller of its device does not wait, and there is no deadlock.
func (o *order) wait(number int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.mu.next+ahead < number && o.mu.held >= o.limit {
		o.mu.changed.Wait()
	}
}

// isFull reports whether so many results wait that no work should begin whose result is not soon
// the next one.
func (o *order) isFull() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.mu.held >= o.limit
}

// publish updates what wait reads. held is the change of the memory of waiting results, in bytes.
func (o *order) publish(held int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.mu.next = o.next
	o.mu.held += held
	o.mu.changed.Broadcast()
}

// sizeOf returns the memory of a waiting result, in bytes.
func sizeOf(p *part) int { return partSize + len(p.path) + len(p.literal) }

// done accepts a finished number, and the result to report or nil. It calls report for all
// results that are next, in order.
func (o *order) done(number int64, result *part, report func(*part)) {
	held := 0
	defer func() { o.publish(held) }()
	if number != o.next {
		o.bits[number/64] |= 1 << (number % 64)
		if result != nil {
			o.waiting[number] = result
			held += sizeOf(result)
		}
		return
	}
	for {
		if result != nil {
			report(result)
		}
		if waited := o.waiting[o.next]; waited != nil {
			delete(o.waiting, o.next)
			held -= sizeOf(waited)
		}
		o.next++
		if o.bits[o.next/64]&(1<<(o.next%64)) == 0 {
			return
		}
		result = o.waiting[o.next]
	}
}
