package engine

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/fsys/faultfs"
	"github.com/seed65876f4f/sealift/internal/policy"
	"github.com/seed65876f4f/sealift/internal/treetest"
)

// On some file systems, for example on NTFS shares, setting an attribute changes the modification
// time. So the times are set after the attributes.
func TestAttributesThatChangeTheTime(t *testing.T) {
	t.Parallel()
	src, dst := sourceAndDestination(t)
	write(t, src, "sub/a", []byte("x"), since)
	file, dir := filepath.Join(src, "sub/a"), filepath.Join(src, "sub")
	setAttribute(t, dir, "user.note", "first")
	require.NoError(t, os.Chtimes(dir, since, since))
	o := options(src, dst)
	o.FS = &fsys.FS{Fault: func(c fsys.Call) error {
		if c.Op != fsys.OpSetXattr || c.Name != "user.note" {
			return nil
		}
		now := time.Now()
		err := os.Chtimes(filepath.Dir(c.Path), now, now)
		if os.IsNotExist(err) { // a new file, which has no name yet
			return nil
		}
		return err
	}}
	ignored := treetest.Options{Ignore: []string{"SHA256SUMS"}}
	mustRun(t, o)
	treetest.Compare(t, src, dst, ignored)

	setAttribute(t, file, "user.note", "second") // of an existing file
	mustRun(t, o)
	treetest.Compare(t, src, dst, ignored)
}

// Attributes that a file system refuses do not count as updated metadata, also if a file is made
// writable for the attempt.
func TestRefusedAttributesAreNoUpdate(t *testing.T) {
	t.Parallel()
	src, dst := sourceAndDestination(t)
	for _, name := range []string{"a", "b", "c"} {
		write(t, src, name, []byte("x"), since)
		require.NoError(t, os.Chmod(filepath.Join(src, name), 0o444))
		if err := unix.Setxattr(filepath.Join(src, name), "user.note", []byte("1"), 0); err != nil {
			t.Skipf("the file system has no user attributes: %v", err)
		}
	}
	o := options(src, dst)
	o.FS = faultfs.New(func(op fsys.Op, name string) error {
		if op == fsys.OpSetXattr && strings.HasPrefix(name, "user.") {
			return unix.ENOTSUP
		}
		return nil
	})
	runReported(t, o)
	again := runReported(t, o)
	require.Len(t, again.bad(), 1, "one warning")
	require.Equal(t, Counts{UpToDate: 3}, again.summary.Counts)
	for _, name := range []string{"a", "b", "c"} {
		info, err := os.Stat(filepath.Join(dst, name))
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o444), info.Mode())
	}
}

// A directory that keeps replaced files gets the ACL of the directory that they were in. Its mask is not
// the permission of the group.
func TestBackupDirectoriesGetTheACLs(t *testing.T) {
	t.Parallel()
	src, dst := oldAndNew(t)
	const unknown = "\xff\xff\xff\xff"
	acl := "\x02\x00\x00\x00" + "\x01\x00\x07\x00" + unknown + "\x02\x00\x07\x00\xd2\x04\x00\x00" +
		"\x04\x00\x00\x00" + unknown + "\x10\x00\x07\x00" + unknown + "\x20\x00\x00\x00" + unknown // user::rwx, user:1234:rwx, group::---, mask::rwx, other::---
	if err := unix.Setxattr(filepath.Join(dst, "d"), "system.posix_acl_access", []byte(acl), 0); err != nil {
		t.Skipf("the file system has no ACLs: %v", err)
	}
	o := backedUpTo("old", src, dst)
	o.Policy = policy.Always
	runReported(t, o)
	got := make([]byte, 100)
	n, err := unix.Getxattr(filepath.Join(dst, "old", "d"), "system.posix_acl_access", got)
	require.NoError(t, err)
	require.Equal(t, acl, string(got[:n]))
}
