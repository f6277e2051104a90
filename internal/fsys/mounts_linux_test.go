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

func TestMountOfAPath(t *testing.T) {
	mounts := parseMounts(mountTable)
	for path, dir := range map[string]string{
		"/": "/", "/media/ann": "/", "/media/ann/RAID A": "/media/ann/RAID A", "/media/ann/RAID A/day": "/media/ann/RAID A",
		"/media/ann/RAID AB": "/", "/mnt/again/x": "/mnt/again", "/hidden/below/x": "/hidden",
	} {
		m, ok := mounts.Of(path)
		require.True(t, ok, path)
		require.Equal(t, dir, m.Dir, path)
	}
	require.True(t, mounts.At("/net/auto"))
	require.False(t, mounts.At("/hidden/below"), "a later mount hides it")
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
	mounts := parseMounts(mountTable)
	const fstab = "# comment\n/dev/sda1 / ext4 defaults 0 1\nUUID=1 none swap sw 0 0\n" +
		"nas:/x /net/nas nfs defaults\nnas:/y /net/auto nfs x-systemd.automount\n/dev/sdd /with\\040space ext4\nshort\n"
	for path, why := range map[string]string{
		"/media/ann/RAID A/day1": "", "/media/ann/RAID A": "", "/media": "", "/medial/x": "",
		"/media/ann/RAID B/day1": "it is below /media", "/run/media/x": "it is below /run/media",
		"/net/nas": "/etc/fstab has a file system for /net/nas", "/net/nas/x": "/etc/fstab", "/net/nasx": "",
		"/net/auto/x": "", "/with space/x": "/etc/fstab", "/": "", "/home/x": "", "/none": "",
	} {
		m, _ := mounts.Of(path)
		got := unmounted(path, m.Dir, mounts, fstab)
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
