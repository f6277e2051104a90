package engine

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/fsys/faultfs"
	"github.com/seed65876f4f/sealift/internal/treetest"
)

// From some call on, the previous manifest cannot be described. Then the run does not replace the
// files that it lists, so no manifest under its name has a wrong line.
func TestAManifestThatCannotBeDescribed(t *testing.T) {
	t.Parallel()
	for n := int64(0); ; n++ {
		base := treetest.MemoryDir(t)
		src, dst := filepath.Join(base, "src"), filepath.Join(base, "dst")
		write(t, src, "a", []byte("old"), longAgo)
		write(t, src, "b", []byte("same"), longAgo)
		o := options(src, dst)
		_, err := Run(t.Context(), &o, new(counters.Set))
		require.NoError(t, err)
		write(t, src, "a", []byte("other"), since)

		var calls atomic.Int64
		o.FS = &fsys.FS{Fault: faultfs.OnOp(faultfs.OnName("SHA256SUMS", func(fsys.Call) error {
			if calls.Add(1) > n {
				return syscall.EIO
			}
			return nil
		}), fsys.OpStat)}
		summary, err := Run(t.Context(), &o, new(counters.Set))
		list, readErr := os.ReadFile(filepath.Join(dst, "SHA256SUMS"))
		for line := range strings.Lines(string(list)) {
			digest, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
			content, err := os.ReadFile(filepath.Join(dst, name))
			require.NoError(t, err)
			sum := sha256.Sum256(content)
			require.Equal(t, hex.EncodeToString(sum[:]), digest, "%s, with %d calls that succeed", name, n)
		}
		if calls.Load() <= n {
			require.NoError(t, err)
			require.NoError(t, readErr)
			require.Zero(t, summary.Errors)
			return
		}
		require.True(t, err != nil || summary.Errors > 0, "an error is reported")
	}
}

// A file that is up to date cannot be read back, and from then on nothing of the destination can
// be read. The file gets another name, so the manifest that lists it must not stay.
func TestAManifestOfAFileThatIsSetAside(t *testing.T) {
	t.Parallel()
	base := treetest.MemoryDir(t)
	src, dst := filepath.Join(base, "src"), filepath.Join(base, "dst")
	write(t, src, "a", []byte("first"), longAgo)
	write(t, src, "b", []byte("second"), longAgo)
	o := options(src, dst)
	_, err := Run(t.Context(), &o, new(counters.Set))
	require.NoError(t, err)

	var failing atomic.Bool
	o.Verify, o.Workers = VerifyDest, 1
	o.FS = &fsys.FS{Fault: faultfs.OnOp(func(c fsys.Call) error {
		if filepath.Base(c.Path) == "b" && strings.Contains(c.Path, dst) {
			failing.Store(true)
		}
		if failing.Load() && strings.Contains(c.Path, dst) { // the source matches the line
			return syscall.EIO
		}
		return nil
	}, fsys.OpRead)}
	summary, err := Run(t.Context(), &o, new(counters.Set))
	require.True(t, failing.Load())
	require.True(t, err != nil || summary.Errors > 0)
	require.NoFileExists(t, filepath.Join(dst, "b"))
	list, _ := os.ReadFile(filepath.Join(dst, "SHA256SUMS"))
	require.NotContains(t, string(list), "  b\n")

	o.FS = nil // the same command repairs it
	summary, err = Run(t.Context(), &o, new(counters.Set))
	require.NoError(t, err)
	require.Zero(t, summary.Errors)
	treetest.Compare(t, src, dst, treetest.Options{Ignore: []string{"SHA256SUMS", ".sealift-bad-b"}})
}
