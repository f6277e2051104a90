package cli

import (
	"fmt"
	"math/big"
	"strconv"
	"strings"
)

// longestSize bounds the text of a size, in bytes: far more digits than an
// int64 has, and few enough that arithmetic on them costs nothing.
const longestSize = 40

// parseSize reads a number of bytes. "128K", "1M" and "1MiB" are powers of
// 1024, "80MB" and "1kB" powers of 1000; the number may have a fraction
// ("1.5G"), and what is left of a byte is dropped. The prefix may be written
// small. Errors quote the text.
func parseSize(s string) (int64, error) {
	digits := strings.TrimLeft(s, "0123456789.")
	number, unit := s[:len(s)-len(digits)], digits
	factor, ok := unitFactor(unit)
	if !ok || len(s) > longestSize || !isDecimal(number) {
		return 0, fmt.Errorf("%q is not a size; write it as 4096, 128K, 1.5GiB or 80MB", s)
	}
	if factor == 1 && strings.Contains(number, ".") {
		return 0, fmt.Errorf("%q is not a whole number of bytes", s)
	}
	exact, _ := new(big.Rat).SetString(number) // isDecimal leaves nothing to fail
	exact.Mul(exact, new(big.Rat).SetInt64(factor))
	bytes := new(big.Int).Quo(exact.Num(), exact.Denom())
	if !bytes.IsInt64() {
		return 0, fmt.Errorf("%q is more than 64 bits can count", s)
	}
	return bytes.Int64(), nil
}

// isDecimal accepts digits with at most one point between them, from a string
// of digits and points.
func isDecimal(s string) bool {
	whole, fraction, point := strings.Cut(s, ".")
	return whole != "" && (!point || fraction != "") && !strings.Contains(fraction, ".")
}

// unitFactor returns how many bytes a unit has.
func unitFactor(unit string) (factor int64, ok bool) {
	if unit == "" || unit == "B" {
		return 1, true
	}
	power := strings.IndexByte("KMGTPE", unit[0]&^0x20) + 1 // in upper case
	base := int64(1024)
	switch unit[1:] {
	case "", "iB":
	case "B":
		base = 1000
	default:
		return 0, false
	}
	factor = 1
	for range power {
		factor *= base
	}
	return factor, power > 0
}

// appendHuman writes n in the largest unit that it fills, with one decimal below ten
// units, and returns the power of the base that this unit is. These are the numbers of
// GNU programs (human_readable of gnulib), which differ in how they round.
func appendHuman(b []byte, n, base uint64, divide func(n, by uint64) uint64) (_ []byte, power int) {
	size := uint64(1)
	for n/size >= base {
		power, size = power+1, size*base
	}
	// The rest is below 2^60: ten times that is within 64 bits.
	if tenths := n/size*10 + divide(n%size*10, size); power > 0 && tenths < 100 {
		b = strconv.AppendUint(b, tenths/10, 10)
		return append(b, '.', '0'+byte(tenths%10)), power
	}
	whole := divide(n, size)
	if whole == base { // rounded up to the next unit
		return append(b, "1.0"...), power + 1
	}
	return strconv.AppendUint(b, whole, 10), power
}

// unitLetter is the letter of a power of the base, which is 1000 or 1024.
func unitLetter(power int, base uint64) string {
	letters := " KMGTPE"
	if base == 1000 {
		letters = " kMGTPE"
	}
	return strings.TrimSpace(letters[power : power+1])
}

// divideUp rounds up.
func divideUp(n, by uint64) uint64 {
	q := n / by
	if n%by != 0 {
		q++
	}
	return q
}

// divideNearest rounds to the nearest number, halves to the even one.
func divideNearest(n, by uint64) uint64 {
	q, twice := n/by, n%by*2
	if twice > by || twice == by && q%2 == 1 {
		q++
	}
	return q
}
