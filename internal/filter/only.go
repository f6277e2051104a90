package filter

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
)

// Only is the set of paths of --files-from. A nil *Only selects everything; one
// read from an empty list selects nothing.
//
// Once read, it may be used from several goroutines.
type Only struct {
	root        *Node
	fingerprint uint64
}

// Fingerprint returns a number that is equal for lists with the same paths in the same order,
// and almost certainly different for others. That of nil is 0.
func (o *Only) Fingerprint() uint64 {
	if o == nil {
		return 0
	}
	return o.fingerprint
}

// Node is a directory or file that an [Only] selects, or a directory on the way to one. The
// methods of a nil *Node report that nothing is selected.
type Node struct {
	all      bool
	met      atomic.Bool // true after Child has returned the node
	children map[string]*Node
}

// everything is the node of a source that is selected completely.
var everything = &Node{all: true}

// ReadOnly reads a list of paths relative to the source, one per line or, if
// nulSeparated, each ended by a NUL byte. As in ExcludeFrom, a CR at the end of a line and
// a byte order mark at the start of the file do not belong to a name. With NUL bytes, they do.
// Nothing else is special: there are no comments, no patterns and no quotes, and spaces
// belong to the name. Empty lines are ignored; "." components and surplus slashes are
// dropped; a listed directory includes its complete subtree, and "." is the
// complete source.
//
// Absolute paths, paths with a ".." component, and paths with names that no file can
// have are errors. The error has the number of the line or entry, and quotes the path.
func ReadOnly(r io.Reader, nulSeparated bool) (*Only, error) {
	sep, unit := byte('\n'), "line"
	if nulSeparated {
		sep, unit = 0, "entry"
	}
	only := &Only{root: &Node{}}
	sc := newRecordScanner(r, sep)
	number := 0
	h := fnv.New64a()
	for sc.Scan() {
		number++
		path := sc.Text()
		if !nulSeparated {
			path = trimLine(path, number)
		}
		if path == "" {
			continue
		}
		fmt.Fprintf(h, "%q\n", path)
		if err := checkListed(path); err != nil {
			return nil, fmt.Errorf("%s %d: path %q: %w", unit, number, path, err)
		}
		only.add(path)
	}
	if err := sc.Err(); err != nil {
		return nil, fmt.Errorf("%s %d: %w", unit, number+1, err)
	}
	only.fingerprint = h.Sum64()
	return only, nil
}

// maxName limits a name in a path, in bytes. It is far more than any file system accepts (255
// characters), and less than a listing of names can hold.
const maxName = 4 << 10

func checkListed(path string) error {
	if path[0] == '/' {
		return errors.New("it is absolute; paths in the list are relative to the source")
	}
	if strings.IndexByte(path, 0) >= 0 {
		return errors.New("it holds a NUL byte; a NUL-separated list needs --from0")
	}
	for name := range strings.SplitSeq(path, "/") {
		if name == ".." {
			return errors.New("\"..\" could lead out of the source")
		}
		if len(name) > maxName {
			return fmt.Errorf("a name in it has more than %d bytes", maxName)
		}
	}
	return nil
}

// add selects the subtree at path, which [checkListed] has accepted.
func (o *Only) add(path string) {
	var names []string
	for name := range strings.SplitSeq(path, "/") {
		if name != "" && name != "." {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		o.root = &Node{all: true}
		return
	}
	node := o.root
	last := len(names) - 1
	for _, name := range names[:last] {
		if node.all {
			return // a directory above is in the set
		}
		child := node.children[name]
		if child == nil {
			child = &Node{}
			node.setChild(name, child)
		}
		node = child
	}
	if !node.all {
		node.setChild(names[last], &Node{all: true})
	}
}

func (n *Node) setChild(name string, child *Node) {
	if n.children == nil {
		n.children = make(map[string]*Node)
	}
	n.children[strings.Clone(name)] = child // name itself would keep the whole line alive
}

// Root returns the node of the source root.
func (o *Only) Root() *Node {
	if o == nil {
		return everything
	}
	return o.root
}

// Empty reports whether the list has no path.
func (o *Only) Empty() bool { return o != nil && !o.root.all && len(o.root.children) == 0 }

// All reports whether the complete subtree is selected: the entry or a directory above it was
// listed.
func (n *Node) All() bool {
	return n != nil && n.all
}

// Names returns the names of the selected children in byte order. It is empty
// if [Node.All] is true: then the caller lists the directory itself.
func (n *Node) Names() []string {
	if n == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(n.children))
}

// Child returns the node of a child, nil if it is not selected. If [Node.All] is true, every
// child is selected.
func (n *Node) Child(name string) *Node {
	switch {
	case n == nil:
		return nil
	case n.all:
		return n
	}
	child := n.children[name]
	if child != nil && !child.met.Load() {
		child.met.Store(true)
	}
	return child
}

// Unmet returns the listed paths for which [Node.Child] was never called, in byte order of
// their names. It leaves out a path if Child was called for a listed path below it.
func (o *Only) Unmet() (paths []string) {
	if o != nil {
		o.root.unmet("", &paths)
	}
	return paths
}

func (n *Node) unmet(prefix string, paths *[]string) {
	for _, name := range n.Names() {
		child := n.children[name]
		switch {
		case !child.all:
			child.unmet(prefix+name+"/", paths)
		case !child.met.Load():
			*paths = append(*paths, prefix+name)
		}
	}
}
