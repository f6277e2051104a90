package fsys

import (
	"os"
	"path/filepath"
	"strings"
)

// removable are the directories below which systems mount removable disks.
var removable = []string{"/media", "/run/media", "/Volumes"}

// Unmounted reports why the absolute path, which has no symbolic links, probably belongs to a
// volume that is not mounted: "" if it does not. The path need not exist. A copy to that path
// would fill another disk, mostly that of the system.
func Unmounted(path string) (why string, err error) {
	mounts, err := ReadMounts()
	if err != nil {
		return "", err
	}
	table, err := os.ReadFile("/etc/fstab")
	if err != nil && !os.IsNotExist(err) {
		return "", err
	}
	on := mounts.FileSystemOf(path).Dir
	if mounts == nil {
		on = mountedAt(path)
	}
	return unmounted(path, on, mounts, string(table)), nil
}

// unmounted is Unmounted for a path on the file system that is mounted at on; "" if the system
// does not report that.
func unmounted(path, on string, mounts Mounts, fstab string) string {
	if on == "" {
		return ""
	}
	for _, base := range removable {
		if path != base && Within(path, base) && !Within(on, base) {
			return "it is below " + base + ", where disks are mounted, but it is on the file system of " + on
		}
	}
	for line := range strings.Lines(fstab) {
		fields := strings.Fields(line)
		if mounts == nil || len(fields) < 3 || strings.HasPrefix(fields[0], "#") || fields[2] == "swap" || fields[0] == fields[1] {
			continue // the last are directories mounted on themselves
		}
		dir := filepath.Clean(unescape(fields[1], `\`, 8))
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			dir = real
		}
		if filepath.IsAbs(dir) && Within(path, dir) && !mounts.At(dir) {
			return "/etc/fstab has a file system for " + dir + ", but none is mounted there, so it is on the file system of " + on
		}
	}
	return ""
}
