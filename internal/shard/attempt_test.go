package shard

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/fsys"
)

const dead = 80 * time.Second // how long an attempt waits for a lock

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
	return AttemptOptions{Patience: dead, Clock: c.now}
}

func (c *cluster) begin(s *Store) *Attempt {
	a, err := s.Begin(c.Context(), 0, c.options())
	require.NoError(c, err)
	return a
}

func isFinished(err error) bool { return errors.As(err, new(*FinishedError)) }

func (c *cluster) status(s *Store) Report {
	r, err := s.Status(0)
	require.NoError(c, err)
	return r
}

// A shard runs again only if its last record has failures. Each record stays, and the last counts.
func TestRecordsOfAShard(t *testing.T) {
	inCluster(t, func(c *cluster) {
		s := c.store(nil)
		a := c.begin(s)
		assert.Equal(c, 1, a.Number)
		assert.Empty(c, a.Earlier)
		assert.Equal(c, Report{State: Begun, Attempts: 1}, c.status(s))
		require.NoError(c, a.Finish(Finished{Failures: 2}))
		require.NoError(c, a.End())
		b := c.begin(s)
		assert.EqualValues(c, 2, b.Former.Failures)
		assert.EqualValues(c, 2, c.status(s).Finished.Failures, "the first record stays")
		require.NoError(c, b.Finish(Finished{Conflicts: 1}))
		require.NoError(c, b.End())
		_, err := s.Begin(c.Context(), 0, c.options())
		assert.True(c, isFinished(err), "%v", err)
		status := c.status(s)
		assert.Equal(c, []int{2, 2}, []int{status.Attempts, status.Finished.Attempt})
		assert.Equal(c, s.Plan.ID, status.Finished.Plan)
		assert.FileExists(c, filepath.Join(c.path, "work/00000/finished-1"))
		assert.Zero(c, c.now())
	})
}

// The lock is waited for, but not for ever. An attempt that has begun afterwards counts.
func TestALockIsWaitedFor(t *testing.T) {
	inCluster(t, func(c *cluster) {
		a := c.begin(c.store(nil))
		time.AfterFunc(3500*time.Millisecond, a.Close)
		o := c.options()
		waited := 0
		o.Waiting = func() { waited++ }
		b, err := c.store(nil).Begin(c.Context(), 0, o)
		require.NoError(c, err)
		assert.Equal(c, 4*time.Second, c.now())
		assert.Equal(c, 1, waited)

		d := c.begin(c.store(nil)) // b has the lock and never releases it
		assert.Equal(c, 4*time.Second+dead, c.now())
		assert.Equal(c, 3, d.Number)
		require.NoError(c, d.Finish(Finished{}))
		require.ErrorIs(c, b.Finish(Finished{}), ErrSuperseded)
		b.Close()
		d.Close()
	})
}

// An error of the lock call is a warning, and the attempt begins.
func TestALockThatIsRefused(t *testing.T) {
	inCluster(t, func(c *cluster) {
		for _, cause := range []syscall.Errno{syscall.ENOTSUP, syscall.EIO} {
			o := c.options()
			var warnings []error
			o.Warn = func(err error) { warnings = append(warnings, err) }
			a, err := c.store(func(call fsys.Call) error {
				if call.Op == fsys.OpLock {
					return cause
				}
				return nil
			}).Begin(c.Context(), 0, o)
			require.NoError(c, err)
			require.Len(c, warnings, 1)
			require.ErrorIs(c, warnings[0], cause)
			assert.Zero(c, c.now())
			a.Close()
		}
	})
}

// A finish record that exists because NFS has repeated the request is that of the attempt.
func TestARepeatedRequestIsASuccess(t *testing.T) {
	inCluster(t, func(c *cluster) {
		var again *Attempt
		s := c.store(func(call fsys.Call) error {
			if call.Op == fsys.OpLink && call.Name == "finished-1" && again != nil {
				require.NoError(c, os.Link(filepath.Join(c.path, "work/00000/000001/candidate"), filepath.Join(c.path, "work/00000/finished-1")))
			}
			return nil
		})
		again = c.begin(s)
		require.NoError(c, again.Finish(Finished{}))
		again.Close()
	})
}

// A record that another process has made is none of the attempt, also where an old view hid it before.
func TestARecordOfAnotherAttemptCounts(t *testing.T) {
	inCluster(t, func(c *cluster) {
		foreign := false
		s := c.store(func(call fsys.Call) error {
			if call.Op == fsys.OpLink && call.Name == "finished-1" && foreign {
				require.NoError(c, os.WriteFile(filepath.Join(c.path, "work/00000/finished-1"), []byte("{}"), 0o600))
			}
			return nil
		})
		a := c.begin(s)
		foreign = true
		require.ErrorIs(c, a.Finish(Finished{}), ErrSuperseded)
		a.Close()
	})
}

// An attempt that was stopped before it links its record finishes nothing when a higher one has begun.
func TestAStoppedAttemptCannotFinish(t *testing.T) {
	inCluster(t, func(c *cluster) {
		var b *Attempt
		s := c.store(func(call fsys.Call) error {
			if call.Op == fsys.OpLink && call.Name == "finished-1" && b == nil {
				o := c.options()
				o.Patience = 1
				var err error
				b, err = c.store(nil).Begin(c.Context(), 0, o)
				require.NoError(c, err)
			}
			return nil
		})
		a := c.begin(s)
		require.ErrorIs(c, a.Finish(Finished{}), ErrSuperseded)
		a.Close()
		require.NoError(c, b.Finish(Finished{}))
		b.Close()
		assert.Equal(c, 2, c.status(s).Finished.Attempt)
	})
}

// No attempt finishes a shard of a plan that has ended.
func TestAnEndedPlanStaysEnded(t *testing.T) {
	inCluster(t, func(c *cluster) {
		s := c.store(nil)
		a := c.begin(s)
		require.NoError(c, s.SetEnd(End{Conflicts: 3}))
		require.NoError(c, s.SetEnd(End{Abandoned: true}), "the first record stays")
		end, err := s.End()
		require.NoError(c, err)
		assert.Equal(c, &End{Conflicts: 3}, end)
		require.ErrorIs(c, a.Finish(Finished{}), ErrMerged)
		a.Close()
	})
}

// A record that is not of the shard, or not of the plan, is refused.
func TestAForeignRecordIsRefused(t *testing.T) {
	inCluster(t, func(c *cluster) {
		s := c.store(nil)
		a := c.begin(s)
		require.NoError(c, a.Finish(Finished{}))
		a.Close()
		name := filepath.Join(c.path, "work/00000/finished-1")
		own, err := os.ReadFile(name)
		require.NoError(c, err)
		for _, change := range []string{`"plan":"` + s.Plan.ID, `"shard":0`, `"attempt":1`, `"failures":0`} {
			foreign := strings.Replace(string(own), change, map[byte]string{'p': `"plan":"0`, 's': `"shard":1`, 'a': `"attempt":0`, 'f': `"failures":-1`}[change[1]], 1)
			require.NotEqual(c, string(own), foreign)
			require.NoError(c, os.WriteFile(name, []byte(foreign), 0o600))
			_, err := s.Status(0)
			require.ErrorContains(c, err, "not of this shard", change)
			_, err = s.Begin(c.Context(), 0, c.options())
			require.ErrorContains(c, err, "not of this shard", change)
		}
	})
}

// Begin stops waiting when its context ends.
func TestBeginIsInterrupted(t *testing.T) {
	inCluster(t, func(c *cluster) {
		a := c.begin(c.store(nil))
		defer a.Close()
		stop := errors.New("stopped")
		ctx, cancel := context.WithCancelCause(c.Context())
		time.AfterFunc(dead/2, func() { cancel(stop) })
		_, err := c.store(nil).Begin(ctx, 0, c.options())
		require.ErrorIs(c, err, stop)
		assert.Equal(c, 1, c.status(c.store(nil)).Attempts)
	})
}

// Names of temporaries say of which attempt they are.
func TestTemporariesOfLowerAttempts(t *testing.T) {
	inCluster(t, func(c *cluster) {
		s := c.store(nil)
		a := c.begin(s)
		a.Close()
		b := c.begin(s)
		defer b.Close()
		name := func(id string) string { return fsys.Reserved + id + "-0000000a.tmp" }
		assert.True(c, b.Precedes(name(a.TempID())))
		assert.False(c, b.Precedes(name(b.TempID())))
		assert.False(c, b.Precedes(name(s.tempID(1, 1))), "of another shard")
		assert.True(c, OwnsTemp(s.Plan.ID, name(a.TempID())))
		assert.False(c, OwnsTemp("f"+s.Plan.ID[1:], name("e"+a.TempID()[1:])))
		assert.False(c, OwnsTemp(s.Plan.ID, "x"))
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
						if err != nil && !errors.Is(err, ErrSuperseded) {
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
