package cli

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// unit is the format of sizes in du. Digits and letters are those of GNU du, which uses
// human_readable of gnulib. Sizes are rounded up. The zero value means the default.
type unit struct {
	base   uint64 // 1024 or 1000 if each size has the largest suitable unit, otherwise 0
	size   uint64 // bytes, if all sizes have the same unit
	suffix string // suffix of that unit; "" for plain numbers
}

var (
	unitHuman = unit{base: 1024}
	unitSI    = unit{base: 1000}
	unitBytes = unit{size: 1}
	unitKibi  = unit{size: 1024} // GNU's default
)

// parseUnit parses the values of --block-size of GNU du. A unit without a number, such as M, KiB
// or GB, is also printed after each size.
func parseUnit(s string) (unit, error) {
	switch s {
	case "human-readable":
		return unitHuman, nil
	case "si":
		return unitSI, nil
	case "", "B":
	default:
		if factor, ok := unitFactor(s); ok {
			suffix := strings.ToUpper(s[:1]) + s[1:]
			if suffix == "KB" {
				suffix = "kB"
			}
			return unit{size: uint64(factor), suffix: suffix}, nil
		}
	}
	size, err := parseSize(s)
	switch {
	case err != nil && strings.TrimLeft(s, "0123456789") == s:
		return unit{}, fmt.Errorf("%q is neither a size, such as 4096 or 1M, nor a unit, such as K, MiB, GB, human-readable or si", s)
	case err != nil:
		return unit{}, err
	case size == 0:
		return unit{}, fmt.Errorf("%s cannot be a unit; it must be at least 1", s)
	}
	return unit{size: uint64(size)}, nil
}

// append appends the size n, in bytes, to b.
func (u unit) append(b []byte, n uint64) []byte {
	if n == math.MaxUint64 { // the sum has overflowed
		return append(b, "Infinity"...)
	}
	if u.base == 0 {
		b = strconv.AppendUint(b, divideUp(n, u.size), 10)
		return append(b, u.suffix...)
	}
	b, power := appendHuman(b, n, u.base)
	return append(b, unitLetter(power, u.base)...)
}

func (u unit) format(bytes uint64) string { return string(u.append(nil, bytes)) }
