package fsys

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Rotational reports whether the kernel treats the disk of the directory's file system, or
// one of several, as spinning, so that moving its head costs time (queue/rotational in
// sysfs). The kernel also reports many virtual disks and USB sticks as spinning: only the
// measured speed is certain. The result is false if the disk is unknown, as behind a network
// or FUSE.
func (d *Dir) Rotational() bool {
	var st unix.Stat_t
	if err := retry(func() error { return d.fstat(&st) }); err != nil {
		return false
	}
	device := st.Dev
	if unix.Major(device) == 0 { // btrfs, and file systems without a device
		var ok bool
		if device, ok = d.mountedDevice(); !ok {
			return false
		}
	}
	return rotates(fmt.Sprintf("/sys/dev/block/%d:%d", unix.Major(device), unix.Minor(device)))
}

// mountedDevice returns the mounted device, or the first of several.
func (d *Dir) mountedDevice() (device uint64, ok bool) {
	var st unix.Statx_t // STATX_MNT_ID is new in Linux 5.8
	if unix.Statx(d.fd, "", unix.AT_EMPTY_PATH, unix.STATX_MNT_ID, &st) != nil || st.Mask&unix.STATX_MNT_ID == 0 {
		return 0, false
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return 0, false
	}
	source := mountSource(string(mounts), st.Mnt_id)
	if !strings.HasPrefix(source, "/dev/") { // do not access a network mount
		return 0, false
	}
	var node unix.Stat_t
	if unix.Stat(source, &node) != nil || node.Mode&unix.S_IFMT != unix.S_IFBLK {
		return 0, false
	}
	return node.Rdev, true
}

// mountSource returns the source of a mount from /proc/self/mountinfo, "" if the mount is not
// listed: "36 35 98:0 /root /mnt rw shared:1 - ext3 /dev/root rw".
func mountSource(mounts string, id uint64) string {
	for line := range strings.Lines(mounts) {
		if first, _, _ := strings.Cut(line, " "); first != strconv.FormatUint(id, 10) {
			continue
		}
		_, after, _ := strings.Cut(line, " - ")
		if fields := strings.Split(after, " "); len(fields) > 1 { // spaces in names are escaped, so each space is a separator
			return fields[1]
		}
	}
	return ""
}

// rotates reads the properties of a block device in sysfs. dir is the path of its directory,
// which may be a link, so the kernel must resolve "..".
func rotates(dir string) bool {
	if _, err := os.Stat(dir + "/partition"); err == nil {
		dir += "/.."
	}
	// A device on top of others (device mapper, md) has the property of those.
	if below, err := os.ReadDir(dir + "/slaves"); err == nil && len(below) > 0 {
		for _, b := range below {
			if rotates(dir + "/slaves/" + b.Name()) {
				return true
			}
		}
		return false
	}
	claim, err := os.ReadFile(dir + "/queue/rotational")
	return err == nil && strings.TrimSpace(string(claim)) == "1"
}
