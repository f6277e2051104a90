package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/engine"
	"github.com/seed65876f4f/sealift/internal/shard"
)

// takenOver is a shardRunner whose shard another task takes over. other is what that task does.
func takenOver(lost error, other shardRunner) shardRunner {
	return func(ctx context.Context, o *engine.Options, s *shard.Store, index int, a shard.AttemptOptions, c *counters.Set) (*engine.Summary, error) {
		another := *o
		another.Report = nil
		if _, err := other(ctx, &another, s, index, a, c); err != nil {
			return nil, err
		}
		return &engine.Summary{Totals: engine.Totals{Errors: 1}}, fmt.Errorf("shard %d cannot be recorded as finished: %w", index, lost)
	}
}

func runTakenOver(t *testing.T, run shardRunner, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, messages bytes.Buffer
	code = execute(t.Context(), newRootCmd(newRunCmd(run)), append([]string{"run"}, args...), strings.NewReader(""), &out, &messages)
	return code, out.String(), messages.String()
}

// A task that has lost its shard exits as the task that has finished it.
func TestShardThatAnotherTaskHasFinished(t *testing.T) {
	dir, plan := plannedCard(t)
	run := takenOver(shard.ErrSuperseded, engine.RunShard)
	code, stdout, stderr := runTakenOver(t, run, plan, "--shard", "0")
	require.Zero(t, code, stderr)
	require.Equal(t, "shard 0 is finished by another task, which has taken it over\n", stdout)
	require.Contains(t, stderr, "sealift: warning: shard 0: ")
	require.Contains(t, stderr, "another task has begun this shard again; that task has finished it\n")
	require.Equal(t, 1, strings.Count(stderr, "\n"), stderr)

	for i := range 6 { // those of the last shard do not exist yet
		if err := os.Mkdir(filepath.Join(dir, "dst", fmt.Sprintf("clip%d", i)), 0o700); !errors.Is(err, fs.ErrExist) {
			require.NoError(t, err)
		}
	}
	run = takenOver(shard.ErrSuperseded, engine.RunShard)
	code, stdout, _ = runTakenOver(t, run, "--json", plan, "--shard", "2")
	require.Equal(t, 4, code, stdout)
	require.Contains(t, stdout, `"state":"finished_by_another_task"`)
	require.Contains(t, stdout, `"exit_code":4`)
}

// If the other task has not finished the shard yet, the task that has lost it exits with 1.
func TestShardThatAnotherTaskHasNotFinished(t *testing.T) {
	_, plan := plannedCard(t)
	waits := func(context.Context, *engine.Options, *shard.Store, int, shard.AttemptOptions, *counters.Set) (*engine.Summary, error) {
		return nil, nil
	}
	code, stdout, stderr := runTakenOver(t, takenOver(shard.ErrSuperseded, waits), plan, "--shard", "0")
	require.Equal(t, 1, code, stderr)
	require.Contains(t, stdout, "SHARD 0 IS NOT FINISHED: ")
	require.Contains(t, stderr, "another task has begun this shard again")
}

// A task that fails in two ways prints two messages.
func TestATaskWithTwoErrors(t *testing.T) {
	_, plan := plannedCard(t)
	run := func(context.Context, *engine.Options, *shard.Store, int, shard.AttemptOptions, *counters.Set) (*engine.Summary, error) {
		return nil, errors.Join(errors.New("one"), fmt.Errorf("%w of %w", errors.New("two"), errors.New("three")))
	}
	code, _, stderr := runTakenOver(t, run, plan, "--shard", "0")
	require.Equal(t, 1, code)
	require.Equal(t, "sealift: shard 0: one\nsealift: shard 0: two of three\n", stderr)
}

// An error that wraps two others has one text.
func TestATaskWithAnErrorOfTwo(t *testing.T) {
	_, plan := plannedCard(t)
	run := func(context.Context, *engine.Options, *shard.Store, int, shard.AttemptOptions, *counters.Set) (*engine.Summary, error) {
		return nil, fmt.Errorf("%w: %w", errors.New("one"), errors.New("two"))
	}
	code, _, stderr := runTakenOver(t, run, plan, "--shard", "0")
	require.Equal(t, 1, code)
	require.Equal(t, "sealift: shard 0: one: two\n", stderr)
}

// A plan on a device that fails is a failure, not a refusal: exit code 2 ends a job of Kubernetes.
func TestThePlanOnAFailedDevice(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows reports a failing disk with other errors")
	}
	for err, want := range map[error]int{syscall.EIO: 1, syscall.EROFS: 1, fs.ErrNotExist: 2, shard.ErrNotPrivate: 2} {
		o, report := outcomeOf(refusePlan("a b", err))
		require.True(t, report)
		require.Equal(t, want, o.code(), "%v", err)
		require.EqualError(t, refusePlan("a b", err), "plan 'a b': "+err.Error())
	}
}
