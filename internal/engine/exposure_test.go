//go:build linux

package engine

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/fsys/faultfs"
	"github.com/seed65876f4f/sealift/internal/policy"
	"github.com/seed65876f4f/sealift/internal/resume"
	"github.com/seed65876f4f/sealift/internal/treetest"
)

// guise has the properties of a file or directory that decide who has access at one instant.
type guise struct {
	mode, uid, gid uint32
	acl            string
}

func guiseOf(path string) (ino uint64, g guise, ok bool) {
	var st unix.Stat_t
	if unix.Stat(path, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG && st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return 0, g, false
	}
	acl := make([]byte, 1000)
	n, err := unix.Getxattr(path, "system.posix_acl_access", acl)
	if err != nil {
		n = 0
	}
	return st.Ino, guise{st.Mode & 0o7777, st.Uid, st.Gid, string(acl[:n])}, true
}

// Before every operation the test checks all files and directories. None has wider permissions
// at any instant than in the end, and none has setuid before it has its owner.
func TestNothingIsExposedBeforeItsFinalMode(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("giving files away takes root")
	}
	dir := t.TempDir()
	acl := func(entries ...byte) string { // user::rwx, user:1234:perm, group::---, mask, other::---
		u := "\xff\xff\xff\xff"
		return "\x02\x00\x00\x00" + "\x01\x00\x07\x00" + u + "\x02\x00" + string(entries[0]) + "\x00\xd2\x04\x00\x00" +
			"\x04\x00\x00\x00" + u + "\x10\x00" + string(entries[1]) + "\x00" + u + "\x20\x00\x00\x00" + u
	}
	if err := unix.Setxattr(dir, "system.posix_acl_default", []byte(acl(7, 7)), 0); err != nil {
		t.Skip("no ACLs here: ", err)
	}
	src, dst := filepath.Join(dir, "src"), filepath.Join(dir, "dst")
	his := treetest.Owner(1234, 4321)
	tree := treetest.Dir{
		"setuid":   treetest.File("x", treetest.Mode(0o4755), his),
		"setgid":   treetest.File("x", treetest.Mode(0o2711), his),
		"group":    treetest.File("x", treetest.Mode(0o640), his),
		"private":  treetest.File("x", treetest.Mode(0o600), his),
		"acl":      treetest.File("x", treetest.Mode(0o640), his, treetest.Xattr("system.posix_acl_access", acl(4, 4))),
		"narrowed": treetest.File("new", treetest.Mode(0o600), his),
		"known":    treetest.File("same", treetest.Mode(0o4700), his),
		"long":     treetest.Sparse(resume.LeastPartial+1, map[int64]string{0: "x"}, treetest.Mode(0o640), his),
		"first":    treetest.File("linked", treetest.Mode(0o604), his, treetest.Linked("l")),
		"second":   treetest.File("linked", treetest.Mode(0o604), his, treetest.Linked("l")),
		"closed": treetest.Directory(treetest.Dir{
			"inside": treetest.File("x", treetest.Mode(0o666), his),
		}, treetest.Mode(0o2750), his),
		"drop": treetest.Directory(treetest.Dir{}, treetest.Mode(0o1733), his, treetest.Xattr("system.posix_acl_default", acl(5, 5))),
	}
	treetest.Create(t, src, tree)
	treetest.Create(t, dst, treetest.Dir{
		"narrowed": treetest.File("old", treetest.Mode(0o666)),
		"known":    treetest.File("same", treetest.Mode(0o6777)),
		"closed":   treetest.Directory(treetest.Dir{}, treetest.Mode(0o777)),
	})
	before := map[uint64]guise{}
	survey := func(found func(path string, ino uint64, g guise)) {
		require.NoError(t, filepath.WalkDir(dst, func(path string, d fs.DirEntry, err error) error {
			if ino, g, ok := guiseOf(path); ok && d.Type() != fs.ModeSymlink {
				found(path, ino, g)
			}
			return err
		}))
	}
	survey(func(_ string, ino uint64, g guise) { before[ino] = g })

	var mu sync.Mutex
	seen := map[uint64]map[guise]fsys.Op{}
	sys := faultfs.New(func(op fsys.Op, _ string) error {
		mu.Lock()
		defer mu.Unlock()
		list, err := os.ReadDir("/proc/self/fd")
		for _, e := range list {
			path := "/proc/self/fd/" + e.Name()
			if at, err := os.Readlink(path); err != nil || !strings.HasPrefix(at, dst) {
				continue
			}
			if ino, g, ok := guiseOf(path); ok {
				if seen[ino] == nil {
					seen[ino] = map[guise]fsys.Op{}
				}
				seen[ino][g] = op
			}
		}
		return err
	})
	o := options(src, dst)
	o.Policy, o.Workers, o.Verify = policy.Always, 1, VerifyDest
	o.FS = sys
	s, err := Run(t.Context(), &o, &counters.Set{})
	require.NoError(t, err)
	require.Zero(t, s.Errors)
	treetest.Compare(t, src, dst, treetest.Options{Ignore: []string{"SHA256SUMS"}})

	final := map[uint64]guise{}
	name := map[uint64]string{}
	survey(func(path string, ino uint64, g guise) { final[ino], name[ino] = g, path })
	require.GreaterOrEqual(t, len(seen), 14)
	for ino, guises := range seen {
		for g, op := range guises {
			end, remains := final[ino]
			old, existed := before[ino]
			switch {
			case !remains: // a temporary, the journal
				require.True(t, g.mode&0o7077 == 0 || existed && g == old, "%o of what is gone, before %s", g.mode, op)
			case g.uid == end.uid && g.gid == end.gid:
				require.Zero(t, g.mode&0o6077&^end.mode, "%s: %o of %o, before %s", name[ino], g.mode, end.mode, op)
			case !existed:
				require.Zero(t, g.mode&0o6077, "%s: %o without its owner, before %s", name[ino], g.mode, op) // the sticky bit marks unfinished directories
			default:
				require.Zero(t, g.mode&0o7777&^old.mode, "%s: %o, was %o, before %s", name[ino], g.mode, old.mode, op)
			}
			if remains && !existed && g.mode&0o070 != 0 { // these bits are the mask of an ACL
				require.Equal(t, end.acl, g.acl, "%s: an ACL of %o, before %s", name[ino], g.mode, op)
			}
		}
	}
}
