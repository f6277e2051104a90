package engine

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/seed65876f4f/sealift/internal/treetest"
)

func TestAPlanOfOneFileSystemLeavesMountsOut(t *testing.T) {
	p := newPlanCase(t, treetest.Dir{"a": treetest.File("1"), "m": treetest.Dir{}}, nil)
	mount := filepath.Join(p.source, "m")
	if err := unix.Mount("tmpfs", mount, "tmpfs", 0, ""); err != nil {
		t.Skip("nothing can be mounted:", err)
	}
	t.Cleanup(func() { require.NoError(t, unix.Unmount(mount, 0)) })
	require.NoError(t, os.WriteFile(filepath.Join(mount, "b"), nil, 0o600))
	p.opts.OneFileSystem = true
	s := p.planned()
	entries := p.entries(s)
	assert.Equal(t, []string{"a"}, keysOf(entries))
	assert.Equal(t, []string{"", "m"}, keysOf(p.directories(s)))
	assert.True(t, s.Plan.Options.OneFileSystem)
}
