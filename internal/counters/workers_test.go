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
	w.End()
	require.Nil(t, c.Current(nil))
}
