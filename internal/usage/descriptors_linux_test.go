package usage

import (
	"fmt"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/treetest"
)

// However few descriptors there may be, there are enough.
func TestFewDescriptors(t *testing.T) {
	root := treetest.MemoryDir(t)
	want := uint64(1)
	for i := range 200 {
		require.NoError(t, os.MkdirAll(fmt.Sprintf("%s/%d/a/b/c/d", root, i), 0o700))
		want += 5
	}
	var before syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &before))
	defer func() { require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &before)) }()
	for _, limit := range []uint64{20, 40, 80} {
		now := before
		now.Cur = limit
		require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &now))
		for range 5 {
			a, err := run1(t.Context(), Options{Paths: []string{root}, MaxDepth: -1, Workers: 1024})
			require.NoError(t, err)
			require.Empty(t, a.Failed, "%d descriptors", limit)
			require.Len(t, a.Entries, int(want))
		}
	}
}
