//go:build unix

package cli

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/engine"
)

// A named pipe as the log waits for its reader, and as a list of files for its writer. A signal ends
// a command that waits.
func TestASignalEndsACommandThatWaitsForAPipe(t *testing.T) {
	for _, flag := range []string{"--log-file", "--files-from", "--exclude-from"} {
		pipe := filepath.Join(t.TempDir(), "pipe")
		require.NoError(t, syscall.Mkfifo(pipe, 0o600))
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(100*time.Millisecond, func() { cancel(Interrupt{syscall.SIGTERM}) })
		run := func(context.Context, *engine.Options, *counters.Set) (*engine.Summary, error) {
			t.Error("the job has begun")
			return nil, nil
		}
		var stdout, stderr bytes.Buffer
		code := execute(ctx, newRootCmd(newCopyCmd(run)), []string{"copy", flag, pipe, "a", "b"}, strings.NewReader(""), &stdout, &stderr)
		require.Equal(t, 143, code)
		require.Equal(t, "sealift: stopped by SIGTERM\n", stderr.String())
		require.Empty(t, stdout.String())

		other, err := os.OpenFile(pipe, os.O_RDWR, 0) // lets the open end
		require.NoError(t, err)
		time.Sleep(10 * time.Millisecond)
		require.NoError(t, other.Close())
	}
}

func TestTheLogCanBeAPipe(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	read := make(chan string)
	go func() {
		time.Sleep(100 * time.Millisecond)
		log, err := os.ReadFile(pipe)
		if err != nil {
			t.Error(err)
		}
		read <- string(log)
	}()
	run := func(context.Context, *engine.Options, *counters.Set) (*engine.Summary, error) {
		return &engine.Summary{Total: 1}, nil
	}
	r := command(t, run, "", "copy", "--log-file", pipe, "a", "b")
	require.Zero(t, r.code)
	require.Contains(t, <-read, "exit_code=0")
}
