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
			Style
			want string
		}{
			{Style{}, hexA + "  " + tt.written + "\n"},
			{Style{Tag: "SHA256"}, "SHA256 (" + tt.written + ") = " + hexA + "\n"},
			{Style{Zero: true}, hexA + "  " + tt.path + "\x00"},
			{Style{Tag: "SHA256", Zero: true}, "SHA256 (" + tt.path + ") = " + hexA + "\x00"},
		} {
			want := style.want
			if tt.escaped && !style.Zero {
				want = `\` + want
			}
			require.Equal(t, "before"+want, string(style.AppendLine([]byte("before"), digest, tt.path)), tt.name)
		}
	}
}

func TestBuilderStyles(t *testing.T) {
	for _, tt := range []struct {
		style Style
		want  string
	}{
		{Style{}, hexA + "  ./-\n\\" + hexB + `  a\nb` + "\n" + hexA + "  c\n"},
		{Style{Tag: "SHA256"}, "SHA256 (./-) = " + hexA + "\n\\" + `SHA256 (a\nb) = ` + hexB + "\nSHA256 (c) = " + hexA + "\n"},
		{Style{Zero: true}, hexA + "  ./-\x00" + hexB + "  a\nb\x00" + hexA + "  c\x00"},
		{Style{Tag: "SHA256", Zero: true}, "SHA256 (./-) = " + hexA + "\x00SHA256 (a\nb) = " + hexB + "\x00SHA256 (c) = " + hexA + "\x00"},
	} {
		for _, limit := range []int{0, 1} {
			made := 0
			b := NewBuilder(hash.SHA256, fileSpill(t, &made), limit)
			b.Style = tt.style
			require.NoError(t, b.Put("c", digestOf(t, hexB)))
			require.NoError(t, b.Put("a\nb", digestOf(t, hexB)))
			require.NoError(t, b.Put("c", digestOf(t, hexA)))
			require.NoError(t, b.Put("-", digestOf(t, hexA)))
			var out bytes.Buffer
			n, err := b.Write(&out, Carry{})
			require.NoError(t, err)
			require.Equal(t, Counts{Lines: 3}, n)
			require.Equal(t, tt.want, out.String())
			require.NoError(t, b.Close())
		}
	}
}
