package hash

import (
	"bytes"
	"crypto/sha512"
	"math/big"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// c4ByBig computes a C4 ID in the plainest way.
func c4ByBig(digest []byte) string {
	n, base, digit := new(big.Int).SetBytes(digest), big.NewInt(58), new(big.Int)
	id := ""
	for range 88 {
		n.DivMod(n, base, digit)
		id = string("123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"[digit.Int64()]) + id
	}
	return "c4" + id
}

func TestC4(t *testing.T) {
	// Published test vectors.
	for content, want := range map[string]string{
		"":    "c459dsjfscH38cYeXXYogktxf4Cd9ibshE3BHUo6a58hBXmRQdZrAkZzsWcbWtDg5oQstpDuni4Hirj75GEmTc1sFT",
		"foo": "c45xZeXwMSpqXjpDumcHMA6mhoAmGHkUo7r9WmN2UgSEQzj9KjgseaQdkEJ11fGb5S1WEENcV3q8RFWwEeVpC7Fjk2",
	} {
		s := NewSet([]Algorithm{C4})
		s.Write([]byte(content))
		require.Equal(t, want, C4.Text(s.Digests()[0]))
	}

	digests := [][]byte{make([]byte, 64), bytes.Repeat([]byte{0xff}, 64), append(make([]byte, 63), 57), append(make([]byte, 63), 58)}
	for i := range 200 {
		sum := sha512.Sum512([]byte{byte(i)})
		clear(sum[:i%65]) // digests with zeros in front have digits 1 in front
		digests = append(digests, sum[:])
	}
	for _, digest := range digests {
		id := C4.Text(digest)
		require.Equal(t, c4ByBig(digest), id)
		back, ok := C4.AppendDigest(nil, []byte(id))
		require.True(t, ok, id)
		require.Equal(t, digest, back)
	}
}

func TestNoC4(t *testing.T) {
	highest := c4ByBig(bytes.Repeat([]byte{0xff}, 64))
	above := new(big.Int).Lsh(big.NewInt(1), 512)
	tooHigh := "c4"
	for power := int64(87); power >= 0; power-- {
		digit := new(big.Int)
		digit.DivMod(above, new(big.Int).Exp(big.NewInt(58), big.NewInt(power), nil), above)
		tooHigh += string(base58[digit.Int64()])
	}
	require.Len(t, tooHigh, 90)
	for _, text := range []string{
		"", "c4", highest[2:], highest[:89], highest + "1", "C4" + highest[2:], "c5" + highest[2:],
		tooHigh, "c4" + strings.Repeat("z", 88),
		"c4" + strings.Repeat("0", 88), "c4" + strings.Repeat("l", 88), "c4" + strings.Repeat("\xff", 88),
		strings.Repeat("ab", 64),
	} {
		_, ok := C4.AppendDigest(nil, []byte(text))
		require.False(t, ok, "%q", text)
	}
}
