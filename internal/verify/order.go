package verify

// order brings what is done in any order into that of its numbers. Of most
// lines nothing is to be said: they are remembered by a bit.
type order struct {
	next int64           // the first number that is not done
	bits []uint64        // done, by number
	told map[int64]*part // done before its turn, and to be told
}

func newOrder(numbers int64) *order {
	return &order{bits: make([]uint64, numbers/64+1), told: map[int64]*part{}}
}

// done takes a number that is done, and what is to be told of it or nil. tell is
// called for whatever is next, in order.
func (o *order) done(number int64, told *part, tell func(*part)) {
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
