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
			require.Equal(t, "file", out.bad()[0].Path)
			require.NotContains(t, out.bad()[0].Err.Error(), "'file'", "the reporter prints the path")
			require.Equal(t, "content", string(have))
			require.Contains(t, readManifest(t, manifestOf(t, dst)), "file")
		})
	}
}

// A copy without hashes does not know the digest of a file that it replaces because its device cannot
// return it. The earlier manifest loses that line and keeps the others, and a repetition changes nothing.
func TestUnreadableFileLosesItsLineWithoutHashes(t *testing.T) {
	t.Parallel()
	linuxOnly(t, "Windows reports a bad sector with another error")
	src, dst := sourceAndDestination(t)
	write(t, src, "file", []byte("content"), since)
	write(t, src, "other", []byte("content"), since)
	o := options(src, dst)
	require.Empty(t, watched(t, o).bad())
	require.NoError(t, os.Chtimes(filepath.Join(dst, "file"), longAgo, longAgo))
	require.NoError(t, os.Chtimes(filepath.Join(dst, "other"), longAgo, longAgo))

	o.Hashes = nil
	o.FS = &fsys.FS{Fault: faultfs.When(func(call fsys.Call) bool {
		return call.Op == fsys.OpRead && strings.HasPrefix(call.Path, filepath.Join(dst, "file"))
	}, faultfs.Fail(syscall.EIO))}
	require.Len(t, watched(t, o).bad(), 1)
	other := sha("content") + "  other\n"
	require.Equal(t, other, manifestOf(t, dst))

	o.FS = nil
	require.Empty(t, watched(t, o).bad())
	require.Equal(t, other, manifestOf(t, dst))
	o.Hashes = options(src, dst).Hashes
	require.Empty(t, watched(t, o).bad())
	require.Equal(t, sha("content")+"  file\n"+other, manifestOf(t, dst))
}

func manifestOf(t *testing.T, dir string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "SHA256SUMS"))
	require.NoError(t, err)
	return string(text)
}
