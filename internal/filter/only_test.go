package filter

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// outline writes a trie as one line, such as {"a"{"b"!}}, with a "!" after
// each node that is wanted completely.
func outline(n *Node) string {
	if n.All() {
		return "!"
	}
	var parts []string
	for _, name := range n.Names() {
		parts = append(parts, fmt.Sprintf("%q%s", name, outline(n.Child(name))))
	}
	return "{" + strings.Join(parts, " ") + "}"
}

func TestReadOnly(t *testing.T) {
	tests := []struct {
		name, list string
		nul        bool
		want       string
	}{
		{"empty", "", false, `{}`},
		{"empty lines", "\n\n", false, `{}`},
		{"one", "a\n", false, `{"a"!}`},
		{"no newline at the end", "b\na", false, `{"a"! "b"!}`},
		{"tree", "a/b\na/c/d\n", false, `{"a"{"b"! "c"{"d"!}}}`},
		{"subtree after child", "a/b\na\n", false, `{"a"!}`},
		{"child after subtree", "a\na/b\na/b/c\n", false, `{"a"!}`},
		{"twice", "a/b\na/b\n", false, `{"a"{"b"!}}`},
		{"cleaned", "./a//b/\n././c/./d\n", false, `{"a"{"b"!} "c"{"d"!}}`},
		{"everything", "a\n.\nb\n", false, `!`},
		{"everything by ./", "./\n", false, `!`},
		{"everything by .//.", ".//.\n", false, `!`},
		{"nothing else is special", "#a\n!b\n*\n c \n\"d\"\ne\rf\n...\n..f\n", false,
			`{" c "! "!b"! "\"d\""! "#a"! "*"! "..."! "..f"! "e\rf"!}`},
		{"of Windows", "\ufeffa\r\n\r\nb/c\r\nd\r", false, `{"a"! "b"{"c"!} "d"!}`},
		{"inside, these are names", "a\r\r\n\ufeffb\n", false, `{"a\r"! "\ufeffb"!}`},
		{"only a byte order mark", "\ufeff\r\n", false, `{}`},
		{"bytes", "\xff/\xfe\n", false, `{"\xff"{"\xfe"!}}`},
		{"nul", "a\nb\x00c/d\x00\x00", true, `{"a\nb"! "c"{"d"!}}`},
		{"nul, of Windows", "\ufeffa\r\x00b\r", true, `{"b\r"! "\ufeffa\r"!}`},
		{"nul, no end", "a\x00b", true, `{"a"! "b"!}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			only, err := ReadOnly(strings.NewReader(tt.list), tt.nul)
			require.NoError(t, err)
			assert.Equal(t, tt.want, outline(only.Root()))
		})
	}
}

func TestReadOnlyErrors(t *testing.T) {
	tests := []struct {
		list string
		nul  bool
		want string
	}{
		{"a\n\n/etc/passwd\n", false, `line 3: path "/etc/passwd": it is absolute`},
		{"/\n", false, `line 1: path "/": it is absolute`},
		{"a/../b\n", false, `line 1: path "a/../b": ".."`},
		{"..\n", false, `line 1: path "..": ".."`},
		{"a\nb/..", false, `line 2: path "b/..": ".."`},
		{"a\x00b\n", false, `line 1: path "a\x00b": it holds a NUL byte`},
		{"\x1b[2J/..\n", false, `path "\x1b[2J/.."`},
		{"a\x00\x00../b\x00", true, `entry 3: path "../b": ".."`},
		{"a\n" + strings.Repeat("x", maxRecord+1), false, "line 2: longer than"},
		{"a/" + strings.Repeat("x", maxName+1) + "/b", false, "a name in it has more than 4096 bytes"},
	}
	for _, tt := range tests {
		only, err := ReadOnly(strings.NewReader(tt.list), tt.nul)
		assert.ErrorContains(t, err, tt.want)
		assert.Nil(t, only)
	}
	failing := errors.New("device on fire")
	_, err := ReadOnly(iotest.ErrReader(failing), false)
	assert.ErrorIs(t, err, failing)
}

func TestOnlyNodes(t *testing.T) {
	only, err := ReadOnly(strings.NewReader("d/e\nf\n"), false)
	require.NoError(t, err)
	root := only.Root()
	assert.False(t, root.All())
	assert.Equal(t, []string{"d", "f"}, root.Names())
	assert.Nil(t, root.Child("x"))
	assert.False(t, root.Child("d").All())
	assert.True(t, root.Child("d").Child("e").All())
	assert.True(t, root.Child("f").Child("anything").Child("below").All())
	assert.Empty(t, root.Child("f").Names())

	absent := root.Child("x")
	assert.False(t, absent.All())
	assert.Nil(t, absent.Child("y"))
	assert.Empty(t, absent.Names())

	var none *Only
	assert.True(t, none.Root().All(), "without a list, everything is wanted")
}

// A path is wanted if and only if it, or a directory above it, is listed; a
// node is there if and only if something at or below it is.
func TestOnlyIsTheListedSet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom([]string{"a", "b", "c"})
		path := rapid.Custom(func(t *rapid.T) string {
			return strings.Join(rapid.SliceOfN(name, 1, 4).Draw(t, "names"), "/")
		})
		listed := rapid.SliceOfN(path, 0, 6).Draw(t, "listed")
		only, err := ReadOnly(strings.NewReader(strings.Join(listed, "\x00")), true)
		require.NoError(t, err)
		asked := path.Draw(t, "asked")
		node := only.Root()
		for _, n := range strings.Split(asked, "/") {
			node = node.Child(n)
		}
		wanted := slices.ContainsFunc(listed, func(l string) bool {
			return strings.HasPrefix(asked+"/", l+"/")
		})
		onTheWay := slices.ContainsFunc(listed, func(l string) bool {
			return strings.HasPrefix(l+"/", asked+"/")
		})
		assert.Equal(t, wanted, node.All())
		assert.Equal(t, wanted || onTheWay, node != nil)
	})
}

func FuzzReadOnly(f *testing.F) {
	f.Add("a/b\n./c//d\n", false)
	f.Add("a\nb\x00..\x00", true)
	f.Fuzz(func(t *testing.T, list string, nul bool) {
		only, err := ReadOnly(strings.NewReader(list), nul)
		if err != nil {
			assert.Nil(t, only)
			return
		}
		var check func(n *Node)
		check = func(n *Node) {
			for _, name := range n.Names() {
				assert.NotContains(t, []string{"", ".", ".."}, name)
				assert.NotContains(t, name, "/")
				assert.NotContains(t, name, "\x00")
				assert.LessOrEqual(t, len(name), maxName)
				check(n.Child(name))
			}
			assert.True(t, n.All() || len(n.Names()) > 0 || n == only.Root(), "a node without purpose")
		}
		check(only.Root())
	})
}
