//go:build unix

package jobs

import (
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// For any limit of descriptors, the files of the workers, the queues and the directories leave
// some for the rest. There is at least one of each.
func TestDescriptorsAreDivided(t *testing.T) {
	var before syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &before))
	defer func() { require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &before)) }()
	for _, limit := range []int{64, 256, 1024} {
		now := before
		now.Cur = uint64(limit)
		require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &now))
		for devices := 1; devices <= 4; devices++ {
			for files := 1; files <= 4; files++ {
				workers := Workers(1000, devices, files)
				all := workers * devices
				require.GreaterOrEqual(t, workers, 1)
				require.LessOrEqual(t, all*files, max(limit/16, devices*files))
				require.LessOrEqual(t, all*Directories(all), max(limit/4, all))
				require.LessOrEqual(t, queueLength(workers, devices)*devices, max(limit/16, devices))
			}
		}
	}
	require.Equal(t, 3, Workers(3, 1, 1))
	require.Positive(t, Workers(0, 1, 1))
}

// All workers share one limit of bytes and one counter.
func TestPipe(t *testing.T) {
	var bytes atomic.Int64
	p := NewPipe(2, 0, &bytes)
	require.Nil(t, p.Limiter)
	p.Count(5)
	require.EqualValues(t, 5, bytes.Load())
	require.EqualValues(t, 1000, NewPipe(2, 1000, &bytes).Limiter.Limit())
}
