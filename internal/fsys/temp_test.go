package fsys

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const runID = "0123456789abcdef"

func TestTempIDAcceptsTheExactFormOnly(t *testing.T) {
	for _, c := range []struct {
		name string
		ok   bool
	}{
		{".sealift-0123456789abcdef-01234567.tmp", true},
		{".sealift-0123456789abcdef-0123456789abcdef01.tmp", true},
		{".sealift-0123456789abcdef-0123456.tmp", false},
		{".sealift-0123456789abcdef-.tmp", false},
		{".sealift-0123456789abcdef.tmp", false},
		{".sealift-0123456789abcdef-01234567", false},
		{".sealift-0123456789abcdef-01234567.tmp ", false},
		{".sealift-0123456789abcdef-01234567.tmp.tmp", false},
		{".sealift-0123456789abcdef-01234567-8.tmp", false},
		{".sealift-0123456789abcdef-0123456G.tmp", false},
		{".sealift-0123456789abcdef-0123456A.tmp", false},
		{".sealift-0123456789ABCDEF-01234567.tmp", false},
		{".sealift-0123456789abcde-01234567.tmp", false},
		{".sealift-0123456789abcdef0-01234567.tmp", false},
		{".sealift-0123456789abcde\n-01234567.tmp", false},
		{".sealift-0123456789abcd..-01234567.tmp", false},
		{"sealift-0123456789abcdef-01234567.tmp", false},
		{"x.sealift-0123456789abcdef-01234567.tmp", false},
		{".sealift-.sealift-0123456789abcdef-01234567.tmp", false},
		{".sealift-journal", false},
		{".sealift-bad-0123456789abcdef-01234567.tmp", false},
		{".sealift-", false},
		{"", false},
	} {
		id, ok := TempID(c.name)
		require.Equal(t, c.ok, ok, c.name)
		if ok {
			require.Equal(t, runID, id)
		} else {
			require.Empty(t, id, c.name)
		}
	}
	_, ok := TempID(TempName())
	require.False(t, ok, "a name without an id")
}

func requireID(t *testing.T, want, name string) {
	t.Helper()
	id, ok := TempID(name)
	require.True(t, ok, name)
	require.Equal(t, want, id)
}

func TestTempNamesBearTheIDInTheWholeTree(t *testing.T) {
	root, path := ownRoot(t)
	require.NoError(t, root.Mkdir("a"))
	before, err := root.OpenDir("a")
	require.NoError(t, err)
	defer before.Close()
	name := before.TempName()
	require.True(t, strings.HasPrefix(name, Reserved), name)
	require.Len(t, name, len(TempName()))
	_, ok := TempID(name)
	require.False(t, ok, "without an id")

	root.SetTempID(runID)
	requireID(t, runID, root.TempName())
	require.NotEqual(t, root.TempName(), root.TempName())
	requireID(t, runID, before.TempName()) // though opened before

	other, err := OpenRoot(path)
	require.NoError(t, err)
	defer other.Close()
	_, ok = TempID(other.TempName())
	require.False(t, ok, "another root is another tree")

	s := NewHandles(1)
	r := s.Root(root)
	a := child(t, r, "a")
	require.NoError(t, root.Mkdir("b"))
	child(t, r, "b") // a is evicted by it
	require.Nil(t, a.dir)
	d, err := a.Acquire()
	require.NoError(t, err)
	defer a.Close()
	defer a.Release()
	p := begin(t, d, true, "x")
	requireID(t, runID, p.Name())
	require.Equal(t, []string{p.Name()}, names(t, d))
	p.Abort()

	temp := ""
	d.FS().Fault = func(c Call) error { // what an unnamed file is linked to on its way
		if c.Op == OpLink {
			temp = c.Name
		}
		return nil
	}
	p = begin(t, d, false, "x")
	named := p.Name()
	require.NoError(t, p.CommitReplacing("f"))
	d.FS().Fault = nil
	if named != "" {
		temp = named
	}
	requireID(t, runID, temp)

	root.SetTempID("")
	_, ok = TempID(d.TempName())
	require.False(t, ok, "taken back")
}

func TestIsTempAcceptsTheExactFormsOnly(t *testing.T) {
	for _, name := range []string{TempName(), SharedTempName("x"), ".sealift-0123456789abcdef-01234567.tmp"} {
		require.True(t, IsTemp(name), name)
		require.True(t, IsTemp([]byte("._"+name)), name)
		for _, other := range []string{"x" + name, name + "x", strings.TrimSuffix(name, ".tmp"), strings.Replace(name, "sealift-", "sealift-x", 1), "._._" + name} {
			require.False(t, IsTemp(other), other)
		}
	}
	for _, name := range []string{"", ".", "._", ".sealift-", ".sealift-.tmp", ".sealift-0.tmp", ".sealift-journal", ".sealift-bad-0123456789abcdef.tmp", ".sealift-0123456789abcdef-.tmp"} {
		require.False(t, IsTemp(name), name)
	}
}

func TestIsJournal(t *testing.T) {
	for name, want := range map[string]bool{
		".sealift-journal": true, ".Sealift-Journal": true, ".sealift-clip.mov.journal": true, ".sealift-journal.journal": true,
		".sealift-.journal": false, ".sealift-xjournal": false, "journal": false, ".sealift-": false, ".sealift-journal2": false, "x.sealift-journal": false,
	} {
		require.Equal(t, want, IsJournal(name), name)
	}
}
