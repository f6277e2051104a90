package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"go.uber.org/goleak"

	"github.com/seed65876f4f/sealift/internal/compare"
	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/engine"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/repair"
	"github.com/seed65876f4f/sealift/internal/stream"
	"github.com/seed65876f4f/sealift/internal/sum"
	"github.com/seed65876f4f/sealift/internal/usage"
	"github.com/seed65876f4f/sealift/internal/verify"
)

// limitingHeap ignores the goroutine of limitHeap, which may wait for the garbage collector after
// Main has returned.
var limitingHeap = goleak.IgnoreAnyFunction("github.com/seed65876f4f/sealift/internal/cli.limitHeap.func1")

func TestMain(m *testing.M) {
	volumeOf = func(*fsys.FS, string) volume { return volume{free: -1} }
	goleak.VerifyTestMain(m, limitingHeap)
}

// onVolumes puts paths on volumes, as the command sees it.
func onVolumes(t *testing.T, v volumes) {
	t.Helper()
	before := volumeOf
	volumeOf = func(_ *fsys.FS, path string) volume { return v.at(path) }
	t.Cleanup(func() { volumeOf = before })
}

// The functions that tests pass instead of [engine.Run] and so on.
type (
	runCopy    = runner[engine.Options, engine.Summary]
	runVerify  = runner[verify.Options, verify.Summary]
	runCompare = runner[compare.Options, compare.Summary]
	runSum     = runner[sum.Options, sum.Summary]
	runStream  = runner[stream.Options, stream.Summary]
)

// ends returns a runner that does nothing and returns the given values.
func ends[O, S any](s *S, err error) runner[O, S] {
	return func(context.Context, *O, *counters.Set) (*S, error) { return s, err }
}

func succeeds(context.Context, *engine.Options, *counters.Set) (*engine.Summary, error) {
	return &engine.Summary{}, nil
}

// result is the result of one command line.
type result[O any] struct {
	code           int
	stdout, stderr string
	options        *O // that the runner got; nil if it was not called
}

// lineOf runs a command line. place puts run into the program. Standard output goes to stdout, or
// into the result if stdout is nil.
func lineOf[O, S any](t *testing.T, stdout io.Writer, run runner[O, S], place func(runner[O, S]) runs, stdin string, args ...string) result[O] {
	t.Helper()
	var r result[O]
	spy := func(ctx context.Context, o *O, c *counters.Set) (*S, error) {
		r.options = o
		return run(ctx, o, c)
	}
	var out, stderr bytes.Buffer
	if stdout == nil {
		stdout = &out
	}
	r.code = execute(t.Context(), rootThat(place(spy)), args, strings.NewReader(stdin), stdout, &stderr)
	r.stdout, r.stderr = out.String(), stderr.String()
	return r
}

// command runs a command line with run in place of the copy.
func command(t *testing.T, run runCopy, stdin string, args ...string) result[engine.Options] {
	t.Helper()
	return commandTo(t, nil, run, stdin, args...)
}

func commandTo(t *testing.T, stdout io.Writer, run runCopy, stdin string, args ...string) result[engine.Options] {
	t.Helper()
	return lineOf(t, stdout, run, func(run runCopy) runs { return runs{copy: run} }, stdin, args...)
}

// verifyCommand runs verify with run in place of the verification.
func verifyCommand(t *testing.T, run runVerify, stdin string, args ...string) result[verify.Options] {
	t.Helper()
	return verifyCommandTo(t, nil, run, stdin, args...)
}

func verifyCommandTo(t *testing.T, stdout io.Writer, run runVerify, stdin string, args ...string) result[verify.Options] {
	t.Helper()
	return lineOf(t, stdout, run, func(run runVerify) runs { return runs{verify: run} }, stdin, append([]string{"verify"}, args...)...)
}

// sumCommand runs sum with run in place of the hashing.
func sumCommand(t *testing.T, run runSum, stdin string, args ...string) result[sum.Options] {
	t.Helper()
	return sumCommandTo(t, nil, run, stdin, args...)
}

func sumCommandTo(t *testing.T, stdout io.Writer, run runSum, stdin string, args ...string) result[sum.Options] {
	t.Helper()
	return lineOf(t, stdout, run, func(run runSum) runs { return runs{sum: run} }, stdin, append([]string{"sum"}, args...)...)
}

// streamCommand runs stream with run in place of the copy.
func streamCommand(t *testing.T, run runStream, args ...string) result[stream.Options] {
	t.Helper()
	return lineOf(t, nil, run, func(run runStream) runs { return runs{stream: run} }, "", append([]string{"stream"}, args...)...)
}

// duCommand runs du with run in place of the walk.
func duCommand(t *testing.T, run runDu, args ...string) result[usage.Options] {
	t.Helper()
	return duCommandTo(t, nil, run, args...)
}

func duCommandTo(t *testing.T, stdout io.Writer, run runDu, args ...string) result[usage.Options] {
	t.Helper()
	counted := func(ctx context.Context, o *usage.Options, _ *counters.Set) (*usage.Summary, error) {
		return run(ctx, o)
	}
	return lineOf(t, stdout, counted, func(spy runner[usage.Options, usage.Summary]) runs {
		return runs{du: func(ctx context.Context, o *usage.Options) (*usage.Summary, error) { return spy(ctx, o, nil) }}
	}, "", append([]string{"du"}, args...)...)
}

// runs replaces the work of the commands. Fields that are nil succeed.
type runs struct {
	copy    runCopy
	verify  runVerify
	compare runCompare
	sum     runSum
	du      runDu
	stream  runStream
	repair  runner[repair.Options, repair.Summary]
}

// rootThat returns the root command of the program with these runs.
func rootThat(r runs) *cobra.Command {
	if r.copy == nil {
		r.copy = succeeds
	}
	if r.verify == nil {
		r.verify = ends[verify.Options](&verify.Summary{}, nil)
	}
	if r.compare == nil {
		r.compare = ends[compare.Options](&compare.Summary{}, nil)
	}
	if r.sum == nil {
		r.sum = ends[sum.Options](&sum.Summary{}, nil)
	}
	if r.du == nil {
		r.du = func(context.Context, *usage.Options) (*usage.Summary, error) { return &usage.Summary{}, nil }
	}
	if r.stream == nil {
		r.stream = ends[stream.Options](&stream.Summary{}, nil)
	}
	if r.repair == nil {
		r.repair = ends[repair.Options](&repair.Summary{}, nil)
	}
	return newRootCmd(newCopyCmd(r.copy), newVerifyCmd(r.verify), newRepairCmd(r.repair), newScrubCmd(verify.Scrub), newCompareCmd(r.compare), newSumCmd(r.sum), newDuCmd(r.du), newStreamCmd(r.stream),
		newPlanCmd(engine.Plan), newRunCmd(engine.RunShard), newMergeCmd(engine.Merge), newCompletionCmd(), newManCmd(), newVersionCmd(readBuild()))
}

// fullDisk is a writer that accepts some bytes and then fails.
type fullDisk struct{ free int }

func (d *fullDisk) Write(p []byte) (int, error) {
	if len(p) > d.free {
		n := d.free
		d.free = 0
		return n, &os.PathError{Op: "write", Path: "/dev/stdout", Err: errors.New("no space left on device")}
	}
	d.free -= len(p)
	return len(p), nil
}

func parsed(t *testing.T, stdin string, args ...string) *engine.Options {
	t.Helper()
	r := command(t, succeeds, stdin, append([]string{"copy"}, args...)...)
	if r.code != 0 || r.options == nil {
		t.Fatalf("%q: exit code %d, stderr %q", args, r.code, r.stderr)
	}
	return r.options
}

// completed returns the completion of a command line, as the scripts of shells request it.
func completed(t *testing.T, args ...string) string {
	t.Helper()
	r := command(t, succeeds, "", append([]string{"__completeNoDesc"}, args...)...)
	assert.Equal(t, 0, r.code, args)
	return strings.Join(strings.Fields(r.stdout), " ")
}

func compareGolden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".golden")
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s:\n%swant\n%s", name, got, want)
	}
}

// notedWriter records each write.
type notedWriter struct {
	mu     sync.Mutex
	writes []string
	fails  error
}

func (n *notedWriter) Write(p []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.fails != nil {
		return 0, n.fails
	}
	n.writes = append(n.writes, string(p))
	return len(p), nil
}

func (n *notedWriter) noted() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.writes)
}
