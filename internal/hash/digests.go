package hash

import "encoding/hex"

// AppendHex appends the digests in hexadecimal with commas between them, or "-" if there are none.
func (d Digests) AppendHex(dst []byte) []byte {
	if len(d) == 0 {
		return append(dst, '-')
	}
	for i, digest := range d {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = hex.AppendEncode(dst, digest)
	}
	return dst
}
