package fsys

import "os"

func readMounts() (Mounts, error) {
	table, err := os.ReadFile("/proc/self/mountinfo")
	return parseMounts(string(table)), err
}
