package shard

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestIndexesAreWrittenAsSbatchTakesThem(t *testing.T) {
	for want, indexes := range map[string][]int{
		"":             nil,
		"0":            {0},
		"0-3,7,9-12":   {0, 1, 2, 3, 7, 9, 10, 11, 12},
		"1,3,5":        {1, 3, 5},
		"99998-99999":  {99998, 99999},
		"0-1,3-4,6,10": {0, 1, 3, 4, 6, 10},
	} {
		assert.Equal(t, want, FormatIndexes(indexes))
	}
}

// inLargerCluster is inCluster with a plan of five shards.
func inLargerCluster(t *testing.T, test func(c *cluster)) {
	path := filepath.Join(t.TempDir(), "plan")
	require.NoError(t, os.Mkdir(path, 0o700))
	require.NoError(t, planIn(nil, path, 5))
	synctest.Test(t, func(t *testing.T) { test(&cluster{t, path, time.Now()}) })
}

func (c *cluster) beginShard(s *Store, index int) *Attempt {
	a, err := s.Begin(c.Context(), index, c.options())
	require.NoError(c, err)
	return a
}

func TestProgressHasTheStateOfEachShard(t *testing.T) {
	inLargerCluster(t, func(c *cluster) {
		s := c.store(nil)
		a := c.beginShard(s, 1)
		defer a.Close()
		require.NoError(c, c.beginShard(s, 2).End())
		failed := c.beginShard(s, 3)
		require.NoError(c, failed.Finish(Finished{Failures: min(1, s.Plan.Shards[3].Entries)}))
		failed.Close()
		p, err := s.Progress(c.Context())
		require.NoError(c, err)
		want := Progress{
			{State: NotBegun}, {State: Begun, Attempts: 1}, {State: Stopped, Attempts: 1},
			{State: Done, Attempts: 1, Failures: min(1, s.Plan.Shards[3].Entries)}, {State: NotBegun},
		}
		assert.Equal(c, want, p)
		assert.Equal(c, "0-2,4", FormatIndexes(p.Unfinished()))
		assert.Equal(c, 1, p.Count(Begun))
		if s.Plan.Shards[3].Entries > 0 {
			assert.Equal(c, []int{3}, p.Failed())
		}
	})
}

// Waiting ends when the last shard is finished. It reports a shard whose task has died, and
// goes on waiting: another task may take it over.
func TestWaitingEndsWithTheLastShard(t *testing.T) {
	inLargerCluster(t, func(c *cluster) {
		s := c.store(nil)
		for i := 1; i < 5; i++ {
			a := c.beginShard(s, i)
			require.NoError(c, a.Finish(Finished{}))
			a.Close()
		}
		c.beginShard(s, 0).Close() // and never renews
		var states []State
		go func() {
			time.Sleep(3 * dead)
			a := c.beginShard(s, 0)
			if err := a.Finish(Finished{}); err != nil {
				c.Error(err)
			}
			a.Close()
		}()
		require.NoError(c, c.store(nil).Wait(c.Context(), c.options(), func(p Progress) { states = append(states, p[0].State) }))
		assert.Equal(c, []State{Begun, Stopped}, states[:2])
		assert.Equal(c, Done, states[len(states)-1])
		assert.Greater(c, c.now(), 3*dead)
		assert.Less(c, c.now(), 5*dead)
	})
}

func TestWaitingEndsWithItsContext(t *testing.T) {
	inLargerCluster(t, func(c *cluster) {
		stop := errors.New("stop")
		ctx, cancel := context.WithCancelCause(c.Context())
		time.AfterFunc(10*dead, func() { cancel(stop) })
		require.ErrorIs(c, c.store(nil).Wait(ctx, c.options(), nil), stop)
		assert.Equal(c, 10*dead, c.now())
	})
}

func TestATaskAtWorkIsFoundAndAKilledOneIsNot(t *testing.T) {
	inLargerCluster(t, func(c *cluster) {
		s := c.store(nil)
		_, found, err := s.FindAlive(c.Context(), c.options())
		require.NoError(c, err)
		assert.False(c, found)
		assert.Zero(c, c.now(), "no attempt has begun, so there is nothing to observe")

		c.beginShard(s, 2).Close()
		_, found, err = s.FindAlive(c.Context(), c.options())
		require.NoError(c, err)
		assert.False(c, found, "it has not renewed its counter")
		assert.GreaterOrEqual(c, c.now(), dead)

		a := c.beginShard(s, 3)
		defer a.Close()
		ctx, stop := context.WithCancel(c.Context())
		defer stop()
		go func() { _ = a.KeepRenewed(ctx) }()
		index, found, err := c.store(nil).FindAlive(c.Context(), c.options())
		require.NoError(c, err)
		assert.True(c, found)
		assert.Equal(c, 3, index)
	})
}
