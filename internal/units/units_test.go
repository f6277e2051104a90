package units

import (
	"math"
	"testing"
	"time"
)

func TestSizeHasThreeDigitsInPowersOf1000(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0 B", 731: "731 B", 999: "999 B", 1000: "1.00 kB", 1234: "1.23 kB", 12_345: "12.3 kB",
		9994: "9.99 kB", 9995: "10.0 kB", 99_949: "99.9 kB", 99_950: "100 kB",
		999_499: "999 kB", 999_500: "1.00 MB", 1_440_000_000: "1.44 GB", 27_123_456_789: "27.1 GB",
		math.MaxInt64: "9.22 EB", -1500: "-1.50 kB",
	} {
		if got := Size(n); got != want {
			t.Errorf("Size(%d) = %q, want %q", n, got, want)
		}
	}
}

func TestRateIsASizeEachSecond(t *testing.T) {
	for n, want := range map[float64]string{0: "0 B/s", 0.4: "0 B/s", 731.2: "731 B/s", 999.7: "1.00 kB/s", 1.44e9: "1.44 GB/s"} {
		if got := Rate(n); got != want {
			t.Errorf("Rate(%v) = %q, want %q", n, got, want)
		}
	}
}

func TestClockHasSecondsAndHoursIfNeeded(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0:00", 7 * time.Second: "0:07", 7600 * time.Millisecond: "0:08", 754 * time.Second: "12:34",
		3723 * time.Second: "1:02:03", 100 * time.Hour: "100:00:00",
	} {
		if got := Clock(d); got != want {
			t.Errorf("Clock(%v) = %q, want %q", d, got, want)
		}
	}
}
