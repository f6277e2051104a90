package hash

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The digests of "" and "abc" as they are written, from the algorithms' own test
// vectors and from sha256sum, sha512sum, sha1sum, md5sum, b3sum and xxhsum. Those of C4
// are checked in c4_test.go.
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
	XXH3:   {"2d06800538d394c2", "78af5f94892f3950"},
	XXH64:  {"ef46db3751d8e999", "44bc2cf5ad770999"},
	XXH32:  {"02cc5d05", "32d153ff"},
	C4: {
		"c459dsjfscH38cYeXXYogktxf4Cd9ibshE3BHUo6a58hBXmRQdZrAkZzsWcbWtDg5oQstpDuni4Hirj75GEmTc1sFT",
		"c45S4rnaTNWonxss1u8LzsaJdEph1AJhWUF4sh2waXKMsutyfAxg4ybUeuXVWS9HdNcEypmeXn8FZGonD4w1rj9DZp",
	},
	SHA1: {"da39a3ee5e6b4b0d3255bfef95601890afd80709", "a9993e364706816aba3e25717850c26c9cd0d89d"},
	SHA224: {
		"d14a028c2a3a2bc9476102bb288234c415a2b01f828ea62ac5b3e42f",
		"23097d223405d8228642a477bda255b32aadbce4bda0b3f7e36c9da7",
	},
	SHA384: {
		"38b060a751ac96384cd9327eb1b1e36a21fdb71114be07434c0cc7bf63f6e1da274edebfe76f65fbd51ad2f14898b95b",
		"cb00753f45a35e8bb5a03d699ac65007272c32ab0eded1631a8b605a43ff5bed8086072ba1e7cc2358baeca134c825a7",
	},
}

func TestDigests(t *testing.T) {
	all := All()
	require.Len(t, known, len(all), "each entry of the table has its vectors")
	s := NewSet(all)
	for round := range 3 { // a set can be used again
		s.Reset()
		empty := s.Digests()
		for _, part := range []string{"a", "", "bc"} {
			n, err := s.Write([]byte(part))
			require.NoError(t, err)
			require.Equal(t, len(part), n)
		}
		abc := s.Digests()
		require.True(t, abc.Equal(s.Digests()), "asking changes nothing")
		require.False(t, abc.Equal(empty))
		require.False(t, abc.Equal(abc[:1]))
		for i, a := range all {
			require.Equal(t, known[a][0], a.Text(empty[i]), "%s, round %d", a, round)
			require.Equal(t, known[a][1], a.Text(abc[i]), "%s, round %d", a, round)
			require.Len(t, abc[i], a.Size())
			require.Equal(t, a.Size(), a.New().Size())
		}
	}
}

// resumes reports whether the state of a running digest can be saved.
func resumes(a Algorithm) bool { return State(a.New()) != nil }

func TestTextAndBack(t *testing.T) {
	for _, a := range All() {
		for _, text := range known[a] {
			digest, ok := a.AppendDigest([]byte("before"), []byte(text))
			require.True(t, ok, a)
			require.Len(t, digest, len("before")+a.Size())
			require.Equal(t, "after"+text, string(a.AppendText([]byte("after"), digest[len("before"):])))
			if a.IsHex() {
				upper, ok := a.AppendDigest([]byte("before"), []byte(strings.ToUpper(text)))
				require.True(t, ok, a)
				require.Equal(t, digest, upper)
			}
			for _, bad := range []string{text[1:], text + "0", "g" + text[1:], text[:len(text)-1] + " "} {
				_, ok := a.AppendDigest(nil, []byte(bad))
				require.False(t, ok, "%s: %q", a, bad)
			}
		}
	}
}

// A digest whose state was saved goes on in another set, at any offset, and one that
// has no state starts anew and is named.
func TestStates(t *testing.T) {
	content := make([]byte, 5000)
	for i := range content {
		content[i] = byte(i * i / 7)
	}
	for _, a := range All() {
		whole := NewSet([]Algorithm{a})
		whole.Write(content)
		for _, at := range []int{0, 1, 31, 32, 33, 64, 127, 128, 1024, 1025, 4999, 5000} {
			first, second := NewSet([]Algorithm{a}), NewSet([]Algorithm{a})
			first.Write(content[:at])
			states := first.States()
			second.Write([]byte("what another file has left"))
			missing := second.Restore(states)
			require.Equal(t, !resumes(a), len(missing) == 1, a)
			if resumes(a) {
				again := NewSet([]Algorithm{a})
				for _, c := range content[:at] {
					again.Write([]byte{c})
				}
				require.Equal(t, states, again.States(), "%s: equal content has equal states, in whatever pieces it came", a)
				second.Write(content[at:])
			} else {
				second.Write(content)
			}
			require.True(t, second.Digests().Equal(whole.Digests()), "%s at %d", a, at)
		}
	}
}

// A state that was spoilt is none, rather than a wrong digest.
func TestStatesOfOthers(t *testing.T) {
	for _, a := range All() {
		s := NewSet([]Algorithm{a})
		require.Len(t, s.Restore(nil), 1, a)
		require.Len(t, s.Restore([][]byte{[]byte("nonsense")}), 1, a)
		s.Write([]byte("abc"))
		require.Equal(t, known[a][1], a.Text(s.Digests()[0]), a)
	}
}

func TestParse(t *testing.T) {
	list, err := Parse("sha256, md5,xxh128")
	require.NoError(t, err)
	require.Equal(t, []Algorithm{SHA256, MD5, XXH128}, list)
	list, err = Parse("none")
	require.NoError(t, err)
	require.Empty(t, list)
	list, err = Parse(strings.Join(Names(), ","))
	require.NoError(t, err)
	require.Equal(t, Algorithms(), list)
	for bad, want := range map[string]string{
		"":            `unknown hash ""`,
		"sha9":        `unknown hash "sha9"; known are ` + strings.Join(Names(), ", ") + ", none",
		"SHA256":      `unknown hash "SHA256"`,
		"sha256,":     `unknown hash ""`,
		"sha384":      "hash sha384 is only read, by verify; choose from sha256,",
		"sha256,none": "none cannot be combined with other hashes",
		"none,sha256": "none cannot be combined with other hashes",
		"md5,md5":     "hash md5 is given twice",
	} {
		_, err := Parse(bad)
		require.ErrorContains(t, err, want, bad)
	}
}

// Nothing is computed in place of an algorithm that is not known.
func TestUnknownAlgorithm(t *testing.T) {
	for _, a := range []Algorithm{"", "none", "sha9", "SHA256", "sha256 "} {
		require.False(t, a.Known(), a)
		require.Empty(t, a.FileName(), a)
		require.Nil(t, a.Tags(), a)
		require.Panics(t, func() { a.Size() }, a)
		require.Panics(t, func() { a.New() }, a)
		require.Panics(t, func() { NewSet([]Algorithm{SHA256, a}) }, a)
	}
}

// The tools that others check with have the same digests, of content of any length.
func TestDigestsEqualThoseOfTools(t *testing.T) {
	for a, args := range map[Algorithm][]string{
		SHA256: {"sha256sum"}, SHA512: {"sha512sum"}, SHA1: {"sha1sum"}, MD5: {"md5sum"}, BLAKE3: {"b3sum"},
		SHA224: {"sha224sum"}, SHA384: {"sha384sum"},
		XXH128: {"xxhsum", "-H2", "--tag"}, XXH3: {"xxhsum", "-H3", "--tag"}, XXH64: {"xxhsum", "-H1", "--tag"},
		XXH32: {"xxhsum", "-H0", "--tag"},
	} {
		t.Run(string(a), func(t *testing.T) {
			if _, err := exec.LookPath(args[0]); err != nil {
				t.Skip("not installed:", err)
			}
			for _, size := range []int{0, 1, 3, 4, 8, 9, 16, 17, 31, 32, 128, 129, 240, 241, 1023, 1024, 1025, 100_001} {
				content := make([]byte, size)
				for i := range content {
					content[i] = byte(i*7 + i>>8)
				}
				cmd := exec.Command(args[0], append(args[1:len(args):len(args)], "-")...)
				cmd.Stdin = bytes.NewReader(content)
				out, err := cmd.Output()
				require.NoError(t, err)
				s := NewSet([]Algorithm{a})
				s.Write(content)
				require.Contains(t, strings.Fields(string(out)), a.Text(s.Digests()[0]), "%d bytes: %s", size, out)
			}
		})
	}
}

// The page about what copying guarantees names the hashes of which the beginning of a
// file is read again.
func TestDocsNameTheHashesWithoutStates(t *testing.T) {
	var without []string
	for _, a := range Algorithms() {
		if !resumes(a) {
			without = append(without, strings.ToUpper(string(a)))
		}
	}
	last := len(without) - 1
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "guarantees.md"))
	require.NoError(t, err)
	want := strings.Join(without[:last], ", ") + " and " + without[last] + " cannot save that state"
	require.True(t, strings.Contains(strings.Join(strings.Fields(string(page)), " "), want), want)
}

// The length of a file is not counted in 32 bits: files of 4 GiB and a little have lanes, too.
func TestXXH32OfLongFiles(t *testing.T) {
	short, long := newXXH32(), newXXH32()
	for _, h := range []*xxh32{short, long} {
		h.Write([]byte(strings.Repeat("0123456789abcdef", 3)))
	}
	long.total += 1 << 32
	short.Write([]byte("xyz"))
	long.Write([]byte("xyz"))
	require.Equal(t, short.Sum(nil), long.Sum(nil))
	few := newXXH32()
	few.Write([]byte("xyz"))
	few.total += 1 << 32
	require.NotEqual(t, XXH32.digestOf("xyz"), few.Sum(nil))
}

// digestOf returns the digest of a text.
func (a Algorithm) digestOf(text string) []byte {
	h := a.New()
	h.Write([]byte(text))
	return h.Sum(nil)
}

func TestExpected(t *testing.T) {
	digest := XXH64.digestOf("abc")
	reversed := slices.Clone(digest)
	slices.Reverse(reversed)
	for _, tt := range []struct {
		listed   []byte
		anyOrder bool
		want     bool
	}{
		{digest, false, true}, {digest, true, true},
		{reversed, false, false}, {reversed, true, true},
		{XXH64.digestOf("x"), true, false}, {nil, true, false}, {digest[:7], true, false},
	} {
		e := Expected{XXH64, tt.listed, tt.anyOrder}
		require.Equal(t, tt.want, e.Matches(digest), "%x, any order: %t", tt.listed, tt.anyOrder)
	}
}
