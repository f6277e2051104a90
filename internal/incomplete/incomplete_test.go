package incomplete

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/fsys/faultfs"
	"github.com/seed65876f4f/sealift/internal/quote"
)

func TestName(t *testing.T) {
	root := string(filepath.Separator)
	for _, c := range []struct {
		source string
		number int
		want   string
	}{
		{"card/A001", 1, "SEALIFT-INCOMPLETE-A001.txt"},
		{"card/A001", 2, "SEALIFT-INCOMPLETE-A001-2.txt"},
		{"card/A001" + root, 1, "SEALIFT-INCOMPLETE-A001.txt"},
		{root, 1, "SEALIFT-INCOMPLETE-root.txt"},
		{root, 10, "SEALIFT-INCOMPLETE-root-10.txt"},
		{"x/two words.d", 1, "SEALIFT-INCOMPLETE-two words.d.txt"},
		{"x/Käse 日本", 1, "SEALIFT-INCOMPLETE-Käse 日本.txt"},
		{"x/line\nfeed\x1b\u202e", 1, "SEALIFT-INCOMPLETE-line_feed__.txt"},
		{"x/\xff\xfe", 1, "SEALIFT-INCOMPLETE-__.txt"},
		{`x/a:b*c?d"e<f>g|h`, 1, "SEALIFT-INCOMPLETE-a_b_c_d_e_f_g_h.txt"},
		{"x/" + strings.Repeat("n", 255), 3, "SEALIFT-INCOMPLETE-" + strings.Repeat("n", 200) + "-3.txt"},
		{"x/n" + strings.Repeat("é", 127), 1, "SEALIFT-INCOMPLETE-n" + strings.Repeat("é", 99) + ".txt"},
	} {
		name := Name(c.source, c.number)
		require.Equal(t, c.want, name, "%q", c.source)
		require.True(t, IsName(name))
	}
	require.LessOrEqual(t, len(Name(strings.Repeat("n", 255), MaxNumber)), 255)
	require.False(t, IsName("SEALIFT-INCOMPLETE"))
	require.False(t, IsName("SEALIFT-INCOMPLETE-.txt"))
	require.False(t, IsName("SEALIFT-INCOMPLETE-a"))
	require.True(t, IsName("sealift-incomplete-a.TXT"))
	require.False(t, IsName("x/SEALIFT-INCOMPLETE-a.txt"))
}

func TestReadHead(t *testing.T) {
	good := Head{quote.Name("/a 'b'\n\xff"), NoFilters, "2025-01-02T03:04:05Z", 12}
	text := good.String() + "any text\n\nSource: another\n"
	read := func(text string) (Head, error) { return ReadHead(strings.NewReader(text), int64(len(text))) }
	have, err := read(text)
	require.NoError(t, err)
	require.Equal(t, good, have)
	long := Head{quote.Name("/" + strings.Repeat("\x01", 4095)), "1,2,true", "never", 0}
	have, err = read(long.String())
	require.NoError(t, err)
	require.Equal(t, long, have)

	for name, bad := range map[string]string{
		"nothing":            "",
		"another title":      "x" + text,
		"only the title":     title,
		"a line between":     strings.Replace(text, "Filters:", "x\nFilters:", 1),
		"no filters":         strings.Replace(text, "Filters: none\n", "", 1),
		"no number":          strings.Replace(text, "12\n", "many\n", 1),
		"a negative number":  strings.Replace(text, "12\n", "-1\n", 1),
		"too large a number": strings.Replace(text, "12\n", strings.Repeat("9", 20)+"\n", 1),
		"no blank line":      strings.Replace(text, "12\n\n", "12\n", 1),
		"too long a head":    Head{strings.Repeat("x", maxHead), NoFilters, "", 1}.String(),
		"cut short":          good.String()[:len(good.String())-2],
	} {
		_, err := read(bad)
		require.ErrorIs(t, err, ErrNoHead, name)
	}
}

// A head that is read from a file is the one that would be written into it.
func FuzzReadHead(f *testing.F) {
	f.Add(Head{"'/a'", NoFilters, "2025-01-02T03:04:05Z", 12}.String())
	f.Add(title + "\n\nSource: \nFilters: \nDate: \nMissing: +007\n\n")
	f.Fuzz(func(t *testing.T, text string) {
		h, err := ReadHead(strings.NewReader(text), int64(len(text)))
		if err != nil {
			require.ErrorIs(t, err, ErrNoHead)
			return
		}
		again, err := ReadHead(strings.NewReader(h.String()), int64(len(h.String())))
		require.NoError(t, err)
		require.Equal(t, h, again)
	})
}

func TestFind(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string) {
		path := filepath.Join(dir, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	find := func() (list []string) {
		root, err := fsys.OpenRoot(dir)
		require.NoError(t, err)
		defer root.Close()
		signs, err := Find(root)
		require.NoError(t, err)
		for _, s := range signs {
			require.Equal(t, strings.HasPrefix(s.Name, fsys.Reserved), s.Journal)
			list = append(list, fmt.Sprintf("%s: %s", s.Name, s.Err))
		}
		return list
	}
	put("a", "a")
	put("sub/SEALIFT-INCOMPLETE-a.txt", "not in the root")
	put("sub/.sealift-journal/log.1", "not in the root")
	put(".sealift-journal/lock", "of a copy that has finished")
	put(".sealift-journal/.sealift-0123456789abcdef.tmp", "a temporary")
	put(".sealift-0123456789abcdef.tmp", "a temporary")
	put(".sealift-file.journal", "not a directory")
	put("SEALIFT-INCOMPLETE-dir.txt/x", "not a file")
	require.Empty(t, find())

	put(".sealift-journal/log.1", "")
	put(".sealift-b.mov.journal/root", "")
	put("SEALIFT-INCOMPLETE-a.txt", Head{"'/cards/a'", NoFilters, "2025-01-02T03:04:05Z", 1}.String())
	put("SEALIFT-INCOMPLETE-b.txt", "hand-made")
	put("SEALIFT-INCOMPLETE-c.txt", Head{"\x1b[2J" + strings.Repeat("x", 1000), NoFilters, "", 2000}.String())
	const unfinished = "a copy into this directory is unfinished or still running; if it is not running, run that copy again"
	const advice = "run the same copy again: it removes this file when it is complete"
	require.Equal(t, []string{
		".sealift-b.mov.journal: " + unfinished,
		".sealift-journal: " + unfinished,
		"SEALIFT-INCOMPLETE-a.txt: the copy from '/cards/a' is incomplete, 1 path is missing or wrong; " + advice,
		"SEALIFT-INCOMPLETE-b.txt: marks an incomplete copy (it does not have the form that Sealift writes); Sealift does not remove this file: delete it when the copy is complete",
		`SEALIFT-INCOMPLETE-c.txt: the copy from \x1b[2J` + strings.Repeat("x", 296) + "... is incomplete, 2000 paths are missing or wrong; " + advice,
	}, find())
}

// A journal that cannot be listed may be one of an unfinished copy.
func TestFindAJournalThatCannotBeRead(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, ".sealift-journal"), 0o755))
	boom := errors.New("boom")
	sys := &fsys.FS{Fault: faultfs.OnOp(faultfs.OnIndex(1, faultfs.Fail(boom)), fsys.OpList)}
	root, err := sys.OpenRoot(dir)
	require.NoError(t, err)
	defer root.Close()
	signs, err := Find(root)
	require.NoError(t, err)
	require.Len(t, signs, 1)
	require.ErrorIs(t, signs[0].Err, boom)
}

func TestShownIsText(t *testing.T) {
	require.True(t, utf8.ValidString(shown(strings.Repeat("é", maxShown))))
}
