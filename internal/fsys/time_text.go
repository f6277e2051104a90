package fsys

import (
	"strconv"
	"strings"
)

// AppendDecimal appends SECONDS.NANOSECONDS, with nine digits after the point. The time is the
// sum of both parts, also if SECONDS is negative.
func (t Time) AppendDecimal(dst []byte) []byte {
	dst = strconv.AppendInt(dst, t.Sec, 10)
	point := len(dst)
	dst = strconv.AppendInt(dst, 1_000_000_000+t.Nsec, 10) // a 1 and the nine digits
	dst[point] = '.'
	return dst
}

// ParseTime reads a time in exactly the spelling of AppendDecimal.
func ParseTime(text string) (t Time, ok bool) {
	sec, nsec, _ := strings.Cut(text, ".")
	var errSec, errNsec error
	t.Sec, errSec = strconv.ParseInt(sec, 10, 64)
	t.Nsec, errNsec = strconv.ParseInt(nsec, 10, 64)
	if errSec != nil || errNsec != nil || t.Nsec < 0 || t.Nsec > 999_999_999 {
		return t, false
	}
	var again [64]byte // space for any time
	return t, string(t.AppendDecimal(again[:0])) == text
}
