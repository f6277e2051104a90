package walk

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/fsys/faultfs"
)

func TestCancellationAtAnyInstant(t *testing.T) {
	defer goleak.VerifyNone(t)
	var paths []string
	for i := range 120 {
		paths = append(paths, fmt.Sprintf("d%d/e%d/f%d", i%7, i%5, i), fmt.Sprintf("g%d", i))
	}
	root := tree(t, paths...)
	for _, c := range []struct {
		workers int
		found   bool
	}{{1, false}, {4, false}, {1, true}, {4, true}} {
		workers := c.workers
		for at := int64(0); at < 300; at += 1 + at/20 {
			before := openFiles(t)
			ctx, cancel := context.WithCancel(context.Background())
			if at == 0 {
				cancel()
			}
			var calls, until atomic.Int64 // until the end of the context
			var ended atomic.Bool
			v := newRecorder()
			step := func() {
				if ended.Load() {
					t.Error("Entry or Enter after Walk has returned")
				}
				if calls.Add(1) == at {
					cancel()
					until.Store(calls.Load()) // the others went on meanwhile
				}
			}
			v.onEnter = func(*Dir) bool { step(); return true }
			v.onEntry = func(*Dir, string) { step() }
			r := openRoot(t, nil, root, 3, v)
			o := Options{Workers: workers}
			if c.found {
				o.Found = v.found
			}
			Walk(ctx, r, o)
			ended.Store(true)
			<-v.left
			cancel()
			requireOrderly(t, v)
			if late := calls.Load() - until.Load(); until.Load() > 0 && late > int64(2*workers) {
				t.Errorf("%d calls after the cancellation", late)
			}
			require.Equal(t, before, openFiles(t), "descriptors")
		}
	}
}

func TestCancellationFromOutside(t *testing.T) {
	defer goleak.VerifyNone(t)
	var paths []string
	for i := range 400 {
		paths = append(paths, fmt.Sprintf("d%d/e%d/f%d", i%20, i%7, i))
	}
	root := tree(t, paths...)
	for range 100 {
		ctx, cancel := context.WithCancel(context.Background())
		v := newRecorder()
		r := openRoot(t, nil, root, 5, v)
		go func() {
			time.Sleep(time.Duration(rand.IntN(3000)) * time.Microsecond)
			cancel()
		}()
		Walk(ctx, r, Options{Workers: 4})
		<-v.left
		cancel()
		requireOrderly(t, v)
	}
}

// A visitor whose Entry waits for the end of the context must not hinder it.
func TestCancellationWhileAllWorkersAreBlocked(t *testing.T) {
	defer goleak.VerifyNone(t)
	root := tree(t, "a/1", "b/2", "c/3", "d/4")
	ctx, cancel := context.WithCancel(context.Background())
	v := newRecorder()
	v.onEntry = func(*Dir, string) {
		cancel()
		<-ctx.Done()
	}
	walkTree(ctx, t, root, 4, v, Options{Workers: 3})
	requireOrderly(t, v)
}

// Only the listings on the way down are in memory: a visitor that does not return keeps
// the walk from reading the rest of the tree.
func TestABlockedVisitorStopsTheWalk(t *testing.T) {
	defer goleak.VerifyNone(t)
	const depth = 3
	var paths []string
	for i := range 200 {
		paths = append(paths, fmt.Sprintf("d%03d/e/f", i))
	}
	root := tree(t, paths...)
	for _, workers := range []int{1, 4} {
		var listings atomic.Int64
		sys := faultfs.New(func(op fsys.Op, _ string) error {
			if op == fsys.OpList {
				listings.Add(1)
			}
			return nil
		})
		v := newRecorder()
		v.fs = sys
		inside, release := make(chan struct{}, 1000), make(chan struct{})
		v.onEntry = func(*Dir, string) {
			inside <- struct{}{}
			<-release
		}
		var walking sync.WaitGroup
		walking.Go(func() { walkTree(context.Background(), t, root, 8, v, Options{Workers: workers}) })
		for range workers {
			<-inside
		}
		time.Sleep(20 * time.Millisecond) // for a goroutine that continues by mistake
		require.LessOrEqual(t, listings.Load(), int64(workers*depth))
		require.Empty(t, inside)
		close(release)
		walking.Wait()
		require.Len(t, v.paths("entry"), 200)
	}
}
