package engine

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/event"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/fsys/faultfs"
	"github.com/seed65876f4f/sealift/internal/policy"
)

// A file at the destination that its device cannot return is replaced if the policy replaces a file
// with different content. Otherwise it is reported and left alone.
func TestUnreadableFileAtTheDestination(t *testing.T) {
	t.Parallel()
	linuxOnly(t, "Windows reports a bad sector with another error")
	for name, c := range map[string]struct {
		policy   policy.Policy
		age      time.Duration // by how much the source is newer
		replaced bool
	}{
		"checksum":       {policy.Checksum, 0, true},
		"default, newer": {policy.Default, time.Hour, true},
		"default, older": {policy.Default, -time.Hour, false},
		"protect":        {policy.Protect, time.Hour, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			src, dst := sourceAndDestination(t)
			write(t, src, "file", []byte("content"), since.Add(c.age))
			write(t, dst, "file", []byte("CONTENT"), since)
			o := options(src, dst)
			o.Policy = c.policy
			o.FS = &fsys.FS{Fault: faultfs.When(func(call fsys.Call) bool {
				return call.Op == fsys.OpRead && strings.HasPrefix(call.Path, filepath.Join(dst, "file"))
			}, faultfs.Fail(syscall.EIO))}
			out := watched(t, o)
			have, err := os.ReadFile(filepath.Join(dst, "file"))
			require.NoError(t, err)
			if !c.replaced {
				require.Len(t, out.bad(), 1, "%s", out)
				require.ErrorIs(t, out.bad()[0].Err, syscall.EIO)
				require.Equal(t, "CONTENT", string(have))
				return
			}
			require.Len(t, out.bad(), 1, "%s", out)
			require.Equal(t, event.Warning, out.bad()[0].Kind)
			require.ErrorIs(t, out.bad()[0].Err, syscall.EIO)
			require.Equal(t, "content", string(have))
			require.Contains(t, readManifest(t, manifestOf(t, dst)), "file")
		})
	}
}

func manifestOf(t *testing.T, dir string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "SHA256SUMS"))
	require.NoError(t, err)
	return string(text)
}
