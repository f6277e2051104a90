package manifest

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/hash"
)

func TestStyles(t *testing.T) {
	digest := digestOf(t, hexA)
	for _, tt := range hardNames {
		for _, style := range []struct {
			Sums
			zero bool
			want string
		}{
			{GNU, false, hexA + "  " + tt.written + "\n"},
			{BSD, false, "SHA256 (" + tt.written + ") = " + hexA + "\n"},
			{GNU, true, hexA + "  " + tt.path + "\x00"},
			{BSD, true, "SHA256 (" + tt.path + ") = " + hexA + "\x00"},
		} {
			want := style.want
			if tt.escaped && !style.zero {
				want = `\` + want
			}
			require.Equal(t, "before"+want, string(style.appendLine([]byte("before"), hash.SHA256, digest, []byte(tt.path), style.zero)), tt.name)
		}
	}
}

func TestBuilderStyles(t *testing.T) {
	for _, tt := range []struct {
		document Document
		want     string
	}{
		{Document{}, hexA + "  ./-\n\\" + hexB + `  a\nb` + "\n" + hexA + "  c\n"},
		{Document{Format: BSD}, "SHA256 (./-) = " + hexA + "\n\\" + `SHA256 (a\nb) = ` + hexB + "\nSHA256 (c) = " + hexA + "\n"},
		{Document{Zero: true}, hexA + "  ./-\x00" + hexB + "  a\nb\x00" + hexA + "  c\x00"},
		{Document{Format: BSD, Zero: true}, "SHA256 (./-) = " + hexA + "\x00SHA256 (a\nb) = " + hexB + "\x00SHA256 (c) = " + hexA + "\x00"},
	} {
		for _, limit := range []int{0, 1} {
			made := 0
			b := newBuilder(hash.SHA256, fileSpill(t, &made), limit)
			require.NoError(t, putIn(b, "c", digestOf(t, hexB)))
			require.NoError(t, putIn(b, "a\nb", digestOf(t, hexB)))
			require.NoError(t, putIn(b, "c", digestOf(t, hexA)))
			require.NoError(t, putIn(b, "-", digestOf(t, hexA)))
			var out bytes.Buffer
			n, err := b.Write(&out, tt.document)
			require.NoError(t, err)
			require.Equal(t, Counts{Lines: 3}, n)
			require.Equal(t, tt.want, out.String())
			require.NoError(t, b.Close())
		}
	}
}
