package engine

import (
	"bytes"
	"context"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/fsys/faultfs"
	"github.com/seed65876f4f/sealift/internal/pipe"
	"github.com/seed65876f4f/sealift/internal/treetest"
)

func spinning(*fsys.Dir) bool { return true }

// turns is a run with so many disks that spin, and one that does not, each of which
// has a destination.
type turns struct {
	run    *run
	cancel context.CancelFunc
}

func newTurns(t *testing.T, disks int) *turns {
	r := &run{}
	ctx, cancel := context.WithCancel(t.Context())
	r.ctx = ctx
	for i := range disks + 1 {
		d := &device{Gauged: pipe.Gauged{Device: pipe.NewDevice(pipe.DeviceOptions{Window: 16 << 30}), Copies: 1}}
		if i < disks {
			d.turn = make(chan struct{}, 1)
		}
		r.devices = append(r.devices, d)
		r.targets = append(r.targets, &target{behind: d.Device})
		t.Cleanup(d.Close)
	}
	t.Cleanup(cancel)
	return &turns{r, cancel}
}

// file is a long file on its way to the destinations.
func (s *turns) file(to ...int) (movers []*transfer) {
	for _, i := range to {
		movers = append(movers, &transfer{target: s.run.targets[i], state: stateMoving})
	}
	return movers
}

// take takes the turns of a file in a goroutine; taken says that it has them.
func (s *turns) take(movers []*transfer) (taken *atomic.Bool, give chan struct{}, ended chan error) {
	taken, give, ended = &atomic.Bool{}, make(chan struct{}), make(chan error, 1)
	go func() {
		end, err := s.run.takeTurns(&entry{}, movers)
		if err == nil {
			taken.Store(true)
			<-give
		}
		end()
		ended <- err
	}()
	synctest.Wait()
	return taken, give, ended
}

// Two long files to one rotational disk are written one after the other, whatever the order of
// their destinations. No other file waits.
func TestLongFilesTakeTurns(t *testing.T) {
	t.Parallel()
	const one, other, fast = 0, 1, 2
	synctest.Test(t, func(t *testing.T) {
		s := newTurns(t, 2)
		first, giveFirst, firstEnded := s.take(s.file(one, fast))
		require.True(t, first.Load())
		second, giveSecond, secondEnded := s.take(s.file(other, one))
		require.False(t, second.Load(), "the first one is being written")

		clone, failed := s.file(one), s.file(one, fast)
		clone[0].sink.Clone = true
		failed[0].state = stateFailed
		for what, movers := range map[string][]*transfer{"clone": clone, "failed": failed} {
			taken, give, ended := s.take(movers)
			require.True(t, taken.Load(), what)
			close(give)
			require.NoError(t, <-ended)
		}
		toFast, giveFast, fastEnded := s.take(s.file(fast))
		again, giveAgain, againEnded := s.take(s.file(fast))
		require.True(t, toFast.Load() && again.Load(), "the head of no disk")
		close(giveFast)
		close(giveAgain)
		require.NoError(t, <-fastEnded)
		require.NoError(t, <-againEnded)

		close(giveFirst)
		require.NoError(t, <-firstEnded)
		synctest.Wait()
		require.True(t, second.Load())
		third, giveThird, thirdEnded := s.take(s.file(one))
		require.False(t, third.Load())
		close(giveSecond)
		require.NoError(t, <-secondEnded)
		synctest.Wait()
		require.True(t, third.Load())
		close(giveThird)
		require.NoError(t, <-thirdEnded)
	})
}

// A rotational disk that proves to be fast no longer makes files wait.
func TestAFastDiskIsNotHeldBack(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		speed int64
		waits bool
	}{{fastest / 2, true}, {2 * fastest, false}} {
		synctest.Test(t, func(t *testing.T) {
			s := newTurns(t, 1)
			d := s.run.devices[0]
			g := d.Join(make(chan struct{}, 1))
			g.Add(c.speed, nil)
			mark := g.Mark()
			time.Sleep(time.Second)
			g.Flushed(mark)
			require.Equal(t, c.speed, d.Rate())
			first, give, ended := s.take(s.file(0))
			require.True(t, first.Load())
			second, giveSecond, secondEnded := s.take(s.file(0))
			require.Equal(t, c.waits, !second.Load())
			close(give)
			close(giveSecond)
			require.NoError(t, <-ended)
			require.NoError(t, <-secondEnded)
			require.Empty(t, d.turn)
		})
	}
}

// When the run ends, waiting files stop waiting and release the disks that they hold.
func TestStoppedWhileWaitingForATurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newTurns(t, 2)
		_, give, ended := s.take(s.file(1))
		waits, _, waitEnded := s.take(s.file(0, 1))
		require.False(t, waits.Load())
		require.Len(t, s.run.devices[0].turn, 1, "it has the one and waits for the other")
		s.cancel()
		require.ErrorIs(t, <-waitEnded, context.Canceled)
		require.Empty(t, s.run.devices[0].turn)
		close(give)
		require.NoError(t, <-ended)
		require.Empty(t, s.run.devices[1].turn)
	})
}

// twoLarge are two large files, of which a run has begun the first.
func twoLarge(t *testing.T) (o Options, files map[string][]byte) {
	t.Helper()
	_, source, files := largeSource(t)
	target := filepath.Join(t.TempDir(), "dst")
	if d, err := fsys.OpenRoot(filepath.Dir(target)); err == nil {
		defer d.Close()
		if d.InMemory() {
			t.Skip("temporary files are in memory, which no device is written behind")
		}
	}
	o = largeOptions(source, target)
	o.Workers = 2
	stopAt(t, o, secondStop)
	files["other"] = treetest.Pattern(largeSize, 2)
	write(t, source, "other", files["other"], since)
	return o, files
}

// A run continues a large file, and is stopped while the file waits for its turn. The next run
// continues that file again.
func TestWaitingForATurnKeepsWhatIsThere(t *testing.T) {
	t.Parallel()
	o, files := twoLarge(t)
	o.rotational = spinning
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c := &counters.Set{}
	var writing atomic.Bool
	otherWrites, release := make(chan struct{}), make(chan struct{})
	sys := faultfs.New(func(op fsys.Op, name string) error {
		switch {
		case op == fsys.OpOpen && name == "large":
			<-otherWrites // so that it comes second
		case op == fsys.OpRead && c.Bytes.Load() > 0:
			if writing.CompareAndSwap(false, true) { // whatever is read after that is the first one's
				close(otherWrites)
				<-release
			}
		}
		return nil
	})
	ended := make(chan error)
	go func() {
		o.FS = sys
		_, err := Run(ctx, &o, c)
		ended <- err
	}()
	waits := func() bool {
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		return bytes.Contains(stacks, []byte("engine.(*run).takeTurns("))
	}
	require.Eventually(t, waits, time.Minute, time.Millisecond)
	require.GreaterOrEqual(t, c.Bytes.Load(), int64(secondStop))
	require.Less(t, c.Bytes.Load(), int64(secondStop+8*largeBlock), "it has begun")
	cancel()
	close(release)
	require.ErrorIs(t, <-ended, context.Canceled)
	require.Len(t, temporaries(t, o.Targets[0]), 1)
	o.FS = nil
	s := requireCopied(t, o, files)
	require.GreaterOrEqual(t, s.ResumedBytes, int64(secondStop))
}

// A copy that writes one file at a time to each disk is complete.
func TestCopyToDisksThatSpin(t *testing.T) {
	t.Parallel()
	dir := treetest.MemoryDir(t)
	src := filepath.Join(dir, "src")
	files := map[string][]byte{}
	for i := range 6 {
		name := string(rune('a' + i))
		files[name] = treetest.Pattern(3<<20+i, byte(i))
		write(t, src, name, files[name], since)
	}
	base := t.TempDir()
	o := largeOptions(src, filepath.Join(base, "1"), filepath.Join(base, "2"))
	o.Workers, o.rotational = 4, spinning
	requireCopied(t, o, files)
}
