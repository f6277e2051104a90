package journal

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/fsys"
)

func reread(t *testing.T, log []byte) *Log {
	t.Helper()
	l, err := Read(bytes.NewReader(log), int64(len(log)))
	require.NoError(t, err)
	require.NoError(t, l.Why)
	return l
}

// Written returns files that no checkpoint covers, also after further runs.
func TestWrittenFiles(t *testing.T) {
	s := newScribe(t)
	s.file(testFile("covered", 1))
	upto := s.w.Size()
	s.file(testFile("covered", 2)) // again, not covered yet
	s.file(testFile("loose", 3))
	s.checkpoint(upto, fsys.Time{Sec: 9})
	l := reread(t, s.bytes())
	f, at, ok, err := l.File("covered")
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, *testFile("covered", 1), f)
	require.Equal(t, fsys.Time{Sec: 9}, at)
	f, ok, err = l.Written("covered")
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, *testFile("covered", 2), f)
	f, ok, err = l.Written("loose")
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, *testFile("loose", 3), f)
	_, _, ok, err = l.File("loose")
	require.NoError(t, err)
	require.False(t, ok)

	s.continued()
	s.file(testFile("loose", 4))
	s.checkpoint(s.w.Size(), fsys.Time{Sec: 10})
	l = reread(t, s.bytes())
	f, _, ok, err = l.File("loose")
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, *testFile("loose", 4), f)
	_, _, ok, err = l.File("covered")
	require.NoError(t, err)
	require.True(t, ok)
	f, ok, err = l.Written("covered")
	require.NoError(t, err)
	require.True(t, ok, "it stays what can be proved")
	require.Equal(t, *testFile("covered", 2), f)
}

func TestWrittenPartials(t *testing.T) {
	s := newScribe(t)
	durable, written := testPartial("a", 5), testPartial("a", 5)
	written.Offset++
	written.Size++
	s.partial(durable)
	require.NoError(t, s.w.Written(written))
	require.NoError(t, s.w.Written(testPartial("b", 6)))
	l := reread(t, s.bytes())
	p, ok := l.Partial("a")
	require.True(t, ok)
	require.Equal(t, *durable, p)
	p, ok = l.WrittenPartial("a")
	require.True(t, ok)
	require.Equal(t, *written, p)
	_, ok = l.Partial("b")
	require.False(t, ok)
	temps := map[string]bool{}
	for p := range l.Partials() {
		temps[p.Path] = true
	}
	require.Equal(t, map[string]bool{"a": true, "b": true}, temps)

	s.done("a")
	s.done("b")
	l = reread(t, s.bytes())
	require.Empty(t, l.partials)
	require.Empty(t, l.written)
	require.Zero(t, l.held)
}
