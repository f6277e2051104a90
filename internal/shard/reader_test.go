package shard

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
)

// withShard makes a plan whose only shard has this text, with the digest of it, and returns the
// path of the shard.
func withShard(t testing.TB, text string, entries int64) (s *Store, shard string) {
	dir, path := openTemp(t)
	require.NoError(t, os.Mkdir(filepath.Join(path, shardsName), 0o700))
	text = strings.ReplaceAll(text, "HEAD", strings.TrimSuffix(shardHead(testID, 0), "\n"))
	shard = filepath.Join(path, shardsName, "00000")
	require.NoError(t, os.WriteFile(shard, []byte(text), 0o600))
	return &Store{dir: dir, Plan: &Plan{
		ID: testID, Kind: KindCopy, Targets: []Target{{}}, Lists: []List{{Name: "MD5SUMS", Hash: hash.MD5}},
		Options: Options{Hashes: []hash.Algorithm{hash.MD5}},
		Totals:  Totals{LinkGroups: 3},
		Shards:  []File{fileOf(text, entries)},
	}}, shard
}

const testID = "00112233445566778899aabbccddeeff"

func fileOf(text string, entries int64) File {
	sum := sha256.Sum256([]byte(text))
	return File{Entries: entries, Size: int64(len(text)), SHA256: hex.EncodeToString(sum[:])}
}

// readText reads a shard that has this text.
func readText(t testing.TB, text string, entries int64) (int64, error) {
	s, _ := withShard(t, text, entries)
	return readAll(s)
}

// readAll returns the number of entries and the error at which reading ends, nil for the end.
func readAll(s *Store) (n int64, err error) {
	r, err := s.OpenShard(0)
	if err != nil {
		return 0, err
	}
	defer r.Close()
	for ; ; n++ {
		if _, err := r.Next(); errors.Is(err, io.EOF) {
			return n, nil
		} else if err != nil {
			return n, err
		}
	}
}

const goodShard = "HEAD\n" +
	"in a \n" +
	"file 1 0.000000000 0 a\n" +
	"expect 0 00112233445566778899aabbccddeeff\n" +
	"line 0 0 00112233445566778899aabbccddeeff\n" +
	"symlink 3 -1.999999999 2 b\\\\c\\n\\r\n" +
	"in - d\n" +
	"file 0 0.000000000 0 d/e\n" +
	"end\n"

func TestMalformedShardsAreRefused(t *testing.T) {
	n, err := readText(t, goodShard, 3)
	require.NoError(t, err)
	require.EqualValues(t, 3, n)
	for _, change := range [][2]string{
		{"in a \n", ""}, {"in a ", "in b "}, {"in a ", "in aa "}, {"in a ", "in  "}, {"in a ", "in a"}, {"in a ", "in a x"},
		{"in - d\n", ""}, {"in - d", "in - "}, {"in - d", "in - d/"}, {"in - d", "in - D"}, {" d/e", " d/e/f"}, {" d/e", " e"},
		{"in - d\n", "in - d\nin - d\n"}, {"in - d\n", "in - d\nin - c\n"}, {"end\n", "in - f\nend\n"}, {"end\n", "in - d\nfile 0 0.000000000 0 d/f\nend\n"},
		{"HEAD", "sealift-shard ffffffffffffffffffffffffffffffff 0"},
		{"file", "dir"}, {"file 1", "file 01"}, {"file 1", "file -1"}, {"file 1", "file 9223372036854775808"},
		{"0.000000000", "0.0"}, {"0.000000000", "0.-00000001"}, {"0.000000000", "-0.000000000"},
		{" 2 b", " 4 b"}, {" 0 a", " 0 "}, {" 0 a", " 0 /a"}, {" 0 a", " 0 ../a"}, {" 0 a", " 0 a/../b"},
		{" 0 a", " 0 a//b"}, {" 0 a", " 0 a/"}, {" 0 a", " 0 ."}, {" 0 a", " 0 a\x00"}, {" 0 a", ` 0 \a`}, {" 0 a", ` 0 a\`},
		{" 0 a", " 0 c"}, {`b\\c\n\r`, "a"}, {`b\\c\n\r`, ""},
		{"expect 0", "expect 1"}, {"expect 0 00", "expect 0 "}, {"expect 0 00112233445566778899aabb", "expect 0 00112233445566778899AABB"},
		{"line 0 0", "line 1 0"}, {"line 0 0", "line 0 1"}, {"line 0 0", "line 0"},
		{"end\n", ""}, {"end\n", "end"}, {"end\n", "end\nend\n"}, {"end\n", "END\n"}, {"a\n", "a\r\n\n"},
		{"expect 0 00112233445566778899aabbccddeeff\nline 0 0 00112233445566778899aabbccddeeff\n", "line 0 0 00112233445566778899aabbccddeeff\nexpect 0 00112233445566778899aabbccddeeff\n"},
		{"a\n", "a" + strings.Repeat("a", maxLine) + "\n"},
	} {
		text := strings.Replace(goodShard, change[0], change[1], 1)
		require.NotEqual(t, goodShard, text)
		_, err := readText(t, text, 3)
		assert.ErrorAs(t, err, new(*LineError), "%.60q instead of %q", change[1], change[0])
	}
	_, err = readText(t, goodShard, 4)
	require.ErrorIs(t, err, errChanged)
}

func TestADigestOfNoManifestIsRefused(t *testing.T) {
	for _, list := range []string{"0", "18446744073709551615"} {
		s, _ := withShard(t, strings.Replace(goodShard, "expect 0", "expect "+list, 1), 3)
		s.Plan.Lists = nil
		_, err := readAll(s)
		assert.ErrorAs(t, err, new(*LineError), list)
	}
}

func TestAChangedShardIsRefused(t *testing.T) {
	for name, change := range map[string]func(path string) error{
		"other byte": func(p string) error {
			text, err := os.ReadFile(p)
			return errors.Join(err, os.WriteFile(p, bytes.Replace(text, []byte("0 a\n"), []byte("0 A\n"), 1), 0o600))
		},
		"shorter":   func(p string) error { return os.Truncate(p, 20) },
		"link":      func(p string) error { return errors.Join(os.Rename(p, p+"x"), os.Symlink("00000x", p)) },
		"directory": func(p string) error { return errors.Join(os.Remove(p), os.Mkdir(p, 0o700)) },
		"missing":   os.Remove,
	} {
		s, path := withShard(t, goodShard, 3)
		require.NoError(t, change(path))
		n, err := readAll(s)
		require.Error(t, err, name)
		assert.Zero(t, n, name)
	}
}

// If a file changes after its digest was checked, reading it returns an error.
func TestAShardThatChangesWhileItIsReadIsRefused(t *testing.T) {
	s, path := withShard(t, goodShard, 3)
	r, err := s.OpenShard(0)
	require.NoError(t, err)
	defer r.Close()
	r.lines.in.Discard(r.lines.in.Buffered()) // what was read ahead
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, bytes.Replace(text, []byte("file 1"), []byte("file 2"), 1), 0o600))
	r.lines.in.Reset(io.NewSectionReader(fsys.ReaderAt{File: r.lines.file}, int64(len(shardHead(testID, 0))), int64(len(text))))
	for err == nil {
		_, err = r.Next()
	}
	require.ErrorIs(t, err, errChanged)
}

func TestThePlanOfAnotherUserIsRefused(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("modes and owners are not those of Windows")
	}
	for _, name := range []string{".", planName, shardsName, "shards/00000", dirsName} {
		for what, change := range map[string]func(string) error{
			"group": func(p string) error { return os.Chmod(p, 0o720) },
			"all":   func(p string) error { return os.Chmod(p, 0o702) },
			"owner": func(p string) error { return os.Chown(p, 4321, -1) },
		} {
			if what == "owner" && os.Geteuid() != 0 {
				continue
			}
			dir, path := openTemp(t)
			require.NoError(t, planIn(nil, path, 1))
			require.NoError(t, change(filepath.Join(path, name)))
			s, err := Open(dir)
			if err == nil {
				_, err = readAll(s)
			}
			if err == nil {
				var dirs *DirReader
				if dirs, err = s.OpenDirs(); err == nil {
					dirs.Close()
				}
			}
			assert.ErrorIs(t, err, ErrNotPrivate, "%s of %s", what, name)
		}
	}
}

func TestMalformedPlansAreRefused(t *testing.T) {
	dir, path := openTemp(t)
	require.NoError(t, planIn(nil, path, 2))
	good, err := os.ReadFile(filepath.Join(path, planName))
	require.NoError(t, err)
	s, err := Open(dir)
	require.NoError(t, err)
	for _, change := range [][2]string{
		{`"version": 1`, `"version": 1, "extra": 2`}, {`"format": "sealift-plan"`, `"format": "other"`},
		{`"format"`, `"Format"`}, {s.Plan.ID, "xyz"}, {`"md5"`, `"nohash"`}, {`"entries": 3`, `"entries": 4`},
		{"{\n", "{ \n"}, {`"/dst"`, `"\\q"`}, {s.Plan.Shards[0].SHA256, "00"},
	} {
		text := strings.Replace(string(good), change[0], change[1], 1)
		require.NotEqual(t, string(good), text, change[0])
		_, err := parsePlan([]byte(text))
		assert.Error(t, err, change[1])
	}
	_, err = parsePlan([]byte(strings.Replace(string(good), `"version": 1`, `"version": 2, "new": 1`, 1)))
	var version *VersionError
	require.ErrorAs(t, err, &version)
	assert.Equal(t, 2, version.Version)
}

func TestOtherOptionsAreRefused(t *testing.T) {
	p := &Plan{Options: planOptions(1).Copy}
	require.NoError(t, p.Check(planOptions(1).Copy))
	o := planOptions(1).Copy
	o.Policy, o.Rules = "always", []Rule{{Exclude: true, Pattern: "*.tmp"}}
	var other *OptionsError
	require.ErrorAs(t, p.Check(o), &other)
	assert.Equal(t, []string{"overwrite_policy", "rules"}, other.Names)
}

func TestTextKeepsAllBytes(t *testing.T) {
	for _, text := range []Text{"", "a", `\`, `\x41`, "\xff\xfe", "é\n\"", "\uFFFD"} {
		out, err := text.MarshalText()
		require.NoError(t, err)
		var again Text
		require.NoError(t, again.UnmarshalText(out))
		assert.Equal(t, text, again)
	}
	for _, bad := range []string{`\`, `\x`, `\x4`, `\x41`, `\xFF`, `\n`, `\xzz`} {
		assert.Error(t, new(Text).UnmarshalText([]byte(bad)), bad)
	}
}

func TestDirectoriesAreListedWithTheirSubtree(t *testing.T) {
	dir, _ := openTemp(t)
	p, err := NewPlanner(dir, planOptions(1))
	require.NoError(t, err)
	defer p.Close()
	for _, path := range []string{"a/b", "a-b", "", "a", "a-b/\xff\n", "a/b/c"} {
		require.NoError(t, p.AddDirectory(Directory{Path: path, ID: fsys.ID{Dev: 1, Ino: 5}, Mtime: fsys.Time{Sec: 3}, Implied: path == "a"}))
	}
	_, err = p.Write(context.Background())
	require.NoError(t, err)
	s, err := Open(dir)
	require.NoError(t, err)
	r, err := s.OpenDirs()
	require.NoError(t, err)
	defer r.Close()
	var paths []string
	for {
		d, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		assert.Equal(t, d.Path == "a", d.Implied)
		paths = append(paths, d.Path)
	}
	assert.Equal(t, []string{"", "a-b", "a-b/\xff\n", "a", "a/b", "a/b/c"}, paths)
}

// Each line that is accepted is the only spelling of its entry.
func FuzzEntry(f *testing.F) {
	f.Add([]byte("file 1 0.000000000 0 a"))
	f.Add([]byte(`symlink 3 -1.999999999 2 b\\c\n\r`))
	f.Add([]byte(`in a- d`))
	f.Add([]byte(`missing 1 d/e`))
	f.Add([]byte(`dir 1 2 0.000000000 0.000000001 implied -a d`))
	f.Fuzz(func(t *testing.T, line []byte) {
		e, err := parseEntry(line, 3)
		if err == nil && !bytes.Equal(append(bytes.Clone(line), '\n'), appendEntry(nil, e)) {
			t.Fatalf("%q is read as %+v", line, e)
		}
		d, err := parseDirectory(line, 2)
		if err == nil && !bytes.Equal(append(bytes.Clone(line), '\n'), appendDirectory(nil, d)) {
			t.Fatalf("%q is read as %+v", line, d)
		}
		in, err := parseEntryDir(line, 2)
		if err == nil && !bytes.Equal(append(bytes.Clone(line), '\n'), appendEntryDir(nil, in)) {
			t.Fatalf("%q is read as %+v", line, in)
		}
		m, err := parseMissing(line, 2)
		if err == nil && !bytes.Equal(append(bytes.Clone(line), '\n'), appendMissing(nil, m)) {
			t.Fatalf("%q is read as %+v", line, m)
		}
	})
}
