package fsys

import (
	"path/filepath"
	"strconv"
	"strings"
)

// Mount is an entry of the mount table.
type Mount struct {
	ID         string // number of the mount, as statx returns it
	Parent     string // the ID of the mount that Dir is in; "" if the table lacks that mount
	Device     string // number of the file system's device: "8:1"
	Root       string // the directory of the file system that is mounted
	Dir        string // the directory where it is mounted
	FileSystem string // type of the file system: "ext4"
	Source     string // the device or the share
}

// Mounts is the mount table of the process. It is nil on systems that do not show which directory
// of a file system is mounted.
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
		name := func(field string) string { return unescape(field, `\`, 8) }
		mounts = append(mounts, Mount{front[0], front[1], front[2], name(front[3]), name(front[4]), back[0], name(back[1])})
	}
	for i, m := range mounts { // the table lacks mounts outside the root directory
		if m.Parent == m.ID || mounts.withID(m.Parent).ID == "" {
			mounts[i].Parent = ""
		}
	}
	return mounts
}

// withID returns the mount with the ID; the zero Mount if there is none.
func (m Mounts) withID(id string) Mount {
	for _, mount := range m {
		if mount.ID == id {
			return mount
		}
	}
	return Mount{}
}

// Of returns the mount that an absolute path without symbolic links is on; the zero Mount if that
// is unknown. The order of the table does not matter: an initramfs mounts /run before it mounts /.
func (m Mounts) Of(path string) (on Mount) {
	for range m { // a changing table can have a loop
		next := Mount{}
		for _, mount := range m {
			if mount.Parent != on.ID || !Within(path, mount.Dir) || mount.Dir == "/" && on.ID != "" {
				continue // processes do not see a mount on their root directory
			}
			if next.ID == "" || len(mount.Dir) < len(next.Dir) { // next hides the mounts below its Dir
				next = mount
			}
		}
		if next.ID == "" {
			break
		}
		on = next
	}
	return on
}

// FileSystemOf is Of, except that a directory mounted on itself counts as a part of the mount below
// it. A service of systemd mounts each of its ReadWritePaths in this way, with or without a disk.
func (m Mounts) FileSystemOf(path string) Mount {
	on := m.Of(path)
	for range m { // a changing table can have a loop
		below := m.withID(on.Parent)
		if below.ID == "" || below.Device != on.Device || on.Root != filepath.Join(below.Root, tail(on.Dir, below.Dir)) {
			break
		}
		on = below
	}
	return on
}

// At reports whether a file system is mounted at the directory.
func (m Mounts) At(dir string) bool { return m.FileSystemOf(dir).Dir == dir }

// Shown returns the paths, relative to the directory dst, at which the mount table shows the
// directory src or directories below it: "." is dst itself. Only the topmost of such paths are
// returned. The directories are absolute and without symbolic links; dst need not exist. They
// include src itself if it is below dst. Bind mounts, and file systems that are mounted twice,
// show a directory at further paths.
func (m Mounts) Shown(src, dst string) (paths []string) {
	sources := m.mountsOf(src)
	for _, at := range m.mountsOf(dst) {
		for _, of := range sources {
			if at.Device != of.Device {
				continue
			}
			part := filepath.Join(of.Root, tail(src, of.Dir)) // the source on that file system
			shown := at.Dir
			switch {
			case Within(part, at.Root):
				shown = filepath.Join(at.Dir, tail(part, at.Root))
			case !Within(at.Root, part):
				continue
			}
			if m.Of(shown) != at { // another mount hides it
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

// mountsOf returns the mount of a directory, and those below it that no other mount hides.
func (m Mounts) mountsOf(dir string) (list Mounts) {
	on := m.Of(dir)
	for _, mount := range m {
		if mount == on || Within(mount.Dir, dir) && mount == m.Of(mount.Dir) {
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
	rest, _ := filepath.Rel(dir, path) // both are absolute
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
