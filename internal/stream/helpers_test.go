//go:build linux

package stream

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// outcome is what a run came to.
type outcome struct {
	summary *Summary
	err     error
	events  []Event
}

func (o outcome) texts() string {
	var b strings.Builder
	for _, e := range o.events {
		fmt.Fprintln(&b, e.Err)
	}
	return b.String()
}

// stream copies in to outs, with sha256, and with what change asks for.
func stream(ctx context.Context, in string, outs []string, change func(*Options)) outcome {
	return streamIn(ctx, nil, in, outs, change)
}

// streamIn is stream through sys.
func streamIn(ctx context.Context, sys *fsys.FS, in string, outs []string, change func(*Options)) outcome {
	var o outcome
	var mu sync.Mutex
	opts := &Options{
		FS: sys, Input: in, Outputs: outs, Stdin: os.Stdin, Stdout: os.Stdout,
		BlockSize: DefaultBlockSize, Hashes: []hash.Algorithm{hash.SHA256},
		Report: func(e Event) {
			mu.Lock()
			defer mu.Unlock()
			o.events = append(o.events, e)
		},
	}
	if change != nil {
		change(opts)
	}
	o.summary, o.err = Run(ctx, opts, &counters.Set{})
	return o
}

// succeeds demands a run that has nothing to report.
func succeeds(t require.TestingT, o outcome) *Summary {
	require.NoError(t, o.err)
	require.Empty(t, o.events)
	require.Zero(t, o.summary.Errors)
	require.True(t, o.summary.Complete)
	return o.summary
}

func write(t require.TestingT, path string, content []byte) string {
	require.NoError(t, os.WriteFile(path, content, 0o600))
	return path
}

func read(t require.TestingT, path string) []byte {
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	return b
}

func digest(b []byte) []byte {
	sum := sha256.Sum256(b)
	return sum[:]
}
