package engine

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/dest"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/fsys/faultfs"
	"github.com/seed65876f4f/sealift/internal/policy"
	"github.com/seed65876f4f/sealift/internal/treetest"
)

// After an interruption, policy protect replaces a file only if it holds nothing but bytes
// that the source has at the same place, and zeros. Another process may have written any other
// content.
func TestProtectReplacesOnlyFilesOfAnInterruptedRun(t *testing.T) {
	t.Parallel()
	const whole = "the content of the source"
	for name, c := range map[string]struct {
		have     string
		replaced bool
	}{
		"nothing":          {"", true},
		"the beginning":    {whole[:7], true},
		"zeros":            {strings.Repeat("\x00", len(whole)), true},
		"some zeros":       {whole[:4] + "\x00\x00\x00\x00" + whole[8:], true},
		"other content":    {"the content of a new card", false},
		"a longer file":    {whole + "\x00", false},
		"a shorter file":   {"another", false},
		"the same content": {whole, false},
	} {
		t.Run(name, func(t *testing.T) {
			src, dst := sourceAndDestination(t)
			write(t, src, "file", []byte(whole), since)
			write(t, src, "z", []byte("z"), since)
			o := options(src, dst)
			o.Policy, o.Sync, o.Workers, o.FailFast = policy.Protect, dest.SyncEnd, 1, true
			o.FS = faultfs.New(func(op fsys.Op, name string) error {
				if op == fsys.OpOpen && name == "z" {
					return syscall.EIO // the run ends, and its journal stays
				}
				return nil
			})
			_, err := Run(t.Context(), &o, &counters.Set{})
			require.NoError(t, err)
			write(t, dst, "file", []byte(c.have), since)

			o.FS, o.FailFast = nil, false
			s, err := Run(t.Context(), &o, &counters.Set{})
			require.NoError(t, err)
			have := look(t, dst)
			if c.replaced || c.have == whole {
				require.Zero(t, s.Conflicts)
				require.Equal(t, whole, have["file"].content)
				require.Equal(t, map[string]string{"file": sha(whole), "z": sha("z")}, readManifest(t, have["SHA256SUMS"].content))
			} else {
				require.EqualValues(t, 1, s.Conflicts)
				require.Equal(t, c.have, have["file"].content)
				require.Equal(t, map[string]string{"z": sha("z")}, readManifest(t, have["SHA256SUMS"].content))
			}
		})
	}
}

// A file of the same size and time as a hard link of the source is not replaced by a link
// before its content was compared, whatever the manifest lists.
func TestProtectComparesBeforeItLinks(t *testing.T) {
	t.Parallel()
	for _, listed := range []bool{false, true} {
		src, dst := sourceAndDestination(t)
		write(t, src, "a", []byte("first"), since)
		require.NoError(t, os.Link(filepath.Join(src, "a"), filepath.Join(src, "b")))
		write(t, dst, "b", []byte("other"), since)
		if listed {
			write(t, dst, "SHA256SUMS", []byte(sha("first")+"  b\n"), since)
		}
		o := options(src, dst)
		o.Policy, o.Workers = policy.Protect, 1
		s, err := Run(t.Context(), &o, &counters.Set{})
		require.NoError(t, err)
		require.Zero(t, s.Errors)
		require.Equal(t, "other", look(t, dst)["b"].content)
		if !listed { // and so it is compared
			require.EqualValues(t, 1, s.Conflicts)
		}
	}
}

// A file that shares its inode with a name outside of the copy gets a file of its own where
// metadata changes. Policy protect compares it before.
func TestProtectComparesBeforeItUnshares(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		content   string
		conflicts int64
	}{{"first", 0}, {"other", 1}} {
		dir := treetest.MemoryDir(t)
		src, dst := filepath.Join(dir, "src"), filepath.Join(dir, "dst")
		write(t, src, "a", []byte("first"), since)
		write(t, dst, "a", []byte(c.content), since)
		write(t, dst, "SHA256SUMS", []byte(sha("first")+"  a\n"), since)
		require.NoError(t, os.Chmod(filepath.Join(src, "a"), 0o600))
		require.NoError(t, os.Chmod(filepath.Join(dst, "a"), 0o640))
		require.NoError(t, os.Link(filepath.Join(dst, "a"), filepath.Join(dir, "outside")))
		o := options(src, dst)
		o.Policy, o.Workers = policy.Protect, 1
		s, err := Run(t.Context(), &o, &counters.Set{})
		require.NoError(t, err)
		require.Equal(t, c.conflicts, s.Conflicts)
		require.Equal(t, c.content, look(t, dst)["a"].content)
		outside, err := os.Stat(filepath.Join(dir, "outside"))
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o640), outside.Mode())
	}
}

// A name that appears between the decision and the commit is not replaced.
func TestProtectLeavesANameThatAppears(t *testing.T) {
	t.Parallel()
	src, dst := sourceAndDestination(t)
	write(t, src, "file", []byte("first"), since)
	appeared := false
	o := options(src, dst)
	o.Policy, o.Workers = policy.Protect, 1
	o.FS = &fsys.FS{Fault: func(c fsys.Call) error {
		if c.Op == fsys.OpLink && c.Name == "file" && !appeared {
			appeared = true
			write(t, dst, "file", []byte("other"), since.Add(-time.Hour))
		}
		return nil
	}}
	s, err := Run(t.Context(), &o, &counters.Set{})
	require.NoError(t, err)
	require.True(t, appeared)
	require.EqualValues(t, 1, s.Conflicts)
	require.Equal(t, "other", look(t, dst)["file"].content)
}
