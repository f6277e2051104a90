package hash

import (
	"encoding/hex"
	"testing"

	"github.com/stretchr/testify/require"
)

// The digests of "" and "abc", from the algorithms' own test vectors and from
// sha256sum, sha512sum, md5sum, b3sum and xxh128sum.
var known = map[Algorithm][2]string{
	SHA256: {
		"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
		"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
	},
	SHA512: {
		"cf83e1357eefb8bdf1542850d66d8007d620e4050b5715dc83f4a921d36ce9ce47d0d13c5d85f2b0ff8318d2877eec2f63b931bd47417a81a538327af927da3e",
		"ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f",
	},
	MD5: {"d41d8cd98f00b204e9800998ecf8427e", "900150983cd24fb0d6963f7d28e17f72"},
	BLAKE3: {
		"af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262",
		"6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85",
	},
	XXH128: {"99aa06d3014798d86001c324468d497f", "06b05ab6733a618578af5f94892f3950"},
	SHA1:   {"da39a3ee5e6b4b0d3255bfef95601890afd80709", "a9993e364706816aba3e25717850c26c9cd0d89d"},
	SHA224: {
		"d14a028c2a3a2bc9476102bb288234c415a2b01f828ea62ac5b3e42f",
		"23097d223405d8228642a477bda255b32aadbce4bda0b3f7e36c9da7",
	},
	SHA384: {
		"38b060a751ac96384cd9327eb1b1e36a21fdb71114be07434c0cc7bf63f6e1da274edebfe76f65fbd51ad2f14898b95b",
		"cb00753f45a35e8bb5a03d699ac65007272c32ab0eded1631a8b605a43ff5bed8086072ba1e7cc2358baeca134c825a7",
	},
}

// all are the algorithms that can be computed.
var all = append(Algorithms(), SHA1, SHA224, SHA384)

func TestDigests(t *testing.T) {
	require.Len(t, known, len(all))
	s := NewSet(all)
	for round := range 3 { // a set can be used again
		s.Reset()
		empty := s.Digests()
		for _, part := range []string{"a", "", "bc"}[:3] {
			n, err := s.Write([]byte(part))
			require.NoError(t, err)
			require.Equal(t, len(part), n)
		}
		abc := s.Digests()
		require.True(t, abc.Equal(s.Digests()), "asking changes nothing")
		require.False(t, abc.Equal(empty))
		require.False(t, abc.Equal(abc[:1]))
		for i, a := range all {
			require.Equal(t, known[a][0], hex.EncodeToString(empty[i]), "%s, round %d", a, round)
			require.Equal(t, known[a][1], hex.EncodeToString(abc[i]), "%s, round %d", a, round)
			require.Len(t, abc[i], a.Size())
			require.Equal(t, a.Size(), a.New().Size())
		}
	}
}

func TestParse(t *testing.T) {
	list, err := Parse("sha256, md5,xxh128")
	require.NoError(t, err)
	require.Equal(t, []Algorithm{SHA256, MD5, XXH128}, list)
	list, err = Parse("none")
	require.NoError(t, err)
	require.Empty(t, list)
	for _, bad := range []string{"", "sha1", "none,sha256", "sha256,none", "md5,md5", "sha256,"} {
		_, err := Parse(bad)
		require.Error(t, err, bad)
	}
}
