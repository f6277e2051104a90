package cli

import (
	"math"
	"strconv"
	"strings"
	"testing"
)

func TestSizesAreReadExactly(t *testing.T) {
	for s, want := range map[string]int64{
		"0": 0, "4096": 4096, "731B": 731,
		"128K": 128 << 10, "128k": 128 << 10, "1M": 1 << 20, "1MiB": 1 << 20, "1GiB": 1 << 30, "2T": 2 << 40, "3PiB": 3 << 50, "7E": 7 << 60,
		"1MB": 1e6, "80MB": 80e6, "1kB": 1000, "1KB": 1000, "9EB": 9e18, "2TB": 2e12,
		"1.5G": 3 << 29, "0.5K": 512, "1.25MB": 1_250_000, "0.3K": 307, "007": 7,
		"9223372036854775807": math.MaxInt64,
	} {
		if got, err := parseSize(s); err != nil || got != want {
			t.Errorf("parseSize(%q) = %d, %v; want %d", s, got, err, want)
		}
	}
	for _, s := range []string{
		"", " ", "K", "-1", "-1K", "+1", "1 K", "1K ", "1KK", "1Ki", "1ib", "1Kb", "1kib", "1b", "1X", "0x10", "1e3", "1,5K",
		".5K", "5.K", "1.5.5K", ".", "..", "1.5", "1.0B", "NaN", "inf", "١K", "1\u212a", "1\x00",
		"8E", "8EiB", "10EB", "9223372036854775808", "99999999999999999999999999999999999999999999999",
	} {
		got, err := parseSize(s)
		if err == nil {
			t.Errorf("parseSize(%q) = %d, want an error", s, got)
		} else if !strings.Contains(err.Error(), strconv.Quote(s)) {
			t.Errorf("parseSize(%q): the error %q does not name it", s, err)
		}
	}
}

func FuzzParseSize(f *testing.F) {
	for _, s := range []string{"0", "128K", "1.5GiB", "80MB", "9223372036854775807", "8E", "-1", "1..5K", "K", "1\u212a"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n, err := parseSize(s)
		if err != nil {
			if n != 0 || !strings.Contains(err.Error(), strconv.Quote(s)) {
				t.Fatalf("parseSize(%q) = %d, %v", s, n, err)
			}
			return
		}
		if n < 0 {
			t.Fatalf("parseSize(%q) = %d", s, n)
		}
		if again, err := parseSize(strconv.FormatInt(n, 10)); err != nil || again != n {
			t.Fatalf("%q is %d bytes, and that is %d, %v", s, n, again, err)
		}
		// Floating point gives an independent, approximate result.
		number := strings.TrimRight(s, "KMGTPEkmgtpeiB")
		if v, err := strconv.ParseFloat(number, 64); err != nil || v > float64(n)+1 {
			t.Fatalf("parseSize(%q) = %d, less than %v (%v)", s, n, v, err)
		}
	})
}
