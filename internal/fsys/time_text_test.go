package fsys

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestTimesAsText(t *testing.T) {
	for text, want := range map[string]Time{
		"0.000000000":                    {},
		"1700000000.000000007":           {1700000000, 7},
		"-1.999999999":                   {-1, 999_999_999},
		"-9223372036854775808.000000001": {math.MinInt64, 1},
		"9223372036854775807.100000000":  {math.MaxInt64, 100_000_000},
	} {
		assert.Equal(t, text, string(want.AppendDecimal(nil)))
		have, ok := ParseTime(text)
		assert.True(t, ok, text)
		assert.Equal(t, want, have)
	}
	for _, text := range []string{
		"", ".", "1", "1.", ".000000000", "1.0", "1.00000000", "1.0000000000", "1.-00000001", "+1.000000000",
		"01.000000000", "1.1000000000", "1.00000000x", "9223372036854775808.000000000", "1.000000000 ", "1_0.000000000",
	} {
		_, ok := ParseTime(text)
		assert.False(t, ok, text)
	}
}
