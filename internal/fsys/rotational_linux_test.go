package fsys

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// sysfs makes files of sysfs, "name=content", and links, "name->target".
func sysfs(t *testing.T, entries ...string) string {
	t.Helper()
	root := t.TempDir()
	for _, e := range entries {
		if name, target, ok := strings.Cut(e, "->"); ok {
			path := filepath.Join(root, name)
			require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
			require.NoError(t, os.Symlink(filepath.Join(root, target), path))
			continue
		}
		name, content, _ := strings.Cut(e, "=")
		path := filepath.Join(root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(content), 0o644))
	}
	return root
}

func TestRotates(t *testing.T) {
	root := sysfs(t,
		"disk/queue/rotational=1\n", "disk/part/partition=1\n",
		"ssd/queue/rotational=0\n", "ssd/part/partition=1\n",
		"dm-0/queue/rotational=0\n", "dm-0/slaves/part->disk/part",
		"dm-1/queue/rotational=1\n", "dm-1/slaves/ssd->ssd",
		"dm-2/queue/rotational=0\n", "dm-2/slaves/ssd->ssd", "dm-2/slaves/dm-0->dm-0",

		"dev/block/8:0->disk", "dev/block/8:1->disk/part", "dev/block/8:17->ssd/part",
	)
	for name, want := range map[string]bool{
		"disk": true, "disk/part": true, "ssd": false, "ssd/part": false,
		"dm-0": true, "dm-1": false, "dm-2": true,
		"dev/block/8:0": true, "dev/block/8:1": true, "dev/block/8:17": false, "none": false,
	} {
		require.Equal(t, want, rotates(filepath.Join(root, name)), name)
	}
}

func TestMountSource(t *testing.T) {
	mounts := parseMounts(`22 27 0:21 / /proc rw,relatime - proc proc rw
36 22 0:40 /root /mnt/a\040-\040b rw shared:1 master:2 - btrfs /dev/sda2 rw,ssd
365 22 0:41 / /other rw - btrfs /dev/sdb rw
37 22 0:42 / /short rw - tmpfs
38 22 0:43 / /a\012\040-\040x\040/dev/sdx\0129\0403 rw - fuse.x /dev/b rw
39 22 0:44 / /none rw - tmpfs  rw
` + "40 22 0:45 / /odd rw - fuse /dev/a\u0085b\u00a0c rw\n")
	for id, want := range map[string]string{"22": "proc", "36": "/dev/sda2", "365": "/dev/sdb", "3": "", "37": "", "1": "",
		"38": "/dev/b", "9": "", "39": "", "40": "/dev/a\u0085b\u00a0c"} {
		require.Equal(t, want, mounts.withID(id).Source, id)
	}
}

func TestRotational(t *testing.T) {
	for _, kind := range []string{"ext4", "btrfs"} {
		d := newDisk(t, kind, t.TempDir())
		claim, err := os.ReadFile("/sys/block/" + d.loop + "/queue/rotational")
		require.NoError(t, err)
		require.Equal(t, strings.TrimSpace(string(claim)) == "1", d.Rotational())
		var st unix.Stat_t
		require.NoError(t, unix.Stat("/dev/"+d.loop, &st))
		require.Equal(t, fmt.Sprintf("%d:%d", unix.Major(st.Rdev), unix.Minor(st.Rdev)), d.blockDevice())
	}
	d, _ := mountOn(t, "-t", "tmpfs", "tmpfs")
	require.False(t, d.Rotational())
	require.Empty(t, d.blockDevice())
}
