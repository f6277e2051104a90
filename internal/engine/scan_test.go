package engine

import (
	"context"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/treetest"
)

// A run that ends soon lists each directory of the source once, also if the totals are wanted.
func TestAShortRunWalksTheSourceOnce(t *testing.T) {
	t.Parallel()
	dir := treetest.MemoryDir(t)
	src := filepath.Join(dir, "src")
	write(t, src, "sub/a", []byte("x"), since)
	var space fsys.FS
	root, err := space.OpenRoot(dir)
	require.NoError(t, err)
	defer root.Close()
	if root.Available() < littleSpace {
		t.Skip("the scan begins at once")
	}
	var listed atomic.Int64
	o := options(src, filepath.Join(dir, "dst"))
	o.scanAfter = time.Hour
	o.FS = &fsys.FS{Fault: func(c fsys.Call) error {
		if c.Op == fsys.OpList && c.Path == filepath.Join(src, "sub") {
			listed.Add(1)
		}
		return nil
	}}
	_, err = Run(context.Background(), &o, &counters.Set{CountTotals: true})
	require.NoError(t, err)
	require.EqualValues(t, 1, listed.Load())
}
