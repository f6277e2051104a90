package journal

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/treetest"
)

func TestTooManyPartials(t *testing.T) {
	s := newScribe(t)
	p := testPartial("", 1)
	for i := range maxPartials {
		p.Path = fmt.Sprint(i)
		require.NoError(t, s.w.Partial(p))
	}
	p.Path = "0"
	p.Size++ // instead of one in force
	require.NoError(t, s.w.Partial(p))
	require.NoError(t, s.w.Done("1"))
	p.Path = "new"
	require.NoError(t, s.w.Partial(p))
	good := s.w.Size()
	p.Path = "one too many"
	require.NoError(t, s.w.Partial(p))
	log := s.bytes()
	l, err := Read(bytes.NewReader(log), int64(len(log)))
	require.NoError(t, err)
	require.Equal(t, good, l.Size)
	require.ErrorContains(t, l.Why, "too many partials")
	require.Len(t, l.partials, maxPartials)
}

// Partials are counted with the bytes of their lines. One that replaces another, or is
// done, gives its bytes back.
func TestPartialsOfTooManyBytesAreRefused(t *testing.T) {
	s := newScribe(t)
	p := testPartial("", 1)
	for _, path := range []string{"a", "a", "\n\n\n", "b"} {
		p.Path = path
		require.NoError(t, s.w.Partial(p))
	}
	log := s.bytes()
	lines := bytes.Split(bytes.TrimSuffix(log, []byte("\n")), []byte("\n"))
	require.Len(t, lines, 5, "a header and four partials")
	l, err := Read(bytes.NewReader(log), int64(len(log)))
	require.NoError(t, err)
	require.Equal(t, len(lines[2])+len(lines[3])+len(lines[4]), l.held)

	require.NoError(t, l.takePartialOf(lines[4], maxPartialBytes), "it replaces one that is as long")
	p.Path = "c"
	require.NoError(t, s.w.Partial(p))
	fourth := s.bytes()[len(log):]
	fourth = bytes.TrimSuffix(fourth, []byte("\n"))
	require.NoError(t, l.takePartialOf(fourth, maxPartialBytes-len(fourth)))
	require.ErrorContains(t, l.takePartialOf(lines[3], maxPartialBytes+1), "too many partials")
	l.drop("c")
	require.Equal(t, maxPartialBytes+1-len(fourth), l.held)
}

// takePartialOf takes the line of a partial when those in force have so many bytes.
func (l *Log) takePartialOf(line []byte, held int) error {
	l.held = held
	return l.take(line)
}

func TestTooLongPartials(t *testing.T) {
	if !treetest.Large() {
		t.Skip("a log of 64 MiB")
	}
	s := newScribe(t)
	p := testPartial("", 1)
	name := func(i int) string { return strings.Repeat("\n", MaxPath-1) + string(rune('0'+i)) }
	fit := (maxPartialBytes - 1) / (2 * MaxPath) // one more would be just too long
	for i := range fit {
		p.Path = name(i)
		require.NoError(t, s.w.Partial(p))
	}
	require.NoError(t, s.w.Partial(p))    // the earlier one does not count
	require.NoError(t, s.w.Done(name(0))) // nor do those that are done
	p.Path = name(fit)
	require.NoError(t, s.w.Partial(p))
	good := s.w.Size()
	p.Path = name(fit + 1)
	require.NoError(t, s.w.Partial(p))
	log := s.bytes()
	l, err := Read(bytes.NewReader(log), int64(len(log)))
	require.NoError(t, err)
	require.Equal(t, good, l.Size)
	require.ErrorContains(t, l.Why, "too many partials")
}
