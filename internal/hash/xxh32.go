package hash

import (
	"encoding/binary"
	"math/bits"
)

// xxh32 computes XXH32 with seed 0 (xxHash's doc/xxhash_spec.md), which old media hash
// lists have. Libraries for it count the bytes in 32 bits, and are wrong from 2 GiB on.
type xxh32 struct {
	lanes [4]uint32
	rest  [16]byte // the first total%16 bytes are an incomplete block
	total uint64   // number of written bytes
}

const (
	xxh32Prime1 uint32 = 0x9E3779B1
	xxh32Prime2 uint32 = 0x85EBCA77
	xxh32Prime3 uint32 = 0xC2B2AE3D
	xxh32Prime4 uint32 = 0x27D4EB2F
	xxh32Prime5 uint32 = 0x165667B1
)

func newXXH32() *xxh32 {
	h := &xxh32{}
	h.Reset()
	return h
}

// Reset implements hash.Hash.
func (h *xxh32) Reset() {
	seed := uint32(0)
	h.lanes = [4]uint32{seed + xxh32Prime1 + xxh32Prime2, seed + xxh32Prime2, seed, seed - xxh32Prime1}
	h.total = 0
}

// Size implements hash.Hash.
func (h *xxh32) Size() int { return 4 }

// BlockSize implements hash.Hash.
func (h *xxh32) BlockSize() int { return len(h.rest) }

// Write implements io.Writer.
func (h *xxh32) Write(p []byte) (int, error) {
	n := len(p)
	waiting := int(h.total % uint64(len(h.rest)))
	h.total += uint64(n)
	if waiting > 0 {
		used := copy(h.rest[waiting:], p)
		p = p[used:]
		if waiting+used < len(h.rest) {
			return n, nil
		}
		h.blocks(h.rest[:])
	}
	whole := len(p) - len(p)%len(h.rest)
	h.blocks(p[:whole])
	copy(h.rest[:], p[whole:])
	return n, nil
}

// blocks adds blocks of 16 bytes to the lanes.
func (h *xxh32) blocks(p []byte) {
	a, b, c, d := h.lanes[0], h.lanes[1], h.lanes[2], h.lanes[3]
	for ; len(p) >= 16; p = p[16:] {
		a = xxh32Round(a, binary.LittleEndian.Uint32(p))
		b = xxh32Round(b, binary.LittleEndian.Uint32(p[4:]))
		c = xxh32Round(c, binary.LittleEndian.Uint32(p[8:]))
		d = xxh32Round(d, binary.LittleEndian.Uint32(p[12:]))
	}
	h.lanes = [4]uint32{a, b, c, d}
}

func xxh32Round(lane, input uint32) uint32 {
	return bits.RotateLeft32(lane+input*xxh32Prime2, 13) * xxh32Prime1
}

// Sum implements hash.Hash. The digest is big-endian, as xxhsum prints it.
func (h *xxh32) Sum(in []byte) []byte {
	var sum uint32
	if h.total < 16 {
		sum = xxh32Prime5
	} else {
		sum = bits.RotateLeft32(h.lanes[0], 1) + bits.RotateLeft32(h.lanes[1], 7) +
			bits.RotateLeft32(h.lanes[2], 12) + bits.RotateLeft32(h.lanes[3], 18)
	}
	sum += uint32(h.total)
	rest := h.rest[:h.total%16]
	for ; len(rest) >= 4; rest = rest[4:] {
		sum = bits.RotateLeft32(sum+binary.LittleEndian.Uint32(rest)*xxh32Prime3, 17) * xxh32Prime4
	}
	for _, c := range rest {
		sum = bits.RotateLeft32(sum+uint32(c)*xxh32Prime5, 11) * xxh32Prime1
	}
	sum = (sum ^ sum>>15) * xxh32Prime2
	sum = (sum ^ sum>>13) * xxh32Prime3
	return binary.BigEndian.AppendUint32(in, sum^sum>>16)
}
