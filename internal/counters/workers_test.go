package counters

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheCurrentFileStaysUntilItIsDone(t *testing.T) {
	c := &Set{CountTotals: true}
	require.Nil(t, c.Current(nil), "no workers")
	a, b := c.NewWorker(), c.NewWorker()
	require.Nil(t, c.Current(nil), "no file is under way")
	b.Begin("large")
	shown := c.Current(nil)
	require.Equal(t, "large", *shown)
	for range 3 {
		a.Begin("small")
		require.Equal(t, "large", *c.Current(shown))
		a.End()
	}
	a.Begin("small")
	b.Begin("large") // the same name again is another file
	require.Equal(t, "small", *c.Current(shown))
	a.End()
	b.End()
	require.Nil(t, c.Current(shown))
}

func TestNoFileIsNamedWhereNothingIsShown(t *testing.T) {
	c := &Set{}
	w := c.NewWorker()
	require.Nil(t, w)
	w.Begin("a")
	w.Reached(1, 2)
	w.End()
	require.Nil(t, c.Current(nil))
	require.Empty(t, c.Running())
}

func TestRunningFiles(t *testing.T) {
	c := &Set{CountTotals: true}
	a, b := c.NewWorker(), c.NewWorker()
	a.Begin("a")
	b.Begin("b")
	require.Empty(t, c.Running(), "nothing is read yet")
	a.Reached(0, 10)
	b.Reached(5, 20)
	b.Reached(6, 20)
	require.Equal(t, []Running{{"a", 0, 10}, {"b", 6, 20}}, c.Running())
	b.End()
	b.Begin("c")
	require.Equal(t, []Running{{"a", 0, 10}}, c.Running())
}
