package shard

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
)

// withList makes a plan whose only list has this text, and returns the path of the list.
func withList(t testing.TB, text string) (s *Store, list string) {
	dir, path := openTemp(t)
	require.NoError(t, os.Mkdir(filepath.Join(path, shardsName), 0o700))
	list = filepath.Join(path, shardsName, "00000")
	require.NoError(t, os.WriteFile(list, []byte(text), 0o600))
	sum := sha256.Sum256([]byte(text))
	return &Store{dir: dir, Plan: &Plan{
		ID: "00112233445566778899aabbccddeeff", Targets: []Root{{}}, Lists: []List{{Name: "MD5SUMS", Hash: hash.MD5}},
		Options: Options{Hashes: []hash.Algorithm{hash.MD5}},
		Shards:  []File{{Size: int64(len(text)), SHA256: hex.EncodeToString(sum[:])}},
	}}, list
}

// readAll returns the entries of a list and the error at which reading ends, nil for the end.
func readAll(s *Store) (all []Entry, err error) {
	r, err := s.OpenList(0)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	for {
		e, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return all, err
		}
		all = append(all, *e)
	}
}

const digestText = "00112233445566778899aabbccddeeff"

const goodList = "in \n" +
	"file a\n" +
	"expect 0 " + digestText + "\n" +
	"line 0 0 " + digestText + "\n" +
	"symlink b\\\\c\\n\\r\n" +
	"in d\n" +
	"in d/e\n" +
	"fifo f g\n" +
	"missing 0 d/gone\n"

func TestAListIsRead(t *testing.T) {
	s, _ := withList(t, goodList)
	digest, err := hex.DecodeString(digestText)
	require.NoError(t, err)
	all, err := readAll(s)
	require.NoError(t, err)
	assert.Equal(t, []Entry{
		{Kind: fsys.Directory},
		{Path: "a", Kind: fsys.Regular, Expected: []ListDigest{{0, digest}}, Previous: []LineDigest{{0, 0, digest}}},
		{Path: "b\\c\n\r", Kind: fsys.Symlink},
		{Path: "d", Kind: fsys.Directory},
		{Path: "d/e", Kind: fsys.Directory},
		{Path: "d/e/f g", Kind: fsys.Fifo},
		{Path: "d/gone", Missing: true, Expected: []ListDigest{{List: 0}}},
	}, all)
}

// Paths lead nowhere else, and numbers are those of things that the plan has.
func TestMalformedListsAreRefused(t *testing.T) {
	for _, change := range [][2]string{
		{"in d\n", "in d/\n"}, {"in d\n", "in /d\n"}, {"file a", "file ../a"}, {"file a", "file ."}, {"file a", "file a\x00"},
		{"file", "dir"}, {"expect 0", "expect 1"}, {"expect 0", "expect -1"}, {"expect 0 00", "expect 0 "}, {"line 0 0", "line 1 0"}, {"line 0 0", "line 0 1"},
		{"missing 0", "missing 1"}, {"missing 0 d", "missing 0 ../d"},
	} {
		text := strings.Replace(goodList, change[0], change[1], 1)
		require.NotEqual(t, goodList, text)
		s, _ := withList(t, text)
		_, err := readAll(s)
		assert.ErrorIs(t, err, errField, "%.60q instead of %q", change[1], change[0])
	}
}

func TestAChangedListIsRefused(t *testing.T) {
	for name, change := range map[string]func(path string) error{
		"other byte": func(p string) error {
			text, err := os.ReadFile(p)
			return errors.Join(err, os.WriteFile(p, bytes.Replace(text, []byte("a\n"), []byte("A\n"), 1), 0o600))
		},
		"shorter":   func(p string) error { return os.Truncate(p, 20) },
		"longer":    func(p string) error { return os.Truncate(p, 2000) },
		"link":      func(p string) error { return errors.Join(os.Rename(p, p+"x"), os.Symlink("00000x", p)) },
		"directory": func(p string) error { return errors.Join(os.Remove(p), os.Mkdir(p, 0o700)) },
		"missing":   os.Remove,
	} {
		s, path := withList(t, goodList)
		require.NoError(t, change(path))
		all, err := readAll(s)
		require.Error(t, err, name)
		assert.Empty(t, all, name)
	}
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
		{`"format": "sealift-plan"`, `"format": "other"`}, {s.Plan.ID, "xyz"}, {`"md5"`, `"nohash"`}, {`"/dst"`, `"\\q"`},
		{`"shards": [`, `"no shards": [`}, {`"targets": [`, `"no targets": [`}, {"}", ""},
	} {
		text := strings.Replace(string(good), change[0], change[1], 1)
		require.NotEqual(t, string(good), text, change[0])
		_, err := parsePlan([]byte(text))
		assert.Error(t, err, change[1])
	}
	_, err = parsePlan([]byte(strings.Replace(string(good), `"version": 2`, `"version": 1, "new": 1`, 1)))
	require.ErrorContains(t, err, "the plan has format 1, and this version of sealift reads format 2")
}

func TestTextKeepsAllBytes(t *testing.T) {
	for _, text := range []Text{"", "a", `\`, `\x41`, "\xff\xfe", "é\n\"", "\uFFFD"} {
		out, err := text.MarshalText()
		require.NoError(t, err)
		var again Text
		require.NoError(t, again.UnmarshalText(out))
		assert.Equal(t, text, again)
	}
	for _, bad := range []string{`\`, `\x`, `\x4`, `"`, `\xzz`} {
		assert.Error(t, new(Text).UnmarshalText([]byte(bad)), bad)
	}
}

// Each directory comes before everything below it, with what the tasks have recorded about it.
func TestEachDirectoryHasItsRecords(t *testing.T) {
	dir, _ := openTemp(t)
	p, err := NewPlanner(dir, planOptions(2))
	require.NoError(t, err)
	defer p.Close()
	for _, path := range []string{"a/b", "", "a", "a-b", "a/b/\xff\n"} {
		require.NoError(t, p.AddDirectory(Directory{Path: path, Mtime: fsys.Time{Sec: int64(len(path)), Nsec: 5}, Ctime: fsys.Time{Sec: 2}}))
	}
	_, err = p.Write(t.Context())
	require.NoError(t, err)
	s, err := Open(dir)
	require.NoError(t, err)
	var records []*Finished
	for i, made := range [][]Made{{{Path: "a", Ino: 1 << 63}, {Path: ""}}, {{Path: "a", New: true}, {Path: "a/b/\xff\n", Ino: 7}, {Path: "unknown"}}} {
		a, err := s.Begin(t.Context(), i, AttemptOptions{})
		require.NoError(t, err)
		w, err := a.NewPart()
		require.NoError(t, err)
		for _, m := range made {
			require.NoError(t, w.PutDir(m))
		}
		var f Finished
		require.NoError(t, w.Finish(&f))
		require.NoError(t, a.Finish(f))
		w.Close()
		a.Close()
		status, err := s.Status(i)
		require.NoError(t, err)
		records = append(records, status.Finished)
	}
	var got []string
	err = s.EachDir(records, func(d *Directory, made []Made) error {
		slices.SortFunc(made, func(a, b Made) int { return a.Shard - b.Shard })
		got = append(got, fmt.Sprintf("%q %d %v", d.Path, d.Mtime.Sec, made))
		return nil
	})
	require.NoError(t, err)
	assert.Equal(t, []string{
		`"" 0 [{0 0 false 0  false}]`, `"a-b" 3 []`, `"a" 1 [{0 0 false 9223372036854775808 a false} {1 0 true 0 a false}]`, `"a/b" 3 []`,
		`"a/b/\xff\n" 6 [{1 0 false 7 a/b/` + "\xff\n" + ` false}]`,
	}, got)
}
