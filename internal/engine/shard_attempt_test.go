package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/dest"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/policy"
	"github.com/seed65876f4f/sealift/internal/resume"
	"github.com/seed65876f4f/sealift/internal/shard"
	"github.com/seed65876f4f/sealift/internal/treetest"
)

// process is a process whose file operations a test stops.
type process struct {
	killAt int64 // the operation before which it is killed; 0 for none
	calls  atomic.Int64

	stopAt  func(fsys.Call) bool // it is stopped before this operation, as by SIGSTOP; nil for none
	stopped chan struct{}        // closed then
	resume  chan struct{}
	stop    sync.Once
	frozen  atomic.Bool
}

var errKilled = errors.New("killed")

func newProcess() *process {
	return &process{stopped: make(chan struct{}), resume: make(chan struct{})}
}

// fs is the file system as the process sees it.
func (p *process) fs() *fsys.FS {
	return &fsys.FS{Fault: func(c fsys.Call) error {
		if n := p.calls.Add(1); p.killAt > 0 && n >= p.killAt {
			return errKilled
		}
		if p.stopAt != nil && p.stopAt(c) {
			p.stop.Do(func() {
				p.frozen.Store(true)
				close(p.stopped)
			})
		}
		if p.frozen.Load() {
			<-p.resume
		}
		return nil
	}}
}

// requireComplete demands that the parts and the tree are those of one copy.
func (c *plannedCopy) requireComplete(want string) {
	c.Helper()
	c.requireTree(want, treetest.Options{})
}

// requireTree is requireComplete with options for the comparison of the trees.
func (c *plannedCopy) requireTree(want string, o treetest.Options) {
	c.Helper()
	require.Equal(c, want, c.manifest(0))
	target := c.opts.Targets[0]
	require.NoError(c, filepath.WalkDir(target, func(path string, d os.DirEntry, err error) error {
		if name := d.Name(); strings.HasPrefix(name, fsys.Reserved) && name != resume.JournalName("") && filepath.Base(filepath.Dir(path)) != resume.JournalName("") {
			c.Errorf("a leftover: %s", path)
		}
		return err
	}))
	c.completeDirs(target)
	treetest.Compare(c, c.opts.Source, target, o)
}

// wholeManifest is the manifest of one copy into an empty directory.
func wholeManifest(t testing.TB, src string) string {
	t.Helper()
	whole := filepath.Join(t.TempDir(), "whole")
	runReported(t, options(src, whole))
	text, err := os.ReadFile(filepath.Join(whole, "SHA256SUMS"))
	require.NoError(t, err)
	return string(text)
}

// After a process is killed before any operation, the next one completes the shard. Under
// every policy it treats the files of the first as its own.
func TestAKilledAttemptIsContinued(t *testing.T) {
	t.Parallel()
	for _, chosen := range []policy.Policy{policy.Default, policy.Update, policy.Checksum} {
		for _, sync := range []dest.SyncMode{dest.SyncEnd, dest.SyncFile} {
			t.Run(fmt.Sprint(chosen, " ", sync), func(t *testing.T) {
				t.Parallel()
				src, base := newShardSource(t)
				want := wholeManifest(t, src)
				kills := 0
				for n := int64(1); ; n += sweepStride(53) {
					o := sweepOptions(src, []string{fmt.Sprint(base, n)}, sync)
					o.Policy = chosen
					c := planCopy(t, o, 1, nil)
					victim := newProcess()
					victim.killAt = n
					if out := c.run(context.Background(), victim.fs(), 0); out.err == nil && !out.anything() {
						break
					}
					second := newProcess() // is killed as well, at another place
					second.killAt = n + 40
					_ = c.run(context.Background(), second.fs(), 0)
					out := c.run(context.Background(), nil, 0)
					if !errors.As(out.err, new(*shard.FinishedError)) {
						require.NoError(t, out.err, "killed before operation %d: %s", n, out)
						require.Empty(t, out.bad(), "killed before operation %d: %s", n, out)
					}
					c.requireComplete(want)
					require.NoError(t, os.RemoveAll(o.Targets[0]))
					kills++
				}
				require.Greater(t, kills, 5)
			})
		}
	}
}

// An attempt pauses between its claim and the commit, and its successor takes over. When the
// attempt continues it commits nothing: its successor has removed its temporary files.
func TestAStoppedAttemptCommitsNothing(t *testing.T) {
	t.Parallel()
	replacing := func(c fsys.Call) bool { // also before a file without a name would get a temporary one
		return c.Op == fsys.OpRename || c.Op == fsys.OpLink && strings.HasPrefix(c.Name, fsys.Reserved)
	}
	at := func(op fsys.Op, name string) func(fsys.Call) bool {
		return func(c fsys.Call) bool { return c.Op == op && c.Name == name }
	}
	for name, stopAt := range map[string]func(fsys.Call) bool{
		"replace a file": replacing,
		"first file":     at(fsys.OpLink, "x"),
		"last file":      at(fsys.OpLink, "2"),
		"hard link":      at(fsys.OpLink, "mate"),
		"directory":      at(fsys.OpMkdir, "a"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			src, dst := newShardSource(t)
			want := wholeManifest(t, src)
			write(t, dst, "z/3", []byte("older"), before) // is replaced
			o := options(src, dst)
			o.Policy = policy.Always
			c := planCopy(t, o, 1, nil)
			first := newProcess()
			first.stopAt = func(call fsys.Call) bool {
				return strings.HasPrefix(call.Path, dst) && stopAt(call)
			}
			stopped := make(chan *runReport, 1)
			go func() { stopped <- c.run(context.Background(), first.fs(), 0) }()
			select {
			case <-first.stopped:
			case out := <-stopped:
				require.FailNow(t, "it was not stopped", "%s", out)
			}

			second := c.run(context.Background(), nil, 0)
			require.NoError(t, second.err)
			require.Empty(t, second.bad(), "%s", second)
			before := snapshotOf(t, dst)
			first.frozen.Store(false)
			close(first.resume)
			out := <-stopped
			require.ErrorIs(t, out.err, shard.ErrSuperseded)
			assert.Equal(t, before, snapshotOf(t, dst), "the first attempt has changed something")
			state, err := c.store(nil).Status(0)
			require.NoError(t, err)
			require.Equal(t, 2, state.Finished.Attempt)
			c.requireComplete(want)
		})
	}
}

// An attempt is killed when some names of a file exist at the destination. The next one gives the file
// the other names.
func TestTheSecondAttemptJoinsHardLinks(t *testing.T) {
	t.Parallel()
	linuxOnly(t, "elsewhere the first name comes by a rename")
	for links := range 3 {
		t.Run(fmt.Sprint("killed before link ", links), func(t *testing.T) {
			t.Parallel()
			base := treetest.MemoryDir(t)
			src, dst := filepath.Join(base, "src"), filepath.Join(base, "dst")
			names := []string{"a/1", "a/2", "b/3", "c"}
			write(t, src, names[0], []byte("content"), longAgo)
			for _, name := range names[1:] {
				require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(src, name)), 0o755))
				require.NoError(t, os.Link(filepath.Join(src, names[0]), filepath.Join(src, name)))
			}
			c := planCopy(t, options(src, dst), 1, nil)
			var made atomic.Int64
			var killed atomic.Bool
			out := c.run(context.Background(), &fsys.FS{Fault: func(call fsys.Call) error {
				if call.Op == fsys.OpLink && strings.HasPrefix(call.Path, dst) && made.Add(1) > int64(1+links) || killed.Load() {
					killed.Store(true)
					return errKilled
				}
				return nil
			}}, 0)
			require.True(t, killed.Load())
			require.NotEmpty(t, out.bad())
			there := 0
			for _, name := range names {
				if fileExists(filepath.Join(dst, name)) {
					there++
				}
			}
			require.Equal(t, 1+links, there)

			out = c.run(context.Background(), nil, 0)
			require.NoError(t, out.err)
			require.Empty(t, out.bad())
			first, err := os.Stat(filepath.Join(dst, names[0]))
			require.NoError(t, err)
			for _, name := range names[1:] {
				info, err := os.Stat(filepath.Join(dst, name))
				require.NoError(t, err)
				assert.True(t, os.SameFile(first, info), name)
			}
			c.requireComplete(wholeManifest(t, src))
		})
	}
}

// snapshotOf lists the files below a directory with their identities and contents.
func snapshotOf(t testing.TB, root string) map[string]string {
	t.Helper()
	list := map[string]string{}
	dir, err := fsys.OpenRoot(root)
	require.NoError(t, err)
	defer dir.Close()
	finder := fsys.NewFinder(dir, 8)
	defer finder.Close()
	require.NoError(t, filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil || path == root {
			return err
		}
		if d.Name() == resume.JournalName("") {
			return filepath.SkipDir
		}
		rel, err := filepath.Rel(root, path)
		require.NoError(t, err)
		info, err := finder.Lstat(filepath.ToSlash(rel))
		require.NoError(t, err)
		text := fmt.Sprint(info.ID.Ino)
		if d.Type().IsRegular() {
			content, err := os.ReadFile(path)
			require.NoError(t, err)
			text += " " + string(content)
		}
		list[rel] = text
		return nil
	}))
	return list
}

// A task that a signal stops records its end. The next one begins at once, and continues a
// large file at the same offset.
func TestAnInterruptedAttemptIsContinuedAtOnce(t *testing.T) {
	t.Parallel()
	base := treetest.MemoryDir(t)
	src, dst := filepath.Join(base, "src"), filepath.Join(base, "dst")
	content := treetest.Pattern(resume.LeastPartial+resume.MarkEvery*3, 1)
	write(t, src, "d/large", content, longAgo)
	write(t, src, "small", []byte("small"), longAgo)
	o := sweepOptions(src, []string{dst}, dest.SyncEnd)
	o.BlockSize = 1 << 20
	o.Memory = 16 << 20
	o.checkEvery = time.Millisecond
	c := planCopy(t, o, 1, nil)
	ctx, cancel := context.WithCancel(context.Background())
	var written atomic.Int64
	interrupted := &fsys.FS{Fault: func(call fsys.Call) error {
		if call.Op == fsys.OpWrite && strings.HasPrefix(filepath.FromSlash(call.Path), filepath.Join(dst, "d")) && written.Add(1) == 19 {
			cancel()
		}
		return nil
	}}
	out := c.run(ctx, interrupted, 0)
	require.ErrorIs(t, out.err, context.Canceled)
	require.FileExists(t, filepath.Join(c.path, "work/00000/000001/ended"))

	out = c.run(context.Background(), nil, 0)
	require.NoError(t, out.err)
	require.Empty(t, out.bad())
	assert.GreaterOrEqual(t, out.summary.ResumedBytes, int64(resume.LeastPartial))
	c.requireComplete(wholeManifest(t, src))
}

// A partial file of an attempt that has not ended may still be written to, so it is not continued.
func TestThePartialFileOfALivingProcessIsNotContinued(t *testing.T) {
	t.Parallel()
	base := treetest.MemoryDir(t)
	src, dst := filepath.Join(base, "src"), filepath.Join(base, "dst")
	write(t, src, "d/large", treetest.Pattern(resume.LeastPartial+resume.MarkEvery*3, 1), longAgo)
	o := sweepOptions(src, []string{dst}, dest.SyncEnd)
	o.BlockSize = 1 << 20
	o.Memory = 16 << 20
	o.checkEvery = time.Millisecond
	c := planCopy(t, o, 1, nil)
	first := newProcess()
	var written atomic.Int64
	first.stopAt = func(call fsys.Call) bool {
		return call.Op == fsys.OpWrite && strings.HasPrefix(filepath.FromSlash(call.Path), filepath.Join(dst, "d")) && written.Add(1) == 19
	}
	var running sync.WaitGroup
	running.Go(func() { _ = c.run(context.Background(), first.fs(), 0) })
	<-first.stopped
	out := c.run(context.Background(), nil, 0)
	require.NoError(t, out.err)
	require.Empty(t, out.bad())
	assert.Zero(t, out.summary.ResumedBytes)
	first.frozen.Store(false)
	close(first.resume)
	running.Wait()
	c.requireComplete(wholeManifest(t, src))
}

// exitCode is the exit code that the command ends with.
func (o *runReport) exitCode() int {
	switch {
	case errors.As(o.err, new(*failure.RefusedError)):
		return 2
	case o.err != nil || o.summary.Errors > 0:
		return 1
	}
	return 0
}

// messages counts the messages that contain a text.
func (o *runReport) messages(text string) (n int) {
	for _, e := range o.bad() {
		if e.Err != nil && strings.Contains(e.Err.Error(), text) {
			n++
		}
	}
	if o.err != nil && strings.Contains(o.err.Error(), text) {
		n++
	}
	return n
}

// An operation that fails is reported once and makes the exit code, or the shard is complete. The
// next attempt completes it in any case.
func TestFailedOperationsOfATask(t *testing.T) {
	t.Parallel()
	for _, sync := range []dest.SyncMode{dest.SyncEnd, dest.SyncFile} {
		t.Run(sync.String(), func(t *testing.T) {
			t.Parallel()
			src, base := newShardSource(t)
			want := wholeManifest(t, src)
			reported := 0
			for n := int64(1); ; n += sweepStride(53) {
				o := sweepOptions(src, []string{fmt.Sprint(base, n)}, sync)
				c := planCopy(t, o, 1, nil)
				var calls atomic.Int64
				var failed fsys.Call
				failing := &fsys.FS{Fault: func(call fsys.Call) error {
					if calls.Add(1) == n {
						failed = call
						return syscall.EIO
					}
					return nil
				}}
				out := c.run(context.Background(), failing, 0)
				if calls.Load() < n {
					break
				}
				what := fmt.Sprintf("operation %d, %v %q %q: %s", n, failed.Op, failed.Path, failed.Name, out)
				require.LessOrEqual(t, out.messages(syscall.EIO.Error()), 1, what)
				if out.err != nil {
					require.NotEqual(t, syscall.EIO.Error(), out.err.Error(), "a message names what failed; %s", what)
				}
				state, err := c.store(nil).Status(0)
				require.NoError(t, err)
				switch out.exitCode() {
				case 0:
					require.NotNil(t, state.Finished, what)
					require.Zero(t, state.Finished.Failures, what)
				case 1:
					require.Equal(t, 1, out.messages(syscall.EIO.Error()), what)
				case 2:
					entries, err := os.ReadDir(o.Targets[0])
					require.NoError(t, err)
					require.Len(t, entries, 1, "refused after a write: %s", what) // the journal
				}
				if out.anything() {
					reported++
					out = c.run(context.Background(), nil, 0)
				}
				if !errors.As(out.err, new(*shard.FinishedError)) {
					require.NoError(t, out.err, "operation %d: %s", n, out)
					require.Empty(t, out.bad(), "operation %d: %s", n, out)
				}
				c.requireComplete(want)
				require.NoError(t, os.RemoveAll(o.Targets[0]))
			}
			require.Greater(t, reported, 3)
		})
	}
}
