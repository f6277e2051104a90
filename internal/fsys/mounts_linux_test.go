package fsys

import (
	"testing"

	"github.com/stretchr/testify/require"
)

const mountTable = `22 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw
30 22 8:17 / /media/ann/RAID\040A rw - exfat /dev/sdb1 rw
31 22 8:1 /srv/clips /mnt/again rw - ext4 /dev/sda1 rw
32 22 0:40 /sub/a /btrfs/a rw - btrfs /dev/sdc rw
33 22 0:40 / /btrfs/top rw - btrfs /dev/sdc rw
34 22 0:50 / /hidden/below rw - tmpfs tmpfs rw
35 22 0:51 / /hidden rw - tmpfs tmpfs rw
36 22 0:60 / /net/auto rw - autofs systemd-1 rw
malformed
`

// onThemselves has directories of mountTable that are mounted on themselves.
const onThemselves = `37 22 8:1 /media/RAID\040C /media/RAID\040C rw - ext4 /dev/sda1 rw
38 22 8:1 /net/nas /net/nas rw - ext4 /dev/sda1 rw
39 30 8:17 / /media/ann/RAID\040A rw - exfat /dev/sdb1 rw
40 32 0:40 /sub/a/x /btrfs/a/x rw - btrfs /dev/sdc rw
41 22 8:1 /self /self rw - ext4 /dev/sda1 rw
`

func TestMountOfAPath(t *testing.T) {
	mounts := parseMounts(mountTable)
	for path, dir := range map[string]string{
		"/": "/", "/media/ann": "/", "/media/ann/RAID A": "/media/ann/RAID A", "/media/ann/RAID A/day": "/media/ann/RAID A",
		"/media/ann/RAID AB": "/", "/mnt/again/x": "/mnt/again", "/hidden/below/x": "/hidden",
	} {
		require.Equal(t, dir, mounts.Of(path).Dir, path)
	}
	require.True(t, mounts.At("/net/auto"))
	require.False(t, mounts.At("/hidden/below"), "a later mount hides it")
}

func TestDirectoriesMountedOnThemselves(t *testing.T) {
	mounts := parseMounts(mountTable + onThemselves)
	for path, id := range map[string]string{
		"/media/ann/RAID A/day": "30", "/media/RAID C/day": "22", "/btrfs/a/x/y": "32", "/btrfs/top/x": "33", "/mnt/again/x": "31",
	} {
		require.Equal(t, id, mounts.FileSystemOf(path).ID, path)
	}
}

// Each mount of these tables has its ID as its source.
func TestMountsDescendFromTheRoot(t *testing.T) {
	const root = "28 1 8:1 / / rw - ext4 28 rw\n"
	for name, c := range map[string]struct {
		table string
		on    map[string]string // the ID of the mount of each path
	}{
		"initramfs": {`22 28 0:21 / /sys rw - sysfs 22 rw
26 28 0:24 / /run rw - tmpfs 26 rw
25 26 0:25 / /run/lock rw - tmpfs 25 rw
` + root, map[string]string{"/": "28", "/runs": "28", "/sys/x": "22", "/run": "26", "/run/lock/x": "25"}},
		"stacked at one point": {root + `40 41 0:40 / /a rw - tmpfs 40 rw
41 42 0:41 / /a rw - tmpfs 41 rw
42 28 0:42 / /a rw - tmpfs 42 rw
43 41 0:43 / /a/b rw - tmpfs 43 rw
44 40 0:44 / /a/c rw - tmpfs 44 rw
`, map[string]string{"/a": "40", "/a/x": "40", "/a/b/x": "40", "/a/c/x": "44"}},
		"moved to a directory above": {root + `40 28 0:40 / /a rw - tmpfs 40 rw
41 28 0:41 / /a/b rw - tmpfs 41 rw
42 41 0:42 / /a/b/c rw - tmpfs 42 rw
`, map[string]string{"/a": "40", "/a/b": "40", "/a/b/c/x": "40"}},
		"escapes": {`40 28 0:40 / /a\040-\040b\134\011 rw - tmpfs 40 rw
41 40 0:41 / /a\040-\040b\134\011/c\012 rw - tmpfs 41 rw
` + root, map[string]string{"/a - b": "28", "/a - b\\\t/x": "40", "/a - b\\\t/c\n/x": "41"}},
		"on the root directory":                {root + "40 28 0:40 / / rw - tmpfs 40 rw\n", map[string]string{"/": "28", "/x": "28"}},
		"the root directory is no mount point": {"40 28 0:40 / /proc rw - proc 40 rw\n", map[string]string{"/": "", "/proc/x": "40"}},
		"the first root file system":           {"1 1 0:2 / / rw - rootfs 1 rw\n40 1 0:40 / /run rw - tmpfs 40 rw\n", map[string]string{"/": "1", "/run/x": "40"}},
		"a loop, because the table changed while it was read": {root + `40 28 0:40 / /a rw - tmpfs 40 rw
41 40 0:41 / /a rw - tmpfs 41 rw
40 41 0:40 / /a rw - tmpfs 40 rw
`, map[string]string{"/a": "40", "/": "28"}},
	} {
		t.Run(name, func(t *testing.T) {
			mounts := parseMounts(c.table)
			for path, id := range c.on {
				require.Equal(t, id, mounts.Of(path).Source, path)
			}
		})
	}
}

func TestMountsBelowADirectory(t *testing.T) {
	const table = `26 28 0:24 / /run rw - tmpfs 26 rw
28 1 8:1 / / rw - ext4 28 rw
40 28 0:40 / /a rw - tmpfs 40 rw
41 28 0:41 / /a/b rw - tmpfs 41 rw
`
	mounts := parseMounts(table)
	require.True(t, mounts.At("/run"))
	require.False(t, mounts.At("/a/b"), "another mount hides it")
	var ids []string
	for _, m := range mounts.mountsOf("/") {
		ids = append(ids, m.ID)
	}
	require.Equal(t, []string{"26", "28", "40"}, ids)
	require.Equal(t, []string{"x"}, parseMounts("31 26 8:1 /src /run/again rw - ext4 31 rw\n"+table).Shown("/src/x", "/run/again"))
	require.Equal(t, []string{"run/again"}, parseMounts("31 26 8:1 /a/x /run/again rw - ext4 31 rw\n"+table).Shown("/run/again", "/"), "another mount hides /a/x")
}

func TestPartsOfTheSourceShownAtTheDestination(t *testing.T) {
	mounts := parseMounts(mountTable)
	for _, c := range []struct {
		src, dst string
		shown    []string
	}{
		{"/srv/clips", "/mnt/again", []string{"."}},
		{"/srv/clips", "/mnt/again/x/y", []string{"."}},
		{"/srv/clips", "/mnt", []string{"again"}},
		{"/srv", "/mnt", []string{"again"}},
		{"/srv", "/mnt/again", []string{"."}},
		{"/srv/clips/day", "/mnt", []string{"again/day"}},
		{"/srv/clips/day", "/mnt/again", []string{"day"}},
		{"/srv/other", "/mnt", nil},
		{"/srv/clipsx", "/mnt", nil},
		{"/mnt/again", "/srv", []string{"clips"}},
		{"/mnt/again", "/srv/clips/x", []string{"."}},
		{"/btrfs/a", "/btrfs/top", []string{"sub/a"}},
		{"/btrfs/a/x", "/btrfs/top/sub", []string{"a/x"}},
		{"/btrfs/top", "/btrfs/a", []string{"."}},
		{"/srv/clips", "/media/ann/RAID A", nil},
		{"/srv/clips", "/srv", []string{"clips"}}, // SRC inside DST
		{"/a", "/a/b", []string{"."}},
		{"/a", "/b", nil},
	} {
		require.Equal(t, c.shown, unique(mounts.Shown(c.src, c.dst)), "%s to %s", c.src, c.dst)
	}
}

func unique(paths []string) (list []string) {
	seen := map[string]bool{}
	for _, p := range paths {
		if !seen[p] {
			list = append(list, p)
		}
		seen[p] = true
	}
	return list
}

func TestUnmounted(t *testing.T) {
	mounts := parseMounts(mountTable + onThemselves)
	const fstab = "# comment\n/dev/sda1 / ext4 defaults 0 1\nUUID=1 none swap sw 0 0\n" +
		"/self /self none bind\nnas:/x /net/nas nfs defaults\nnas:/y /net/auto nfs x-systemd.automount\n/dev/sdd /with\\040space ext4\nshort\n"
	for path, why := range map[string]string{
		"/media/ann/RAID A/day1": "", "/media/ann/RAID A": "", "/media": "", "/medial/x": "",
		"/media/ann/RAID B/day1": "it is below /media", "/media/RAID C/x": "it is below /media", "/self/x": "", "/run/media/x": "it is below /run/media",
		"/net/nas": "/etc/fstab has a file system for /net/nas", "/net/nas/x": "/etc/fstab", "/net/nasx": "",
		"/net/auto/x": "", "/with space/x": "/etc/fstab", "/": "", "/home/x": "", "/none": "",
	} {
		got := unmounted(path, mounts.FileSystemOf(path).Dir, mounts, fstab)
		if why == "" {
			require.Empty(t, got, path)
		} else {
			require.Contains(t, got, why, path)
		}
	}
	require.Contains(t, unmounted("/Volumes/RAID/x", "/", nil, ""), "it is below /Volumes")
	require.Empty(t, unmounted("/Volumes/RAID/x", "/Volumes/RAID", nil, ""))
	require.Empty(t, unmounted(`C:\x`, "", nil, ""))
}

func FuzzMounts(f *testing.F) {
	f.Add(mountTable, "/srv/clips", "/mnt")
	f.Fuzz(func(t *testing.T, table, src, dst string) {
		mounts := parseMounts(table)
		mounts.Shown(src, dst)
		unmounted(src, dst, mounts, table)
	})
}
