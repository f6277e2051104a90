package treetest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
)

// Options say what [Compare] does not look at. The zero value compares
// everything but the metadata of the two roots.
type Options struct {
	Ignore []string // paths below the roots, with slashes; what is below them is ignored, too
	Root   bool     // compare the metadata of the roots as well

	NoTimes  bool
	NoModes  bool
	NoOwners bool // they are compared by root only in any case
	NoXattrs bool // and ACLs
	NoLinks  bool // groups of hard links
	NoHoles  bool
}

// Compare fails the test with a list of all differences between two trees:
// names, kinds, contents, targets of symbolic links, device numbers,
// permissions, modification times to the nanosecond, extended attributes, ACLs,
// owners, groups of hard links, and holes. It reaches everything through
// descriptors, so the trees may be deeper than a path can be long.
func Compare(t testing.TB, want, got string, o Options) {
	t.Helper()
	differences, err := Diff(want, got, o)
	if err != nil {
		t.Fatalf("comparing trees: %v", err)
	}
	if len(differences) > 0 {
		t.Fatalf("%s is not as %s:\n\t%s", got, want, strings.Join(differences, "\n\t"))
	}
}

// Diff returns the differences that [Compare] reports, one line each.
func Diff(want, got string, o Options) ([]string, error) {
	c := &comparison{options: o}
	for i, p := range []string{want, got} {
		root, err := os.OpenRoot(p)
		if err != nil {
			return nil, err
		}
		defer root.Close()
		c.sides[i] = side{groups: map[identity][]string{}}
		c.roots[i] = root
	}
	if o.Root {
		c.root()
	}
	c.directory("", c.roots)
	if !o.NoLinks {
		c.links()
	}
	return c.differences, nil
}

// comparison walks two trees at once; index 0 is the wanted one.
type comparison struct {
	options     Options
	roots       [2]*os.Root
	sides       [2]side
	differences []string
}

// side is what is remembered of one tree: the names of each file with several.
type side struct{ groups map[identity][]string }

// identity tells one inode from another.
type identity struct{ dev, ino uint64 }

func (c *comparison) differ(p, format string, args ...any) {
	c.differences = append(c.differences, fmt.Sprintf("%q: ", p)+fmt.Sprintf(format, args...))
}

func (c *comparison) root() {
	var infos [2]fs.FileInfo
	for i, root := range c.roots {
		info, err := root.Stat(".")
		if err != nil {
			c.differ(".", "%v", err)
			return
		}
		infos[i] = info
	}
	c.metadata(".", ".", c.roots, infos)
}

func (c *comparison) directory(p string, dirs [2]*os.Root) {
	var names [2][]string
	for i, dir := range dirs {
		listed, err := readNames(dir)
		if err != nil {
			c.differ(p, "%s: %v", c.sideName(i), err)
			return
		}
		names[i] = listed
	}
	all := slices.Concat(names[0], names[1])
	slices.Sort(all)
	for _, name := range slices.Compact(all) {
		sub := path.Join(p, name)
		if slices.Contains(c.options.Ignore, sub) {
			continue
		}
		_, wanted := slices.BinarySearch(names[0], name)
		_, have := slices.BinarySearch(names[1], name)
		switch {
		case !have:
			c.differ(sub, "is missing")
		case !wanted:
			c.differ(sub, "should not be there")
		default:
			c.entry(sub, name, dirs)
		}
	}
}

func (c *comparison) sideName(i int) string { return []string{"want", "got"}[i] }

func readNames(dir *os.Root) ([]string, error) {
	f, err := dir.Open(".")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	names, err := f.Readdirnames(-1)
	slices.Sort(names)
	return names, err
}

func (c *comparison) entry(p, name string, dirs [2]*os.Root) {
	var infos [2]fs.FileInfo
	for i, dir := range dirs {
		info, err := dir.Lstat(name)
		if err != nil {
			c.differ(p, "%s: %v", c.sideName(i), err)
			return
		}
		infos[i] = info
	}
	want, got := infos[0].Mode(), infos[1].Mode()
	if want.Type() != got.Type() {
		c.differ(p, "want %s, got %s", kindName(want), kindName(got))
		return
	}
	switch {
	case want.IsRegular():
		c.content(p, name, dirs, infos)
	case want&fs.ModeSymlink != 0:
		c.target(p, name, dirs)
	}
	c.metadata(p, name, dirs, infos)
	if !want.IsDir() {
		for i, info := range infos {
			if id, several := identityOf(info); several {
				c.sides[i].groups[id] = append(c.sides[i].groups[id], p)
			}
		}
		return
	}
	var subs [2]*os.Root
	for i, dir := range dirs {
		sub, err := dir.OpenRoot(name)
		if err != nil {
			c.differ(p, "%s: %v", c.sideName(i), err)
			return
		}
		defer sub.Close()
		subs[i] = sub
	}
	c.directory(p, subs)
}

func kindName(mode fs.FileMode) string {
	switch {
	case mode.IsRegular():
		return "a regular file"
	case mode.IsDir():
		return "a directory"
	case mode&fs.ModeSymlink != 0:
		return "a symbolic link"
	case mode&fs.ModeNamedPipe != 0:
		return "a fifo"
	case mode&fs.ModeSocket != 0:
		return "a socket"
	case mode&fs.ModeCharDevice != 0:
		return "a character device"
	case mode&fs.ModeDevice != 0:
		return "a block device"
	}
	return "something of an unknown kind"
}

func (c *comparison) target(p, name string, dirs [2]*os.Root) {
	var targets [2]string
	for i, dir := range dirs {
		target, err := dir.Readlink(name)
		if err != nil {
			c.differ(p, "%s: %v", c.sideName(i), err)
			return
		}
		targets[i] = target
	}
	if targets[0] != targets[1] {
		c.differ(p, "want a link to %q, got one to %q", targets[0], targets[1])
	}
}

func (c *comparison) content(p, name string, dirs [2]*os.Root, infos [2]fs.FileInfo) {
	if infos[0].Size() != infos[1].Size() {
		c.differ(p, "want %d bytes, got %d", infos[0].Size(), infos[1].Size())
		return
	}
	var files [2]*os.File
	for i, dir := range dirs {
		f, err := dir.Open(name)
		if err != nil {
			c.differ(p, "%s: %v", c.sideName(i), err)
			return
		}
		defer f.Close()
		files[i] = f
	}
	var buffers [2][]byte
	for i := range buffers {
		buffers[i] = make([]byte, min(max(infos[i].Size(), 1), 1<<20))
	}
	for off := int64(0); off < infos[0].Size(); {
		var read [2]int
		for i, f := range files {
			n, err := io.ReadFull(f, buffers[i])
			if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
				c.differ(p, "%s: %v", c.sideName(i), err)
				return
			}
			read[i] = n
		}
		if read[0] == 0 || !bytes.Equal(buffers[0][:read[0]], buffers[1][:read[1]]) {
			c.differ(p, "content differs at or after byte %d", off)
			return
		}
		off += int64(read[0])
	}
}

func (c *comparison) metadata(p, name string, dirs [2]*os.Root, infos [2]fs.FileInfo) {
	want, got := infos[0], infos[1]
	const permissions = fs.ModePerm | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky
	link := want.Mode()&fs.ModeSymlink != 0
	if a, b := want.Mode()&permissions, got.Mode()&permissions; a != b && !link && !c.options.NoModes {
		c.differ(p, "want mode %v, got %v", a, b)
	}
	if a, b := want.ModTime(), got.ModTime(); !a.Equal(b) && !c.options.NoTimes {
		const layout = "2006-01-02T15:04:05.999999999Z07:00"
		c.differ(p, "want modification time %s, got %s", a.UTC().Format(layout), b.UTC().Format(layout))
	}
	c.system(p, name, dirs, infos)
}

// links compares which names are one file.
func (c *comparison) links() {
	first := func(i int) map[string]string {
		firsts := map[string]string{}
		for _, names := range c.sides[i].groups {
			slices.Sort(names)
			for _, name := range names {
				if len(names) > 1 {
					firsts[name] = names[0]
				}
			}
		}
		return firsts
	}
	want, got := first(0), first(1)
	var names []string
	for _, firsts := range []map[string]string{want, got} {
		for name := range firsts {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		switch a, b := want[name], got[name]; {
		case a == b:
		case b == "":
			c.differ(name, "want a hard link to %q, got a file of its own", a)
		case a == "":
			c.differ(name, "want a file of its own, got a hard link to %q", b)
		default:
			c.differ(name, "want a hard link to %q, got one to %q", a, b)
		}
	}
}
