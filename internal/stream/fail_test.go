//go:build linux

package stream

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/fsys/faultfs"
	"github.com/seed65876f4f/sealift/internal/treetest"
)

// faults makes operations fail; rule gets the number of earlier operations of the kind, for
// this name.
func faults(rule func(op fsys.Op, name string, nth int) error) *fsys.FS {
	var mu sync.Mutex
	counts := map[string]int{}
	return faultfs.New(func(op fsys.Op, name string) error {
		mu.Lock()
		defer mu.Unlock()
		key := string(op) + " " + name
		counts[key]++
		return rule(op, name, counts[key]-1)
	})
}

// An output that fails says how far it has come and what is safe; the others go on.
func TestOneOutputFails(t *testing.T) {
	t.Parallel()
	dir := treetest.MemoryDir(t)
	content := treetest.Pattern(5*unitSize+1000, 1)
	in := write(t, filepath.Join(dir, "in"), content)
	bad, good := filepath.Join(dir, "bad"), filepath.Join(dir, "good")
	for name, c := range map[string]struct {
		change func(*Options)
		sync   error
		want   string
	}{
		"what is safe is known": {nil, nil, fmt.Sprintf("%d bytes are on the device", 2*unitSize)},
		"what is safe is not":   {nil, unix.EIO, "it is not known what of them is on the device"},
		"nothing is forced":     {func(o *Options) { o.Unsynced = true }, nil, fmt.Sprintf("after %d bytes\n", 2*unitSize)},
	} {
		t.Run(name, func(t *testing.T) {
			synced := 0
			sys := faults(func(op fsys.Op, name string, nth int) error {
				if op == fsys.OpWrite && name == bad && nth == 2 {
					return unix.ENOSPC
				}
				if op == fsys.OpSync {
					if synced++; synced == 1 { // the first one is that of what has failed
						return c.sync
					}
				}
				return nil
			})
			o := streamIn(t.Context(), sys, in, []string{bad, good}, c.change)
			require.NoError(t, o.err)
			require.EqualValues(t, 1, o.summary.Errors)
			require.Contains(t, o.texts(), fmt.Sprintf("'%s': write: no space left on device after %d bytes", bad, 2*unitSize))
			require.Contains(t, o.texts(), c.want)
			require.Equal(t, recordsOf(2*unitSize, DefaultBlockSize), o.summary.Outputs[0].Records)
			require.Equal(t, recordsOf(int64(len(content)), DefaultBlockSize), o.summary.Outputs[1].Records)
			require.True(t, bytes.Equal(content, read(t, good)))
			require.True(t, bytes.Equal(content[:2*unitSize], read(t, bad)))
			require.Equal(t, digest(content), o.summary.Digests[0])
		})
	}
}

// The copy ends when no output is left, and then knows no digest.
func TestAllOutputsFail(t *testing.T) {
	o := stream(t.Context(), "/dev/zero", []string{"/dev/full", "/dev/full"}, nil)
	require.NoError(t, o.err)
	require.EqualValues(t, 2, o.summary.Errors)
	require.False(t, o.summary.Complete)
	require.Empty(t, o.summary.Digests)
}

// A sync error is reported once, and the sync is not retried.
func TestSyncFails(t *testing.T) {
	t.Parallel()
	dir := treetest.MemoryDir(t)
	in, out := write(t, filepath.Join(dir, "in"), []byte("content")), write(t, filepath.Join(dir, "out"), nil)
	syncs := 0
	sys := faults(func(op fsys.Op, _ string, _ int) error {
		if op == fsys.OpSync {
			syncs++
			return unix.EIO
		}
		return nil
	})
	o := streamIn(t.Context(), sys, in, []string{out}, func(o *Options) { o.Manifest = filepath.Join(dir, "m") })
	require.NoError(t, o.err)
	require.Equal(t, 1, syncs)
	require.EqualValues(t, 2, o.summary.Errors, "the manifest is not written, either")
	require.Contains(t, o.texts(), "': sync: input/output error; it is not known what of the 7 bytes is on the device\n")
	require.NoFileExists(t, filepath.Join(dir, "m"))
}

// A new file is synced with its name, an existing one without, and nothing twice.
func TestSync(t *testing.T) {
	t.Parallel()
	dir := treetest.MemoryDir(t)
	in := write(t, filepath.Join(dir, "in"), []byte("content"))
	for name, c := range map[string]struct {
		out    string
		change func(*Options)
		want   int
	}{
		"new":       {"new", nil, 2},
		"old":       {"old", nil, 1},
		"link":      {"link", nil, 2},
		"unsynced":  {"other", func(o *Options) { o.Unsynced = true }, 0},
		"no device": {"/dev/null", nil, 0},
	} {
		write(t, filepath.Join(dir, "old"), nil)
		_ = os.Symlink("behind", filepath.Join(dir, "link"))
		if !filepath.IsAbs(c.out) {
			c.out = filepath.Join(dir, c.out)
		}
		syncs := 0
		sys := faults(func(op fsys.Op, _ string, _ int) error {
			if op == fsys.OpSync {
				syncs++
			}
			return nil
		})
		succeeds(t, streamIn(t.Context(), sys, in, []string{c.out}, c.change))
		require.Equal(t, c.want, syncs, name)
	}
}

// Before a bad sector, everything is saved.
func TestReadingFails(t *testing.T) {
	t.Parallel()
	dir := treetest.MemoryDir(t)
	content := treetest.Pattern(5*unitSize, 1)
	in, out := write(t, filepath.Join(dir, "in"), content), filepath.Join(dir, "out")
	const pages, sectors = 5, 3
	sys := faults(func(op fsys.Op, name string, nth int) error {
		if op != fsys.OpRead {
			return nil
		}
		// The third buffer, the sixth page of it, the fourth sector of that.
		if last := 3 + pages + 1 + sectors; nth == 2 || nth == 3+pages || nth >= last {
			return unix.EIO
		}
		return nil
	})
	o := streamIn(t.Context(), sys, in, []string{out}, func(o *Options) { o.Manifest = filepath.Join(dir, "m") })
	want := 2*unitSize + pages*pageStep + sectors*sectorStep
	require.NoError(t, o.err)
	require.False(t, o.summary.Complete)
	require.Contains(t, o.texts(), fmt.Sprintf("'%s': read: input/output error at offset %d; the %d bytes before it are on the device\n", in, want, want))
	require.True(t, bytes.Equal(content[:want], read(t, out)))
	require.NoFileExists(t, filepath.Join(dir, "m"))
}

// An error that does not come again costs nothing but a warning.
func TestReadingIsRepeated(t *testing.T) {
	t.Parallel()
	dir := treetest.MemoryDir(t)
	content := treetest.Pattern(3*unitSize+1000, 1)
	in, out := write(t, filepath.Join(dir, "in"), content), filepath.Join(dir, "out")
	sys := faults(func(op fsys.Op, _ string, nth int) error {
		if op == fsys.OpRead && nth == 1 {
			return unix.EIO
		}
		return nil
	})
	o := streamIn(t.Context(), sys, in, []string{out}, nil)
	require.NoError(t, o.err)
	require.Zero(t, o.summary.Errors)
	require.True(t, o.summary.Complete)
	require.Contains(t, o.texts(), fmt.Sprintf("'%s': reading at offset %d was repeated: input/output error\n", in, unitSize))
	require.True(t, bytes.Equal(content, read(t, out)))
}

// The reader of standard output goes away.
func TestOutputWithoutAReader(t *testing.T) {
	r, w := pair(t)
	ended := make(chan outcome, 1)
	go func() {
		ended <- stream(t.Context(), "/dev/zero", []string{"-"}, func(o *Options) { o.Stdout = w })
	}()
	_, err := io.ReadFull(r, make([]byte, 100_000))
	require.NoError(t, err)
	require.NoError(t, r.Close())
	o := <-ended
	require.NoError(t, o.err)
	require.EqualValues(t, 1, o.summary.Errors)
	require.Contains(t, o.texts(), "'-': write: broken pipe after ")
}

// A stop ends every wait, and the run reports the copied data.
func TestStopped(t *testing.T) {
	stopped := fmt.Errorf("stopped by a test")
	dir := t.TempDir()
	fifo, in := filepath.Join(dir, "fifo"), write(t, filepath.Join(dir, "in"), []byte("content"))
	require.NoError(t, syscall.Mkfifo(fifo, 0o600))
	empty, _ := pair(t)
	_, full := pair(t)
	nonblocking := func(f *os.File) *os.File {
		require.NoError(t, unix.SetNonblock(int(f.Fd()), true))
		return f
	}
	emptyNow, _ := pair(t)
	_, fullNow := pair(t)
	terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0) // of which nothing comes
	require.NoError(t, err)
	defer terminal.Close()
	for name, c := range map[string]struct {
		in      string
		out     string
		change  func(*Options)
		nothing bool // is begun
	}{
		"an empty pipe":           {"-", "/dev/null", func(o *Options) { o.Stdin = empty }, false},
		"an empty pipe, O_NONBL.": {"-", "/dev/null", func(o *Options) { o.Stdin = nonblocking(emptyNow) }, false},
		"a full pipe":             {"/dev/zero", "-", func(o *Options) { o.Stdout = full }, false},
		"a full pipe, O_NONBL.":   {"/dev/zero", "-", func(o *Options) { o.Stdout = nonblocking(fullNow) }, false},
		"a terminal":              {"-", "/dev/null", func(o *Options) { o.Stdin = terminal }, false},
		"a fifo's writer":         {fifo, filepath.Join(dir, "new"), nil, true},
		"a fifo's reader":         {in, fifo, nil, true},
		"skipping":                {"-", filepath.Join(dir, "new"), func(o *Options) { o.Stdin, o.Skip.N = empty, 1 }, true},
		"a limit of speed":        {"/dev/zero", "/dev/null", func(o *Options) { o.BytesPerSecond = 1 }, false},
		"a file":                  {"/dev/zero", filepath.Join(dir, "file"), func(o *Options) { o.BytesPerSecond = 40 << 20 }, false},
	} {
		t.Run(name, func(t *testing.T) {
			defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
			ctx, cancel := context.WithCancelCause(t.Context())
			timer := time.AfterFunc(100*time.Millisecond, func() { cancel(stopped) })
			defer timer.Stop()
			o := stream(ctx, c.in, []string{c.out}, c.change)
			require.ErrorIs(t, o.err, stopped)
			require.Empty(t, o.events)
			require.Equal(t, c.nothing, o.summary == nil)
			if c.nothing {
				require.NoFileExists(t, filepath.Join(dir, "new"), "it was created for nothing")
			} else {
				require.False(t, o.summary.Complete)
			}
		})
	}
}

// A descriptor is shared with others: its flags stay.
func TestFlagsStay(t *testing.T) {
	for _, nonblocking := range []bool{false, true} {
		var fds [2]int
		require.NoError(t, unix.Pipe2(fds[:], 0))
		in := os.NewFile(uintptr(fds[0]), "in")
		defer in.Close()
		require.NoError(t, unix.SetNonblock(fds[0], nonblocking))
		go func() {
			time.Sleep(20 * time.Millisecond)
			_, _ = unix.Write(fds[1], []byte("content"))
			_ = unix.Close(fds[1])
		}()
		s := succeeds(t, stream(t.Context(), "-", []string{"/dev/null"}, func(o *Options) { o.Stdin = in }))
		require.EqualValues(t, len("content"), s.Bytes)
		flags, err := unix.FcntlInt(uintptr(fds[0]), unix.F_GETFL, 0)
		require.NoError(t, err)
		require.Equal(t, nonblocking, flags&unix.O_NONBLOCK != 0)
	}
}

// Fifos are opened after everything else was checked, and both ends wait.
func TestFifos(t *testing.T) {
	dir := t.TempDir()
	from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to")
	require.NoError(t, syscall.Mkfifo(from, 0o600))
	require.NoError(t, syscall.Mkfifo(to, 0o600))
	content := treetest.Pattern(300_000, 1)
	var got []byte
	var group sync.WaitGroup
	group.Go(func() { _ = os.WriteFile(from, content, 0) })
	group.Go(func() { got, _ = os.ReadFile(to) })
	s := succeeds(t, stream(t.Context(), from, []string{to}, nil))
	group.Wait()
	require.Equal(t, digest(content), s.Digests[0])
	require.True(t, bytes.Equal(content, got))
}

// While the run waits for a fifo, other processes use its outputs. A run that ends before it
// begins removes nothing of theirs. A run that begins leaves no old data below its own.
func TestOutputsChangeWhileAFifoWaits(t *testing.T) {
	dir := treetest.MemoryDir(t)
	fifo, out := filepath.Join(dir, "fifo"), filepath.Join(dir, "out")
	require.NoError(t, syscall.Mkfifo(fifo, 0o600))
	whenOpen := func(do func()) (wait func()) {
		var group sync.WaitGroup
		group.Go(func() {
			for { // until the output was created
				if _, err := os.Stat(out); err == nil {
					break
				}
				time.Sleep(time.Millisecond)
			}
			do()
		})
		return group.Wait
	}
	old := bytes.Repeat([]byte("old"), 10_000)
	for name, change := range map[string]func(){
		"filled":   func() { write(t, out, old) },
		"replaced": func() { require.NoError(t, os.Rename(write(t, filepath.Join(dir, "new"), old), out)) },
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			wait := whenOpen(func() { change(); cancel() })
			o := stream(ctx, fifo, []string{out}, nil)
			wait()
			require.ErrorIs(t, o.err, context.Canceled)
			require.Equal(t, old, read(t, out))
			require.NoError(t, os.Remove(out))
		})
	}
	for _, seek := range []int64{0, 4096} {
		wait := whenOpen(func() {
			write(t, out, old)
			write(t, fifo, make([]byte, 10_000))
		})
		succeeds(t, stream(t.Context(), fifo, []string{out}, func(o *Options) { o.Sparse, o.Seek = true, Amount{N: seek, Bytes: true} }))
		wait()
		require.Equal(t, slicesOf(old[:seek], make([]byte, 10_000)), read(t, out))
		require.NoError(t, os.Remove(out))
	}
}

// The run reports each operation that fails, or completes the request without it.
func TestFaultSweep(t *testing.T) {
	mayBeSilent := []string{
		"stream.(*run).isFifo(", "fsys.(*FS).openStream(", // opening itself meets it again
		"pipe.(*Behind).start(", // the duplicate: the file itself is waited for
		"catalog.lock",          // a manifest is written without the lock where there is none
	}
	content := slicesOf(treetest.Pattern(3*unitSize, 1), make([]byte, unitSize+5000))
	excused := map[string]bool{}
	clean := map[fsys.Op]int{}
	dir := t.TempDir() // on a device, where there is one
	t.Chdir(dir)
	once := func(fail fsys.Op, nth int) (o outcome, hit bool, stack string) {
		for _, name := range []string{"a", "b", "m"} {
			_ = os.Remove(name)
		}
		write(t, "in", content)
		write(t, "b", treetest.Pattern(5*unitSize, 2))
		var mu sync.Mutex
		counts := map[fsys.Op]int{}
		sys := faultfs.New(func(op fsys.Op, _ string) error {
			mu.Lock()
			defer mu.Unlock()
			counts[op]++
			if op == fail && counts[op]-1 == nth {
				hit, stack = true, string(debug.Stack())
				return unix.EIO
			}
			return nil
		})
		o = streamIn(t.Context(), sys, "in", []string{"a", "b"}, func(o *Options) {
			o.Manifest, o.Sparse, o.NoTruncate = "m", true, true
		})
		if fail == "" {
			clean = counts
		}
		return o, hit, stack
	}
	o, _, _ := once("", 0)
	succeeds(t, o)
	require.Greater(t, len(clean), 8)
	for op, n := range clean {
		for nth := range n {
			o, hit, stack := once(op, nth)
			if !hit {
				continue // the runs differ a little, in how they wait for a device
			}
			silent := op == fsys.OpRead // which was repeated
			quiet := o.err == nil && o.summary.Errors == 0
			for _, where := range mayBeSilent {
				if strings.Contains(stack, where) {
					silent, excused[where] = true, excused[where] || quiet
				}
			}
			if silent && quiet {
				require.True(t, bytes.Equal(content, read(t, "a")), "%s#%d", op, nth)
				continue
			}
			require.False(t, quiet, "%s#%d was not reported:\n%s", op, nth, stack)
			if !strings.Contains(stack, "fsys.(*Dir).Sync(") { // else it exists, and is reported as not durable
				require.NoFileExists(t, "m", "%s#%d", op, nth)
			}
			if _, refused := o.err.(*failure.RefusedError); refused {
				require.NoFileExists(t, "a", "%s#%d", op, nth)
			}
		}
	}
	if clean[fsys.OpWriteback] == 0 {
		return // in memory, where there is nothing to wait for
	}
	for _, where := range mayBeSilent {
		require.True(t, excused[where], "mayBeSilent has %s, in which no failure was silent", where)
	}
}
