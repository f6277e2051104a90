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
		require.NoError(c, failed.Finish(Finished{Failures: 1}))
		failed.Close()
		p, err := s.Progress(c.Context())
		require.NoError(c, err)
		var states []State
		for _, r := range p {
			states = append(states, r.State)
		}
		assert.Equal(c, []State{NotBegun, Begun, Stopped, Done, NotBegun}, states)
		assert.Equal(c, "1 finished, 1 in progress, 1 stopped, 2 not begun", p.String())
		assert.Equal(c, "0-2,4", FormatIndexes(p.Unfinished()))
		assert.Equal(c, 1, p.Count(Begun))
		assert.Equal(c, []int{3}, p.Failed())
		assert.Equal(c, []int{0, 1, 2, 3, 4}, p.ToRun())
	})
}

// Waiting ends when the last shard is finished.
func TestWaitingEndsWithTheLastShard(t *testing.T) {
	inLargerCluster(t, func(c *cluster) {
		s := c.store(nil)
		for i := range 4 {
			a := c.beginShard(s, i)
			require.NoError(c, a.Finish(Finished{}))
			a.Close()
		}
		var states []State
		go func() {
			time.Sleep(dead)
			a := c.beginShard(s, 4)
			time.Sleep(dead)
			if err := a.Finish(Finished{}); err != nil {
				c.Error(err)
			}
			a.Close()
		}()
		last, err := c.store(nil).Wait(c.Context(), time.Minute, func(p Progress) { states = append(states, p[4].State) })
		require.NoError(c, err)
		assert.Empty(c, last.Unfinished())
		assert.Equal(c, []State{NotBegun, Begun, Done}, states)
		assert.Equal(c, 3*time.Minute, c.now())
	})
}

func TestWaitingEndsWithItsContext(t *testing.T) {
	inLargerCluster(t, func(c *cluster) {
		stop := errors.New("stop")
		ctx, cancel := context.WithCancelCause(c.Context())
		time.AfterFunc(10*dead, func() { cancel(stop) })
		_, err := c.store(nil).Wait(ctx, time.Minute, func(Progress) {})
		require.ErrorIs(c, err, stop)
		assert.Equal(c, 10*dead, c.now())
	})
}
