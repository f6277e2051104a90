// Package units formats quantities for people.
package units

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Size formats a number of bytes in powers of 1000 with three significant
// digits: "731 B", "1.44 GB".
func Size(bytes int64) string {
	if bytes < 0 {
		return "-" + scaled(-float64(bytes), " ") + "B"
	}
	return scaled(float64(bytes), " ") + "B"
}

// Rate formats bytes per second as [Size] does: "1.44 GB/s".
func Rate(bytesPerSecond float64) string { return scaled(bytesPerSecond, " ") + "B/s" }

// Clock formats a duration to the second: "0:07", "12:34", "1:02:03".
func Clock(d time.Duration) string {
	s := int64(d.Round(time.Second) / time.Second)
	if s >= 3600 {
		return fmt.Sprintf("%d:%02d:%02d", s/3600, s/60%60, s%60)
	}
	return fmt.Sprintf("%d:%02d", s/60, s%60)
}

// Count formats a number of files in at most five columns: "731", "12.3k".
func Count(n int64) string { return scaled(float64(n), "") }

// scaled writes v, which is not negative, with three significant digits and
// the prefix of its power of 1000, k to E. Below 1000 it is a whole number.
func scaled(v float64, gap string) string {
	if v < 999.5 {
		return strconv.FormatFloat(v, 'f', 0, 64) + gap
	}
	const prefixes = "kMGTPE"
	i := 0
	for v /= 1000; v >= 999.5 && i < len(prefixes)-1; i++ {
		v /= 1000
	}
	digits := 0
	switch {
	case v < 9.995:
		digits = 2
	case v < 99.95:
		digits = 1
	}
	return strconv.FormatFloat(v, 'f', digits, 64) + gap + prefixes[i:i+1]
}

// Plural writes a number of things: "1 file", "2 files".
func Plural(n int64, noun string) string {
	if n != 1 {
		if stem, ok := strings.CutSuffix(noun, "y"); ok {
			noun = stem + "ies"
		} else if strings.HasSuffix(noun, "ch") {
			noun += "es"
		} else {
			noun += "s"
		}
	}
	return Grouped(n) + " " + noun
}

// Grouped writes a count with a comma before every three digits.
func Grouped(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
