package shard

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/fsys"
)

const dead = 80 * time.Second

// cluster is a plan on storage that several nodes share. It is used in a bubble of virtual time.
type cluster struct {
	*testing.T
	path  string
	begun time.Time
}

// inCluster runs a test in virtual time with a plan of one shard that has three entries.
func inCluster(t *testing.T, test func(c *cluster)) {
	path := filepath.Join(t.TempDir(), "plan")
	require.NoError(t, os.Mkdir(path, 0o700))
	require.NoError(t, planIn(nil, path, 1))
	synctest.Test(t, func(t *testing.T) { test(&cluster{t, path, time.Now()}) })
}

// store opens the plan as another node would. fault is called before each of its operations.
func (c *cluster) store(fault func(fsys.Call) error) *Store {
	dir, err := (&fsys.FS{Fault: fault}).OpenRoot(c.path)
	require.NoError(c, err)
	c.Cleanup(dir.Close)
	s, err := Open(dir)
	require.NoError(c, err)
	return s
}

func (c *cluster) now() time.Duration { return time.Since(c.begun) }

func (c *cluster) options() AttemptOptions {
	return AttemptOptions{Dead: dead, Clock: c.now}
}

func (c *cluster) begin(s *Store) *Attempt {
	a, err := s.Begin(c.Context(), 0, c.options())
	require.NoError(c, err)
	return a
}

func isFinished(err error) bool { return errors.As(err, new(*FinishedError)) }

func TestAFinishedShardIsNotBegunAgain(t *testing.T) {
	inCluster(t, func(c *cluster) {
		s := c.store(nil)
		a := c.begin(s)
		assert.Equal(c, 1, a.Number)
		assert.Empty(c, a.Earlier)
		status, err := s.Status(0)
		require.NoError(c, err)
		assert.Equal(c, Status{Attempts: 1}, status)
		require.NoError(c, a.Finish(Finished{Failures: 2}))
		a.Close()
		_, err = s.Begin(c.Context(), 0, c.options())
		assert.True(c, isFinished(err), "%v", err)
		status, err = s.Status(0)
		require.NoError(c, err)
		assert.Equal(c, 1, status.Attempts)
		assert.EqualValues(c, 2, status.Finished.Failures)
		assert.Equal(c, s.Plan.ID, status.Finished.Plan)
		assert.Zero(c, c.now())
	})
}

func TestALivingAttemptIsNotTakenOver(t *testing.T) {
	inCluster(t, func(c *cluster) {
		a := c.begin(c.store(nil))
		ctx, stop := context.WithCancel(c.Context())
		kept := make(chan error)
		go func() { kept <- a.KeepRenewed(ctx) }()
		result := make(chan error)
		other := c.store(nil)
		go func() {
			_, err := other.Begin(c.Context(), 0, c.options())
			result <- err
		}()
		select {
		case err := <-result:
			c.Fatalf("a second attempt after %v: %v", c.now(), err)
		case <-time.After(20 * dead):
		}
		require.NoError(c, a.MayCommit())
		require.NoError(c, a.Finish(Finished{}))
		stop()
		require.NoError(c, <-kept)
		a.Close()
		assert.True(c, isFinished(<-result))
	})
}

func TestADeadAttemptIsTakenOver(t *testing.T) {
	inCluster(t, func(c *cluster) {
		first := c.begin(c.store(nil))
		defer first.Close()
		time.Sleep(dead / 4)
		require.NoError(c, first.Renew())
		renewed := c.now()
		time.Sleep(dead/2 - 1)
		require.NoError(c, first.MayCommit())
		time.Sleep(1 * time.Nanosecond)
		require.ErrorIs(c, first.MayCommit(), ErrRightLost)
		require.ErrorIs(c, first.Renew(), ErrRightLost, "a right that was lost does not come back")

		looked := c.now()
		second := c.begin(c.store(nil))
		assert.Equal(c, 2, second.Number)
		assert.GreaterOrEqual(c, c.now()-looked, dead, "the observer counts from its own first read")
		assert.Less(c, c.now()-looked, dead+dead/4)
		assert.Greater(c, c.now()-renewed, dead)
		assert.Equal(c, []Earlier{{Number: 1, TempID: first.TempID()}}, second.Earlier)
		assert.NotEqual(c, first.TempID(), second.TempID())
		require.ErrorIs(c, first.Finish(Finished{}), ErrSuperseded)
		require.NoError(c, second.Finish(Finished{}))
		second.Close()
	})
}

// An attempt that has made its directory and nothing else is dead after the same time.
func TestAnAttemptWithoutACounterIsTakenOver(t *testing.T) {
	inCluster(t, func(c *cluster) {
		require.NoError(c, os.Mkdir(filepath.Join(c.path, workName, "00000", "000001"), 0o700))
		a := c.begin(c.store(nil))
		defer a.Close()
		assert.Equal(c, 2, a.Number)
		assert.GreaterOrEqual(c, c.now(), dead)
	})
}

func TestAnAttemptThatEndedIsTakenOverAtOnce(t *testing.T) {
	inCluster(t, func(c *cluster) {
		s := c.store(nil)
		a := c.begin(s)
		require.NoError(c, a.End())
		b := c.begin(s)
		defer b.Close()
		assert.Zero(c, c.now())
		require.Len(c, b.Earlier, 1)
		assert.True(c, b.Earlier[0].Ended)
	})
}

func TestOneOfTwoObserversTakesOver(t *testing.T) {
	inCluster(t, func(c *cluster) {
		c.begin(c.store(nil)).Close()
		type begun struct {
			number int
			at     time.Duration
		}
		results := make(chan begun)
		for range 2 {
			s := c.store(nil)
			go func() {
				a, err := s.Begin(c.Context(), 0, c.options())
				assert.NoError(c, err)
				a.Close()
				results <- begun{a.Number, c.now()}
			}()
		}
		one, two := <-results, <-results
		assert.Equal(c, 2, one.number)
		assert.Equal(c, 3, two.number)
		assert.GreaterOrEqual(c, two.at-one.at, dead, "the other one waits until that one is dead")
	})
}

// The process is stopped (SIGSTOP) when it has checked its right and before it links its record.
// When it continues, another attempt has begun.
func TestAStoppedAttemptCannotFinish(t *testing.T) {
	inCluster(t, func(c *cluster) {
		resume := make(chan struct{})
		stopped := c.begin(c.store(func(call fsys.Call) error {
			if call.Op == fsys.OpLink && call.Name == finishedName {
				<-resume
			}
			return nil
		}))
		defer stopped.Close()
		result := make(chan error)
		go func() { result <- stopped.Finish(Finished{}) }()
		synctest.Wait()
		second := c.begin(c.store(nil))
		close(resume)
		require.ErrorIs(c, <-result, ErrSuperseded)
		status, err := second.store.Status(0)
		require.NoError(c, err)
		assert.Nil(c, status.Finished)
		require.NoError(c, second.Finish(Finished{}))
		second.Close()
	})
}

// The process is stopped in the same way, but it links its record before the successor removes the
// candidate. Then the successor does not begin.
func TestARecordBeforeTheFenceCounts(t *testing.T) {
	inCluster(t, func(c *cluster) {
		first := c.begin(c.store(nil))
		defer first.Close()
		require.NoError(c, writeFile(first.Dir, candidateName, recordOf(first)))
		linked := false
		late := c.store(func(call fsys.Call) error {
			if call.Op == fsys.OpRemove && call.Name == candidateName {
				linked = true
				return first.Dir.Link(candidateName, first.attempts, finishedName)
			}
			return nil
		})
		_, err := late.Begin(c.Context(), 0, c.options())
		require.True(c, linked)
		assert.True(c, isFinished(err), "%v", err)
	})
}

func recordOf(a *Attempt) string {
	record := &Finished{Plan: a.store.Plan.ID, Shard: a.index, Attempt: a.Number}
	text, err := record.encode()
	if err != nil {
		panic(err)
	}
	return string(text)
}

func TestFailedRenewals(t *testing.T) {
	inCluster(t, func(c *cluster) {
		var failing atomic.Bool
		a := c.begin(c.store(func(call fsys.Call) error {
			if failing.Load() && call.Op == fsys.OpCreate {
				return syscall.ESTALE
			}
			return nil
		}))
		defer a.Close()
		kept := make(chan error, 1)
		go func() { kept <- a.KeepRenewed(c.Context()) }()
		time.Sleep(dead + 1)
		failing.Store(true) // two renewals fail
		time.Sleep(dead / 4)
		failing.Store(false)
		time.Sleep(5 * dead)
		require.NoError(c, a.MayCommit())
		failing.Store(true)
		begun := c.now()
		err := <-kept
		require.ErrorIs(c, err, ErrRightLost)
		require.ErrorIs(c, err, syscall.ESTALE)
		assert.LessOrEqual(c, c.now()-begun, dead/2+dead/renewals)
	})
}

// A renewal that takes longer than the right lasts does not renew it.
func TestALateRenewalDoesNotCount(t *testing.T) {
	inCluster(t, func(c *cluster) {
		slow := false
		a := c.begin(c.store(func(call fsys.Call) error {
			if slow && call.Op == fsys.OpSync {
				slow = false
				time.Sleep(dead * 5 / 8)
			}
			return nil
		}))
		defer a.Close()
		slow = true
		require.ErrorIs(c, a.Renew(), ErrRightLost)
	})
}

func TestALaterAttemptEndsTheRight(t *testing.T) {
	inCluster(t, func(c *cluster) {
		a := c.begin(c.store(nil))
		defer a.Close()
		require.NoError(c, a.attempts.Mkdir(attemptName(2)))
		require.ErrorIs(c, a.Renew(), ErrSuperseded)
		require.ErrorIs(c, a.MayCommit(), ErrSuperseded)
	})
}

func TestAFinishedShardCanRunAgain(t *testing.T) {
	inCluster(t, func(c *cluster) {
		s := c.store(nil)
		a := c.begin(s)
		require.NoError(c, a.Finish(Finished{Failures: 1}))
		require.NoError(c, a.End())
		o := c.options()
		o.Again = true
		b, err := s.Begin(c.Context(), 0, o)
		require.NoError(c, err)
		status, err := s.Status(0)
		require.NoError(c, err)
		assert.Equal(c, Status{Attempts: 2}, status)
		former, err := readPrivate(b.Dir, formerName, smallFile)
		require.NoError(c, err)
		record, err := s.parseFinished(former, 0)
		require.NoError(c, err)
		assert.EqualValues(c, 1, record.Failures)
		require.NoError(c, b.Finish(Finished{}))
		b.Close()
	})
}

// Begin stops waiting when its context ends.
func TestBeginIsInterrupted(t *testing.T) {
	inCluster(t, func(c *cluster) {
		c.begin(c.store(nil)).Close()
		stop := errors.New("stopped")
		ctx, cancel := context.WithCancelCause(c.Context())
		time.AfterFunc(dead/2, func() { cancel(stop) })
		_, err := c.store(nil).Begin(ctx, 0, c.options())
		require.ErrorIs(c, err, stop)
		status, err := c.store(nil).Status(0)
		require.NoError(c, err)
		assert.Equal(c, 1, status.Attempts)
	})
}

// Nodes are stopped for random times before random operations. A record is always that of the last
// attempt that has begun, and no later attempt begins after it.
func TestOnlyTheLastAttemptFinishes(t *testing.T) {
	rounds := 60
	if testing.Short() {
		rounds = 15
	}
	finished, takeovers := 0, 0
	for seed := range rounds {
		inCluster(t, func(c *cluster) {
			var mu sync.Mutex
			random := rand.New(rand.NewPCG(uint64(seed), 5))
			chance := func(n time.Duration) time.Duration {
				mu.Lock()
				defer mu.Unlock()
				return time.Duration(random.Int64N(int64(n)))
			}
			var last, winner int // attempts that have begun, and finished
			var nodes sync.WaitGroup
			for node := range 4 {
				s := c.store(func(fsys.Call) error {
					if c.now() > 0 && chance(40) == 0 {
						time.Sleep(chance(3 * dead))
					}
					return nil
				})
				nodes.Go(func() {
					time.Sleep(time.Duration(1 + node))
					for tries := 0; tries < 20; tries++ {
						a, err := s.Begin(c.Context(), 0, c.options())
						if isFinished(err) {
							return
						}
						require.NoError(c, err)
						mu.Lock()
						if winner > 0 { // it was stopped in Begin, before the winner began
							assert.Less(c, a.Number, winner)
						}
						last = max(last, a.Number)
						mu.Unlock()
						time.Sleep(chance(dead / 3))
						err = a.Finish(Finished{})
						mu.Lock()
						if err == nil {
							assert.Zero(c, winner)
							assert.Equal(c, last, a.Number, "a later attempt had begun")
							winner = a.Number
						}
						mu.Unlock()
						if err != nil && !errors.Is(err, ErrSuperseded) && !errors.Is(err, ErrRightLost) {
							assert.NoError(c, err)
						}
						a.Close()
					}
				})
			}
			nodes.Wait()
			if winner > 0 {
				finished++
			}
			takeovers += last - 1
		})
	}
	assert.Positive(t, finished)
	assert.Positive(t, takeovers)
	t.Logf("%d of %d finished, %d takeovers", finished, rounds, takeovers)
}
