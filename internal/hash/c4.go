package hash

import (
	"bytes"
	"math/big"
	"strings"
)

// A C4 ID (SMPTE ST 2114) is a SHA-512 digest as a number in base 58: "c4" and 88
// digits, the highest first.
const (
	c4Prefix = "c4"
	c4Digits = 88
	c4Bytes  = 64

	base58    = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
	bigDigits = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUV" // the same for math/big
)

// appendC4 appends the C4 ID of a SHA-512 digest.
func appendC4(dst, digest []byte) []byte {
	digits := new(big.Int).SetBytes(digest).Text(len(base58))
	dst = append(dst, c4Prefix...)
	for range c4Digits - len(digits) {
		dst = append(dst, base58[0])
	}
	for _, c := range []byte(digits) {
		dst = append(dst, base58[strings.IndexByte(bigDigits, c)])
	}
	return dst
}

// decodeC4 appends the SHA-512 digest of a C4 ID. ok is false for any other text, including
// numbers of more than 512 bits.
func decodeC4(dst, text []byte) (_ []byte, ok bool) {
	digits, found := bytes.CutPrefix(text, []byte(c4Prefix))
	if !found || len(digits) != c4Digits {
		return dst, false
	}
	var converted [c4Digits]byte
	for i, c := range digits {
		digit := strings.IndexByte(base58, c)
		if digit < 0 {
			return dst, false
		}
		converted[i] = bigDigits[digit]
	}
	number, ok := new(big.Int).SetString(string(converted[:]), len(base58))
	if !ok || number.BitLen() > 8*c4Bytes {
		return dst, false
	}
	return append(dst, number.FillBytes(make([]byte, c4Bytes))...), true
}
