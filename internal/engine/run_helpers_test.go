package engine

import (
	"context"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/event"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/fsys/faultfs"
)

// runReport is the events and the result of a run.
type runReport struct {
	events   []event.Event
	summary  *Summary
	err      error
	panicked string
}

func (o *runReport) anything() bool {
	for _, e := range o.events {
		switch e.Kind {
		case event.Failed, event.Mismatch, event.Conflict, event.Warning, event.DestinationLost:
			return true
		}
	}
	return o.err != nil
}

// bad returns the events that report a problem, sorted by path.
func (o *runReport) bad() (list []event.Event) {
	for _, e := range o.events {
		if e.Kind != event.Copied && e.Kind != event.Skipped {
			list = append(list, e)
		}
	}
	slices.SortStableFunc(list, func(a, b event.Event) int { return strings.Compare(a.Path+"\x00"+a.Target, b.Path+"\x00"+b.Target) })
	return list
}

// mismatches are those that are not warnings.
func (o *runReport) mismatches() []event.Event {
	return slices.DeleteFunc(o.bad(), func(e event.Event) bool { return e.Kind == event.Warning })
}

func (o *runReport) String() string {
	var b strings.Builder
	for _, e := range o.events {
		if e.Kind != event.Copied && e.Kind != event.Skipped {
			fmt.Fprintf(&b, "  event %d %q to %s: %v\n", e.Kind, e.Path, filepath.Base(e.Target), e.Err)
		}
	}
	fmt.Fprintf(&b, "  error %v\n", o.err)
	return b.String()
}

// runReported is Run with the events kept.
func runReported(t testing.TB, o Options) *runReport {
	t.Helper()
	return runCounted(t, o, &counters.Set{})
}

// runCounted is runReported with the counters of the caller.
func runCounted(t testing.TB, o Options, c *counters.Set) *runReport {
	t.Helper()
	out := &runReport{}
	o.Report = func(e event.Event) { out.events = append(out.events, e) }
	out.summary, out.err = Run(t.Context(), &o, c)
	require.NoError(t, out.err)
	return out
}

// mustRun is a run that reports neither a problem nor a warning.
func mustRun(t testing.TB, o Options) {
	t.Helper()
	require.Empty(t, runReported(t, o).bad())
}

// watched is Run with a watchdog.
func watched(t *testing.T, o Options) *runReport {
	t.Helper()
	out := &runReport{}
	o.Report = func(e event.Event) { out.events = append(out.events, e) }
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if p := recover(); p != nil {
				out.panicked = fmt.Sprintf("%v\n%s", p, ourFrames(string(debug.Stack())))
			}
		}()
		out.summary, out.err = Run(context.Background(), &o, &counters.Set{})
	}()
	select {
	case <-done:
	case <-time.After(time.Minute):
		panic("Run does not end")
	}
	return out
}

// ourFrames shortens a stack to the engine's functions.
func ourFrames(stack string) string {
	var b strings.Builder
	lines := strings.Split(stack, "\n")
	for i := 0; i+1 < len(lines); i++ {
		if strings.Contains(lines[i], "sealift/internal/") && !strings.Contains(lines[i], "injector") {
			_, function, _ := strings.Cut(lines[i], "/internal/")
			name, _, _ := strings.Cut(function, "(0x")
			place := filepath.Base(strings.TrimSpace(lines[i+1]))
			place, _, _ = strings.Cut(place, " ")
			fmt.Fprintf(&b, "    %s %s\n", name, place)
		}
	}
	return b.String()
}

func stageOf(t testing.TB, e event.Event) failure.Stage {
	t.Helper()
	f := &failure.FileError{}
	require.ErrorAs(t, e.Err, &f)
	require.Equal(t, []string{e.Path, e.Target}, []string{f.Path, f.Target}, "event and error are about the same")
	return f.Stage
}

// requireBroken demands that the event reports a mismatch of the source with its manifest.
func requireBroken(t testing.TB, e event.Event, path string) {
	t.Helper()
	require.Equal(t, []any{event.Mismatch, path, ""}, []any{e.Kind, e.Path, e.Target}, "%v", e.Err)
	require.Equal(t, failure.StageVerify, stageOf(t, e))
	require.ErrorContains(t, e.Err, "not copied: ")
}

// operation is one call of a file system operation. The kind and the number of earlier calls of
// that kind identify it, which is nearly deterministic with one worker.
type operation struct {
	op  fsys.Op
	nth int
}

func (o operation) String() string { return fmt.Sprintf("%s#%d", o.op, o.nth) }

// errDeviceFull returns the error of a write to a full device.
func errDeviceFull() error {
	if runtime.GOOS == "windows" {
		return syscall.Errno(112) // ERROR_DISK_FULL
	}
	return syscall.ENOSPC
}

// failing makes one operation on entries of these names fail.
func failing(err error, op fsys.Op, names ...string) *fsys.FS {
	return faultfs.New(func(o fsys.Op, name string) error {
		if o == op && slices.Contains(names, name) {
			return err
		}
		return nil
	})
}

// runAndChange is runReported, and calls change once, when everything is copied and nothing is
// read back yet.
func runAndChange(t testing.TB, o Options, change func()) *runReport {
	t.Helper()
	c := &counters.Set{}
	return runCounted(t, in(atVerifying(c, change), o), c)
}

// runAndFail is runAndChange with one worker. Each operation of the read-back fails with the
// error that fault returns for it.
func runAndFail(t testing.TB, o Options, change func(), fault func(op fsys.Op, name string) error) *runReport {
	t.Helper()
	c := &counters.Set{}
	o.Workers = 1
	var once sync.Once
	return runCounted(t, in(faultfs.New(func(op fsys.Op, name string) error {
		if counters.Phase(c.Phase.Load()) != counters.PhaseVerifying {
			return nil
		}
		once.Do(change)
		return fault(op, name)
	}), o), c)
}

// atVerifying calls f once, when everything is copied and nothing is read back yet.
func atVerifying(c *counters.Set, f func()) *fsys.FS {
	var once sync.Once
	return faultfs.New(func(fsys.Op, string) error {
		if counters.Phase(c.Phase.Load()) == counters.PhaseVerifying {
			once.Do(f)
		}
		return nil
	})
}

// stopAt runs until so many bytes of the source are done, and is stopped then.
func stopAt(t *testing.T, o Options, bytes int64) *Summary {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c := &counters.Set{}
	stop := func(fsys.Call) error {
		if c.Bytes.Load() >= bytes {
			cancel()
		}
		return nil
	}
	fault := faultfs.OnOp(stop, fsys.OpRead, fsys.OpCopyRange)
	if o.FS != nil {
		fault = faultfs.All(fault, o.FS.Fault)
	}
	o.FS = &fsys.FS{Fault: fault}
	s, err := Run(ctx, &o, c)
	require.ErrorIs(t, err, context.Canceled, "it was to be stopped at byte %d of %d: %v", bytes, c.Bytes.Load(), o.Hashes)
	return s
}

// requireCopied checks that a run reports no problem. The destination must have exactly the given
// files, and each manifest a correct line for each of them.
func requireCopied(t *testing.T, o Options, files map[string][]byte) *Summary {
	t.Helper()
	out := watched(t, o)
	require.Empty(t, out.panicked)
	require.NoError(t, out.err)
	require.False(t, out.anything(), "%s", out)
	requireContent(t, o, files)
	return out.summary
}

func requireContent(t *testing.T, o Options, files map[string][]byte) {
	t.Helper()
	for _, target := range o.Targets {
		nodes := look(t, target)
		for name, content := range files {
			require.True(t, nodes[name].content == string(content), "%s is wrong in %s", name, target)
		}
		for name := range nodes {
			require.NotContains(t, name, fsys.Reserved, "left in %s", target)
		}
		for _, a := range o.Hashes {
			list, err := os.ReadFile(filepath.Join(target, strings.ToUpper(string(a))+"SUMS"))
			require.NoError(t, err)
			for name, content := range files {
				h := a.New()
				h.Write(content)
				require.Equal(t, hex.EncodeToString(h.Sum(nil)), readManifestOf(t, a, string(list))[name], "the %s manifest of %s", a, target)
			}
			require.Equal(t, len(files), strings.Count(string(list), "\n"))
		}
	}
}
