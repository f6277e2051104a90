package fsys

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Rotational reports whether the kernel treats the disk of the directory's file system, or
// one of several, as spinning, so that moving its head costs time (queue/rotational in
// sysfs). The kernel also reports many virtual disks and USB sticks as spinning: only the
// measured speed is certain. The result is false if the disk is unknown, as behind a network
// or FUSE.
func (d *Dir) Rotational() bool {
	device := d.blockDevice()
	return device != "" && rotates("/sys/dev/block/"+device)
}

// blockDevice returns the block device of the directory's file system, or the first of
// several, as sysfs names it: "8:1". It returns "" if the device is unknown.
func (d *Dir) blockDevice() string {
	info, err := d.stat()
	if err != nil {
		return ""
	}
	device := info.ID.Dev
	if unix.Major(device) == 0 { // btrfs, and file systems without a device
		source := d.mount().Source
		if !strings.HasPrefix(source, "/dev/") { // do not access a network mount
			return ""
		}
		node, err := statPath(source)
		if err != nil || node.Kind != BlockDevice {
			return ""
		}
		device = node.Rdev
	}
	return fmt.Sprintf("%d:%d", unix.Major(device), unix.Minor(device))
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
