package fsys

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Mount is an entry of the mount table.
type Mount struct {
	Device     string // identifies the file system: "8:1"
	Root       string // the directory of the file system that is mounted
	Dir        string // the directory where it is mounted
	FileSystem string // its type: "ext4"
	Source     string // the device or the share
}

// Mounts is the mount table of the process, without entries that later ones hide. It is nil on
// systems that do not show which directory of a file system is mounted.
type Mounts []Mount

// ReadMounts reads the mount table.
func ReadMounts() (Mounts, error) { return readMounts() }

// parseMounts parses /proc/self/mountinfo, see proc_pid_mountinfo(5):
// "36 35 98:0 /root /mnt rw shared:1 - ext3 /dev/root rw". Spaces in names are escaped, so each
// space is a separator. Malformed lines are left out.
func parseMounts(table string) (mounts Mounts) {
	for line := range strings.Lines(table) {
		before, after, _ := strings.Cut(strings.TrimSpace(line), " - ")
		front, back := strings.Split(before, " "), strings.Split(after, " ")
		if len(front) < 5 || len(back) < 2 {
			continue
		}
		m := Mount{front[2], unescape(front[3], `\`, 8), unescape(front[4], `\`, 8), back[0], unescape(back[1], `\`, 8)}
		// The table is in the order of mounting, so this entry hides earlier ones at or below Dir.
		mounts = slices.DeleteFunc(mounts, func(earlier Mount) bool { return Within(earlier.Dir, m.Dir) })
		mounts = append(mounts, m)
	}
	return mounts
}

// Of returns the mount that an absolute path without symbolic links is on.
func (m Mounts) Of(path string) (found Mount, ok bool) {
	for _, mount := range m {
		if Within(path, mount.Dir) && (!ok || len(mount.Dir) >= len(found.Dir)) {
			found, ok = mount, true
		}
	}
	return found, ok
}

// At reports whether a file system is mounted at the directory.
func (m Mounts) At(dir string) bool {
	return slices.ContainsFunc(m, func(mount Mount) bool { return mount.Dir == dir })
}

// Shown returns the paths, relative to the directory dst, at which the mount table shows the
// directory src or directories below it: "." is dst itself. Only the topmost of such paths are
// returned. The directories are absolute and without symbolic links; dst need not exist. They
// include src itself if it is below dst. Bind mounts, and file systems that are mounted twice,
// show a directory at further paths.
func (m Mounts) Shown(src, dst string) (paths []string) {
	for _, at := range m.mountsOf(dst) {
		for _, of := range m.mountsOf(src) {
			if at.Device != of.Device {
				continue
			}
			part := filepath.Join(of.Root, tail(src, of.Dir)) // of the source, on that file system
			shown := at.Dir
			switch {
			case Within(part, at.Root):
				shown = filepath.Join(at.Dir, tail(part, at.Root))
			case !Within(at.Root, part):
				continue
			}
			if found, ok := m.Of(shown); !ok || found != at { // another mount hides it
				continue
			}
			switch {
			case Within(dst, shown):
				return []string{"."}
			case Within(shown, dst):
				paths = append(paths, tail(shown, dst))
			}
		}
	}
	return paths
}

// mountsOf returns the mount of a directory, and those below it.
func (m Mounts) mountsOf(dir string) (list Mounts) {
	if on, ok := m.Of(dir); ok {
		list = append(list, on)
	}
	for _, mount := range m {
		if mount.Dir != dir && Within(mount.Dir, dir) {
			list = append(list, mount)
		}
	}
	return list
}

// Within reports whether the absolute path is dir or below it. Both are clean.
func Within(path, dir string) bool {
	rest, ok := strings.CutPrefix(path, strings.TrimSuffix(dir, string(filepath.Separator)))
	return ok && (rest == "" || rest[0] == filepath.Separator)
}

// tail returns path relative to dir, which it is within; "." if they are equal. If path is above
// dir, the result is ".", too: dir is then the part of path that counts.
func tail(path, dir string) string {
	if !Within(path, dir) {
		return "."
	}
	rest := strings.TrimPrefix(path, strings.TrimSuffix(dir, string(filepath.Separator)))
	if rest = strings.TrimPrefix(rest, string(filepath.Separator)); rest == "" {
		return "."
	}
	return rest
}

// unescape replaces escaped bytes. Each has four characters: prefix, and its number to the
// base. The kernel escapes a space as "\040", udev as "\x20".
func unescape(s, prefix string, base int) string {
	var sb strings.Builder
	for i := 0; i < len(s); i++ {
		if strings.HasPrefix(s[i:], prefix) && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+len(prefix):i+4], base, 8); err == nil {
				sb.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		sb.WriteByte(s[i])
	}
	return sb.String()
}
