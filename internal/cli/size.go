package cli

import (
	"fmt"
	"math/big"
	"strconv"
	"strings"
)

// longestSize limits the length of a size, in bytes of text. An int64 has at most 19 digits;
// the limit keeps the exact arithmetic of parseSize cheap.
const longestSize = 40

// parseSize parses a number of bytes. "128K", "1M" and "1MiB" are powers of 1024, "80MB" and
// "1kB" powers of 1000. The number may have a fraction ("1.5G"); the result is rounded down to
// whole bytes. The letter of the unit may be in lower case. Errors quote the text.
func parseSize(s string) (int64, error) {
	digits := strings.TrimLeft(s, "0123456789.")
	number, unit := s[:len(s)-len(digits)], digits
	factor, ok := unitFactor(unit)
	if !ok || len(s) > longestSize || !isDecimal(number) {
		return 0, fmt.Errorf("%q is not a size; write it as 4096B, 128K, 1.5GiB or 80MB", s)
	}
	if factor == 1 && strings.Contains(number, ".") {
		return 0, fmt.Errorf("%q is not a whole number of bytes", s)
	}
	exact, _ := new(big.Rat).SetString(number) // cannot fail: isDecimal has checked number
	exact.Mul(exact, new(big.Rat).SetInt64(factor))
	bytes := new(big.Int).Quo(exact.Num(), exact.Denom())
	if !bytes.IsInt64() {
		return 0, fmt.Errorf("%q is more than 64 bits can count", s)
	}
	return bytes.Int64(), nil
}

// isDecimal reports whether a string of digits and points is a decimal number: digits, or
// digits, one point and digits.
func isDecimal(s string) bool {
	whole, fraction, point := strings.Cut(s, ".")
	return whole != "" && (!point || fraction != "") && !strings.Contains(fraction, ".")
}

// unitFactor returns how many bytes a unit has.
func unitFactor(unit string) (factor int64, ok bool) {
	if unit == "" || unit == "B" {
		return 1, true
	}
	power := strings.IndexByte("KMGTPE", unit[0]&^0x20) + 1 // &^0x20 makes upper case
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

// appendHuman appends n in the largest unit of which it is at least one. Below ten units, it adds
// one decimal: 4.0, 37. power is the power of base that is the unit. The result is that of
// human_readable in gnulib, rounded up.
func appendHuman(b []byte, n, base uint64) (_ []byte, power int) {
	size := uint64(1)
	for n/size >= base {
		power, size = power+1, size*base
	}
	// size is at most 2^60, so that ten times the rest fits into 64 bits.
	if tenths := n/size*10 + divideUp(n%size*10, size); power > 0 && tenths < 100 {
		b = strconv.AppendUint(b, tenths/10, 10)
		return append(b, '.', '0'+byte(tenths%10)), power
	}
	whole := divideUp(n, size)
	if whole == base { // the number was rounded up to the next unit
		return append(b, "1.0"...), power + 1
	}
	return strconv.AppendUint(b, whole, 10), power
}

// unitLetter returns the letter for a power of base, which is 1000 or 1024; "" for power 0.
func unitLetter(power int, base uint64) string {
	letters := " KMGTPE"
	if base == 1000 {
		letters = " kMGTPE"
	}
	return strings.TrimSpace(letters[power : power+1])
}

// divideUp returns n/by, rounded up.
func divideUp(n, by uint64) uint64 {
	q := n / by
	if n%by != 0 {
		q++
	}
	return q
}
