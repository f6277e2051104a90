package jobs

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed65876f4f/sealift/internal/counters"
)

type task struct {
	number int64
	device int
	err    error
}

// run does so many tasks on each device, and returns how many it has sent.
func run(ctx context.Context, devices, workers, tasks int, do func(*task), collect func(*task, bool)) int64 {
	var sent atomic.Int64
	Run(ctx, &Options[*task]{
		Devices: devices, Workers: workers, Counters: &counters.Set{},
		Produce: func(send func(int, *task)) {
			var all sync.WaitGroup
			for device := range devices {
				all.Go(func() {
					for i := range tasks {
						if ctx.Err() != nil {
							return
						}
						sent.Add(1)
						send(device, &task{number: int64(device*tasks + i), device: device})
					}
				})
			}
			all.Wait()
		},
		Work: func(device int, list iter.Seq[*task]) {
			for j := range list {
				if j.device != device {
					panic("a job of another device")
				}
				do(j)
			}
		},
		Collect: collect,
	})
	return sent.Load()
}

// Results of workers that finish in any order are reported in the order of their numbers. The error of
// a job does not affect the others.
func TestResultsAreInOrder(t *testing.T) {
	defer goleak.VerifyNone(t)
	const devices, tasks = 3, 500
	for _, workers := range []int{1, 4} {
		var reported []string
		order := NewOrder(1<<20, func(*task) int { return 100 }, func(j *task) {
			reported = append(reported, fmt.Sprint(j.number, j.err))
		})
		run(t.Context(), devices, workers, tasks, func(j *task) {
			if j.number%7 == 0 {
				j.err = errors.New("bad")
			}
			time.Sleep(time.Duration(rand.IntN(20)) * time.Microsecond) //nolint:gosec // no secret
		}, func(j *task, done bool) {
			if done && j.number%3 != 0 {
				order.Done(j.number, j)
			} else {
				order.Skip(j.number)
			}
		})
		var want []string
		for number := range int64(devices * tasks) {
			if err := error(nil); number%3 != 0 {
				if number%7 == 0 {
					err = errors.New("bad")
				}
				want = append(want, fmt.Sprint(number, err))
			}
		}
		require.Equal(t, want, reported)
	}
}

// Indexes on one device share its workers.
func TestByDevice(t *testing.T) {
	devices := []uint64{7, 3, 7, 3, 1}
	groups := ByDevice(len(devices), func(i int) uint64 { return devices[i] })
	require.Equal(t, [][]int{{0, 2}, {1, 3}, {4}}, groups)
	require.Empty(t, ByDevice(0, nil))
}

// Each device has its own workers: no more than the limit, and a device whose workers all wait
// does not stop another one.
func TestDevicesHaveTheirOwnWorkers(t *testing.T) {
	defer goleak.VerifyNone(t)
	const workers, tasks = 3, 100
	var busy, most [2]atomic.Int64
	var fast atomic.Int64
	otherIsFinished := make(chan struct{})
	run(t.Context(), 2, workers, tasks, func(j *task) {
		most[j.device].Store(max(most[j.device].Load(), busy[j.device].Add(1)))
		defer busy[j.device].Add(-1)
		if j.device == 0 {
			<-otherIsFinished
		} else if fast.Add(1) == tasks {
			for busy[0].Load() < workers { // they wait for the other device
				time.Sleep(time.Millisecond)
			}
			close(otherIsFinished)
		}
	}, func(*task, bool) {})
	require.EqualValues(t, workers, most[0].Load())
	require.LessOrEqual(t, most[1].Load(), int64(workers))
}

// Every job that was sent is collected once, also after the end of the context. The jobs that
// are not finished then are marked, and results that waited for them are reported.
func TestStop(t *testing.T) {
	defer goleak.VerifyNone(t)
	const tasks = 100_000
	for _, after := range []int64{0, 1, 50} {
		ctx, cancel := context.WithCancel(t.Context())
		var begun atomic.Int64
		collected := int64(0)
		seen := map[int64]bool{}
		var reported []int64
		order := NewOrder(1<<20, func(*task) int { return 100 }, func(j *task) { reported = append(reported, j.number) })
		if after == 0 {
			cancel()
		}
		sent := run(ctx, 2, 2, tasks, func(j *task) {
			if j.number == 0 { // the results of the others wait for it
				<-ctx.Done()
			}
			if begun.Add(1) == after {
				cancel()
			}
		}, func(j *task, done bool) {
			require.False(t, seen[j.number])
			seen[j.number] = true
			if collected++; done {
				order.Done(j.number, j)
			} else {
				order.Skip(j.number)
			}
			if after == 1 {
				cancel()
			}
		})
		require.Equal(t, sent, collected)
		require.Less(t, sent, int64(tasks))
		require.False(t, slices.Contains(reported, 0))
		require.True(t, slices.IsSorted(reported))
		if after == 50 {
			require.NotEmpty(t, reported)
		}
		cancel()
	}
}

// Path is asked only if names are shown, and only for jobs that begin.
func TestFilesInProgressAreShown(t *testing.T) {
	for _, shows := range []bool{true, false} {
		c, asked := &counters.Set{CountTotals: shows}, 0
		ahead := false
		Run(t.Context(), &Options[string]{
			Devices: 1, Workers: 1, Counters: c,
			Path:    func(name string) string { asked++; return name },
			Ahead:   func(context.Context) bool { ahead = true; return true },
			Produce: func(send func(int, string)) { send(0, "a"); send(0, "") },
			Work: func(_ int, list iter.Seq[string]) {
				for name := range list {
					current := c.Current(nil)
					require.Equal(t, shows && name != "", current != nil)
				}
			},
			Collect: func(string, bool) {},
		})
		require.Equal(t, shows, ahead)
		require.Equal(t, shows, asked == 2)
	}
}

// Work that is far ahead of the next result waits, so that its results do not fill the memory. Work on
// one of the next results never waits.
func TestWaitingResultsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const held, size = ahead + 100, 300
		reported := 0
		o := NewOrder(held*size, func(int) int { return size }, func(int) { reported++ })
		for number := range int64(held) {
			require.False(t, o.IsFull())
			o.Wait(1 + number)
			o.Done(1+number, 1)
		}
		require.True(t, o.IsFull())
		o.Wait(ahead)
		waited := make(chan struct{})
		go func() {
			o.Wait(held + 1)
			close(waited)
		}()
		synctest.Wait()
		select {
		case <-waited:
			t.Fatal("the work went on")
		default:
		}
		o.Skip(0)
		<-waited
		require.Equal(t, held, reported)
		require.False(t, o.IsFull())
		require.Zero(t, o.mu.held)
	})
}
