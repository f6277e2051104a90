package fsys

import (
	"os"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Memory returns the number of bytes of memory that the process may use; 0 if it is unknown.
// That is the memory of the machine, or the limit of a control group of the process or above
// it, if that is less (cgroups(7)).
func Memory() int64 {
	var total int64
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) == nil {
		total = int64(info.Totalram) * int64(info.Unit)
	}
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return total
	}
	return lower(total, cgroupLimit(string(groups), "/sys/fs/cgroup"))
}

// cgroupLimit returns the lowest limit of memory, in bytes, of the groups that
// /proc/self/cgroup lists, below where their hierarchies are mounted; 0 if there
// is none. A line is "0::/path" in version 2, "4:memory:/path" in version 1. In a
// container of version 1 the path is one outside it and its own group is mounted
// at the top. So cgroupLimit reads all existing ancestors.
func cgroupLimit(groups, mounted string) int64 {
	var limit int64
	for line := range strings.Lines(groups) {
		_, line, _ = strings.Cut(strings.TrimSuffix(line, "\n"), ":")
		controllers, group, _ := strings.Cut(line, ":")
		hierarchy, file := mounted, "memory.max"
		if controllers != "" {
			if !strings.Contains(","+controllers+",", ",memory,") {
				continue
			}
			hierarchy, file = path.Join(mounted, "memory"), "memory.limit_in_bytes"
		}
		for group = path.Clean("/" + group); ; group = path.Dir(group) {
			limit = lower(limit, limitIn(path.Join(hierarchy, group, file)))
			if group == "/" {
				break
			}
		}
	}
	return limit
}

// limitIn reads a limit in bytes: 0 if there is none ("max").
func limitIn(file string) int64 {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// lower returns the lower of two limits; 0 means no limit.
func lower(a, b int64) int64 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}
