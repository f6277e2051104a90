package treetest

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

func setXattr(path, name, value string) error { return unix.Lsetxattr(path, name, []byte(value), 0) }

func mknod(path string, mode uint32, device uint64) error {
	return unix.Mknod(path, mode, int(device)) //nolint:gosec // as the system call takes it
}

// xattrs compares extended attributes, including ACLs. It ignores security labels that a
// system gives to every file.
func (c *comparison) xattrs(p, name string, dirs [2]*os.Root) {
	lists, ok := both(c, p, dirs, func(dir *os.Root) (map[string]string, error) { return readXattrs(dir, name) })
	if !ok {
		return
	}
	want, got := lists[0], lists[1]
	for _, attr := range slices.Sorted(maps.Keys(want)) {
		if value, ok := got[attr]; !ok {
			c.differ(p, "want extended attribute %s, got none", attr)
		} else if value != want[attr] {
			c.differ(p, "extended attribute %s: want %q, got %q", attr, want[attr], value)
		}
	}
	for _, attr := range slices.Sorted(maps.Keys(got)) {
		if _, ok := want[attr]; !ok {
			c.differ(p, "extended attribute %s should not be there", attr)
		}
	}
}

func readXattrs(dir *os.Root, name string) (map[string]string, error) {
	f, err := dir.Open(".")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	p := fmt.Sprintf("/proc/self/fd/%d/%s", f.Fd(), name)
	buf := make([]byte, 64<<10) // the largest size on Linux
	n, err := unix.Llistxattr(p, buf)
	if errors.Is(err, unix.ENOTSUP) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	list := map[string]string{}
	for attr := range strings.SplitSeq(string(buf[:n]), "\x00") {
		if attr == "" || attr == "security.selinux" || attr == "security.ima" || attr == "security.evm" {
			continue
		}
		n, err := unix.Lgetxattr(p, attr, buf)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", attr, err)
		}
		list[attr] = string(buf[:n])
	}
	return list, nil
}
