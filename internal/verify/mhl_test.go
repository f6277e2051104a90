//go:build unix

package verify_test

import (
	"context"
	"crypto/md5" //nolint:gosec // a digest like any other here
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cespare/xxhash/v2"
	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/verify"
)

// mhlEntry returns an entry of a media hash list for a file, with elements after its size.
func mhlEntry(file string, size int, elements ...string) string {
	return fmt.Sprintf("<hash><file>%s</file><size>%d</size>%s</hash>\n", file, size, strings.Join(elements, ""))
}

// mhl returns a media hash list.
func mhl(entries ...string) string {
	return "<?xml version='1.0' encoding='UTF-8'?>\n<hashlist version='1.1'>\n" + strings.Join(entries, "") + "</hashlist>\n"
}

// digestOf returns the digest of a content in hexadecimal.
func digestOf(a hash.Algorithm, content string) string {
	h := a.New()
	h.Write([]byte(content))
	return a.Text(h.Sum(nil))
}

// kindsOf returns an element of each kind for a content.
func kindsOf(content string) map[string]string {
	number := xxhash.Sum64String(content)
	little := hex.EncodeToString(binary.LittleEndian.AppendUint64(nil, number))
	h := hash.XXH32.New()
	h.Write([]byte(content))
	digest := md5.Sum([]byte(content)) //nolint:gosec // see the import
	return map[string]string{
		"md5":             "<md5>" + hex.EncodeToString(digest[:]) + "</md5>",
		"md5, upper case": "<md5>" + strings.ToUpper(hex.EncodeToString(digest[:])) + "</md5>",
		"sha1":            "<sha1>" + digestOf(hash.SHA1, content) + "</sha1>",
		"xxhash":          fmt.Sprintf("<xxhash>%010d</xxhash>", binary.BigEndian.Uint32(h.Sum(nil))),
		"xxhash64be":      fmt.Sprintf("<xxhash64be>%016x</xxhash64be>", number),
		"xxhash64":        "<xxhash64>" + little + "</xxhash64>",
		"xxhash64 as be":  fmt.Sprintf("<xxhash64>%016x</xxhash64>", number),
		"xxhash128":       "<xxhash128>" + digestOf(hash.XXH128, content) + "</xxhash128>",
		"xxhash3_64":      "<xxhash3_64>" + digestOf(hash.XXH3, content) + "</xxhash3_64>",
	}
}

func TestEveryKindOfMediaHashList(t *testing.T) {
	for name, right := range kindsOf("A") {
		t.Run(name, func(t *testing.T) {
			dir := tree(t, map[string]string{"a": "A", "d/b c": "A", "wrong": "A", "unlisted": "x"})
			wrong := kindsOf("B")[name]
			list := mhl(mhlEntry("d/b c", 1, right), mhlEntry("gone", 1, right), mhlEntry("wrong", 1, wrong), mhlEntry("a", 1, right))
			require.NoError(t, os.WriteFile(filepath.Join(dir, "a.mhl"), []byte(list), 0o644))
			o := &verify.Options{Paths: []string{dir}, Verbose: true, Unlisted: true}
			reported, s, err := check(t, o)
			require.NoError(t, err)
			require.Equal(t, []string{"OK d/b c", "MISSING gone", "FAILED wrong", "OK a", "UNLISTED unlisted"}, reported)
			require.EqualValues(t, 3, s.Files)
			require.Equal(t, []verify.ManifestSummary{{Path: filepath.Join(dir, "a.mhl"), Dir: dir, Lines: 4}}, s.Manifests)
		})
	}
}

// An entry matches if its size and all its digests do, and the file is read once.
func TestSeveralDigestsOfOneEntry(t *testing.T) {
	right, wrong := kindsOf("A"), kindsOf("B")
	all := func(kinds map[string]string) (list []string) {
		for _, k := range kinds {
			list = append(list, k)
		}
		return list
	}
	for name, tt := range map[string]struct {
		entry     string
		want      verify.Verdict
		algorithm hash.Algorithm
		read      int64
	}{
		"all are right":           {mhlEntry("a", 1, right["md5"]+strings.Join(all(right), "")), verify.Match, hash.MD5, 1},
		"the last is wrong":       {mhlEntry("a", 1, right["md5"], right["sha1"], wrong["xxhash64be"]), verify.Mismatch, hash.XXH64, 1},
		"the first is wrong":      {mhlEntry("a", 1, wrong["sha1"], right["md5"]), verify.Mismatch, hash.SHA1, 1},
		"the size is wrong":       {mhlEntry("a", 2, right["md5"]), verify.Mismatch, "", 0},
		"null and a digest":       {mhlEntry("a", 1, "<null/>", wrong["md5"]), verify.Mismatch, hash.MD5, 1},
		"one of an unknown kind":  {mhlEntry("a", 1, "<crc32>0</crc32>", right["md5"]), verify.Match, hash.MD5, 1},
		"without a size":          {"<hash><file>a</file>" + right["md5"] + "</hash>", verify.Match, hash.MD5, 1},
		"name on another line":    {mhlEntry("\n a\n ", 1, right["md5"]), verify.Match, hash.MD5, 1},
		"only the size":           {mhlEntry("a", 1, "<null/>"), verify.Match, "", 0},
		"only the size, of other": {mhlEntry("a", 7, "<null/>"), verify.Mismatch, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			dir := tree(t, map[string]string{"a": "A"})
			require.NoError(t, os.WriteFile(filepath.Join(dir, "a.mhl"), []byte(mhl(tt.entry)), 0o644))
			var results []verify.Result
			o := &verify.Options{Paths: []string{dir}, Verbose: true, Report: func(r verify.Result) { results = append(results, r) }}
			s, err := verify.Run(context.Background(), o, &counters.Set{})
			require.NoError(t, err)
			require.Len(t, results, 1)
			require.Equal(t, tt.want, results[0].Verdict)
			require.Equal(t, tt.algorithm, results[0].Algorithm)
			require.Equal(t, tt.read, s.Files)
			require.Equal(t, strings.HasPrefix(name, "only") && tt.want == verify.Match, s.SizeOnly == 1)
		})
	}
}

// Entries and lines for the same file share one reading.
func TestMediaHashListBesideLines(t *testing.T) {
	dir := tree(t, map[string]string{"a": "A", "b": "B"})
	list := mhl(mhlEntry("a", 1, kindsOf("A")["xxhash64be"]), mhlEntry("b", 1, kindsOf("X")["md5"]))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a.mhl"), []byte(list), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "SHA256SUMS"), []byte(sha("A")+"  a\n"+sha("B")+"  b\n"), 0o644))
	reported, s, err := check(t, &verify.Options{Paths: []string{dir}, Verbose: true})
	require.NoError(t, err)
	require.Equal(t, []string{"OK a", "OK b", "OK a", "FAILED b"}, reported)
	require.EqualValues(t, 2, s.Files)
}

// A list that cannot be read to its end is refused, and nothing is checked.
func TestBrokenMediaHashList(t *testing.T) {
	good := mhlEntry("a", 1, kindsOf("A")["md5"])
	for name, list := range map[string]string{
		"line 4: unexpected EOF":                                  strings.TrimSuffix(mhl(good), "</hashlist>\n"),
		`line 4: the path "../a" is absolute or has a .. element`: mhl(good, mhlEntry("../a", 1, "<null/>")),
		`line 4: "-1" is not a size`:                              mhl(good, mhlEntry("a", -1, "<null/>")),
		"line 4: a document type":                                 mhl(good, "<!DOCTYPE a>"),
	} {
		dir := tree(t, map[string]string{"a": "A"})
		require.NoError(t, os.WriteFile(filepath.Join(dir, "a.mhl"), []byte(list), 0o644))
		for _, path := range []string{dir, filepath.Join(dir, "a.mhl")} {
			reported, _, err := check(t, &verify.Options{Paths: []string{path}, Verbose: true})
			var refused *failure.RefusedError
			require.ErrorAs(t, err, &refused)
			require.ErrorContains(t, err, name)
			require.Empty(t, reported)
		}
	}
}

// A list that cannot be read is an error if another manifest is readable. Verify does not report it
// as unlisted, too.
func TestBrokenMediaHashListBesideLines(t *testing.T) {
	list := strings.TrimSuffix(mhl(mhlEntry("a", 1, kindsOf("A")["md5"])), "</hashlist>\n")
	dir := tree(t, map[string]string{"a": "A", "a.mhl": list, "SHA256SUMS": sha("A") + "  a\n"})
	reported, s, err := check(t, &verify.Options{Paths: []string{dir}, Verbose: true, Unlisted: true})
	require.NoError(t, err)
	require.Equal(t, []string{"FAILURE a.mhl: the manifest cannot be read: line 4: unexpected EOF", "OK a"}, reported)
	require.EqualValues(t, 1, s.Errors)
}

// Each of many entries for one file gets a verdict.
func TestManyEntriesOfMediaHashList(t *testing.T) {
	dir := tree(t, map[string]string{"a": "A"})
	entries := slices.Repeat([]string{mhlEntry("a", 1, "<null/>")}, 20_000)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a.mhl"), []byte(mhl(entries...)), 0o644))
	_, s, err := check(t, &verify.Options{Paths: []string{dir}})
	require.NoError(t, err)
	require.EqualValues(t, 20_000, s.SizeOnly)
}
