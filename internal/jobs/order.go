package jobs

import (
	"sync"

	"github.com/seed65876f4f/sealift/internal/fsys"
)

// ahead is the number of results that may be in work at any time, so that all workers are busy.
const ahead = 1000

// MemoryOfResults returns how many bytes the results of a command may use that wait for
// earlier ones.
func MemoryOfResults() int {
	const most = 32 << 20
	memory := fsys.Memory()
	if memory == 0 {
		return most
	}
	return int(min(max(memory/8, 8<<20), most))
}

// Order reports results in the order of their numbers, which begin with 0. Most numbers may
// have nothing to report, so one bit for each is enough.
//
// One goroutine uses Done and Skip, and is the one that reports.
type Order[R any] struct {
	limit  int         // limit of the memory of waiting, in bytes
	size   func(R) int // memory of a waiting result, in bytes
	report func(R)

	next    int64       // the first number that is not finished
	bits    []uint64    // a bit for each finished number
	waiting map[int64]R // results to report

	mu struct {
		sync.Mutex
		changed *sync.Cond
		next    int64 // a copy of next for other goroutines
		held    int   // memory of waiting, in bytes
	}
}

// NewOrder returns an Order whose waiting results use at most about limit bytes. size returns the
// memory of one.
func NewOrder[R any](limit int, size func(R) int, report func(R)) *Order[R] {
	o := &Order[R]{limit: limit, size: size, report: report, waiting: map[int64]R{}}
	o.mu.changed = sync.NewCond(&o.mu)
	return o
}

// Wait returns when work on the result of a number may begin: when the number is soon next, or when
// few results wait. The caller has begun all earlier numbers of its device. So the number that all
// others wait for is in work, or the caller of its device does not wait, and there is no deadlock.
func (o *Order[R]) Wait(number int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.mu.next+ahead < number && o.mu.held >= o.limit {
		o.mu.changed.Wait()
	}
}

// IsFull reports whether so many results wait that no work should begin whose result is not soon
// the next one.
func (o *Order[R]) IsFull() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.mu.held >= o.limit
}

// Done accepts the result of a number, and reports all results that are next.
func (o *Order[R]) Done(number int64, result R) {
	o.waiting[number] = result
	o.finish(number, o.size(result))
}

// Skip is Done for a number that has nothing to report.
func (o *Order[R]) Skip(number int64) { o.finish(number, 0) }

// finish marks a number. held is the memory of its result, in bytes.
func (o *Order[R]) finish(number int64, held int) {
	if more := int(number/64) + 2 - len(o.bits); more > 0 {
		o.bits = append(o.bits, make([]uint64, more)...)
	}
	o.bits[number/64] |= 1 << (number % 64)
	for ; o.bits[o.next/64]&(1<<(o.next%64)) != 0; o.next++ {
		if result, waited := o.waiting[o.next]; waited {
			delete(o.waiting, o.next)
			held -= o.size(result)
			o.report(result)
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.mu.next = o.next
	o.mu.held += held
	o.mu.changed.Broadcast()
}
