package treetest

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
)

// Options excludes parts from [Compare]. The zero value compares everything except the
// metadata of the two roots.
type Options struct {
	Ignore []string // paths below the roots, with slashes; entries below them are ignored, too
	Root   bool     // compare the metadata of the roots as well

	NoTimes  bool
	NoModes  bool
	NoOwners bool // true to ignore owners; otherwise only root compares them
	NoXattrs bool // true to ignore attributes and ACLs
	NoLinks  bool // true to ignore groups of hard links
	NoHoles  bool
}

// Compare fails the test with a list of all differences between two trees. It compares
// names, kinds, contents, targets of symbolic links, device numbers, permissions, and
// modification times to the nanosecond. It also compares extended attributes, ACLs, owners,
// groups of hard links, and holes. It reaches everything through
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
		c.groups[i] = map[identity][]string{}
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

// comparison walks two trees at the same time; index 0 is the wanted one.
type comparison struct {
	options     Options
	roots       [2]*os.Root
	groups      [2]map[identity][]string // the names of each file with several
	differences []string
}

// identity identifies an inode.
type identity struct{ dev, ino uint64 }

func (c *comparison) differ(p, format string, args ...any) {
	c.differences = append(c.differences, fmt.Sprintf("%q: ", p)+fmt.Sprintf(format, args...))
}

// both calls ask for both sides. It records an error as a difference, and ok is false then.
func both[S, T any](c *comparison, p string, sides [2]S, ask func(S) (T, error)) (answers [2]T, ok bool) {
	for i, side := range sides {
		answer, err := ask(side)
		if err != nil {
			c.differ(p, "%s: %v", []string{"want", "got"}[i], err)
			return answers, false
		}
		answers[i] = answer
	}
	return answers, true
}

func (c *comparison) root() {
	infos, ok := both(c, ".", c.roots, func(root *os.Root) (fs.FileInfo, error) { return root.Stat(".") })
	if ok {
		c.metadata(".", ".", c.roots, infos)
	}
}

func (c *comparison) directory(p string, dirs [2]*os.Root) {
	names, ok := both(c, p, dirs, readNames)
	if !ok {
		return
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
	infos, ok := both(c, p, dirs, func(dir *os.Root) (fs.FileInfo, error) { return dir.Lstat(name) })
	if !ok {
		return
	}
	want, got := infos[0].Mode(), infos[1].Mode()
	if want.Type() != got.Type() {
		c.differ(p, "want %s, got %s", want.Type(), got.Type())
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
				c.groups[i][id] = append(c.groups[i][id], p)
			}
		}
		return
	}
	subs, ok := both(c, p, dirs, func(dir *os.Root) (*os.Root, error) { return dir.OpenRoot(name) })
	if ok {
		defer subs[0].Close()
		defer subs[1].Close()
		c.directory(p, subs)
	}
}

func (c *comparison) target(p, name string, dirs [2]*os.Root) {
	targets, ok := both(c, p, dirs, func(dir *os.Root) (string, error) { return dir.Readlink(name) })
	if ok && targets[0] != targets[1] {
		c.differ(p, "want a link to %q, got one to %q", targets[0], targets[1])
	}
}

func (c *comparison) content(p, name string, dirs [2]*os.Root, infos [2]fs.FileInfo) {
	size := infos[0].Size()
	if size != infos[1].Size() {
		c.differ(p, "want %d bytes, got %d", size, infos[1].Size())
		return
	}
	files, ok := both(c, p, dirs, func(dir *os.Root) (*os.File, error) { return dir.Open(name) })
	if !ok {
		return
	}
	defer files[0].Close()
	defer files[1].Close()
	// Small buffers that are used again: the race detector doubles the cost of new memory.
	buffers := map[*os.File][]byte{files[0]: make([]byte, min(size, 64<<10)), files[1]: make([]byte, min(size, 64<<10))}
	for off, step := int64(0), int64(0); off < size; off += step {
		step = min(size-off, 64<<10)
		blocks, ok := both(c, p, files, func(f *os.File) ([]byte, error) {
			block := buffers[f][:step]
			_, err := io.ReadFull(f, block)
			return block, err
		})
		if !ok {
			return
		}
		if !bytes.Equal(blocks[0], blocks[1]) {
			c.differ(p, "content differs at or after byte %d", off)
			return
		}
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
		for _, names := range c.groups[i] {
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
	all := maps.Clone(want)
	maps.Copy(all, got)
	for _, name := range slices.Sorted(maps.Keys(all)) {
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
