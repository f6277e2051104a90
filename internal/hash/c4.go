package hash

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"strings"
)

// A C4 ID (SMPTE ST 2114) is a SHA-512 digest as a number in base 58: "c4" and 88
// digits, the highest first.
const (
	c4Prefix = "c4"
	c4Digits = 88

	base58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"

	// Ten digits are split off at a time: 58^10 is the highest power below 2^64.
	c4Group      = 58 * 58 * 58 * 58 * 58 * 58 * 58 * 58 * 58 * 58
	c4GroupCount = 10
)

// appendC4 appends the C4 ID of a SHA-512 digest.
func appendC4(dst, digest []byte) []byte {
	var number [8]uint64 // highest first
	for i := range number {
		number[i] = binary.BigEndian.Uint64(digest[8*i:])
	}
	dst = append(dst, c4Prefix...)
	start := len(dst)
	dst = append(dst, make([]byte, c4Digits)...)
	for end := len(dst); end > start; {
		var rest uint64
		for i := range number {
			number[i], rest = bits.Div64(rest, number[i], c4Group)
		}
		for range min(c4GroupCount, end-start) {
			end--
			dst[end] = base58[rest%58]
			rest /= 58
		}
	}
	return dst
}

// decodeC4 appends the SHA-512 digest of a C4 ID; not ok for anything else, a number
// of more than 512 bits included.
func decodeC4(dst, text []byte) (_ []byte, ok bool) {
	digits, found := bytes.CutPrefix(text, []byte(c4Prefix))
	if !found || len(digits) != c4Digits {
		return dst, false
	}
	var number [8]uint64 // highest first
	for _, c := range digits {
		digit := strings.IndexByte(base58, c)
		if digit < 0 {
			return dst, false
		}
		carry := uint64(digit)
		for i := len(number) - 1; i >= 0; i-- {
			high, low := bits.Mul64(number[i], 58)
			low, over := bits.Add64(low, carry, 0)
			number[i], carry = low, high+over
		}
		if carry != 0 {
			return dst, false
		}
	}
	for _, n := range number {
		dst = binary.BigEndian.AppendUint64(dst, n)
	}
	return dst, true
}
