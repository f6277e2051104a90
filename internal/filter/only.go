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

// Only is the set of paths of --files-from. A nil *Only wants everything; one
// read from an empty list wants nothing.
//
// Once read, it may be used from several goroutines.
type Only struct {
	root        *Node
	fingerprint uint64
}

// Fingerprint is a number that two lists share if they have the same paths in the
// same order, and hardly otherwise. That of nil is 0.
func (o *Only) Fingerprint() uint64 {
	if o == nil {
		return 0
	}
	return o.fingerprint
}

// Node is one directory or file that an [Only] wants, or a directory on the
// way to one. The methods of a nil *Node say that nothing is wanted.
type Node struct {
	all      bool
	met      atomic.Bool // Child has returned it
	children map[string]*Node
}

// everything is the node of a source of which all is wanted.
var everything = &Node{all: true}

// ReadOnly reads a list of paths relative to the source, one per line or, if
// nulSeparated, each ended by a NUL byte. Nothing else is special: there are
// no comments, no patterns and no quotes, and spaces and a CR belong to the
// name. Empty lines are ignored; "." components and surplus slashes are
// dropped; a listed directory includes its complete subtree, and "." is the
// complete source.
//
// Absolute paths, paths with a ".." component and those with names that nothing can
// have are refused with an error that names the line (or entry) number and quotes the
// path.
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

// maxName bounds a name in a path, in bytes: far more than any file system takes (255
// characters), and less than what a listing of names can hold.
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

// add wants the subtree at path, which [checkListed] has passed.
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

// All reports whether the whole subtree is wanted: the entry was listed, or a
// directory above it.
func (n *Node) All() bool {
	return n != nil && n.all
}

// Names returns the names of the wanted children in byte order. It is empty
// if [Node.All] is true: then the caller lists the directory itself.
func (n *Node) Names() []string {
	if n == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(n.children))
}

// Child returns the node of a child, nil if it is not wanted. Where
// [Node.All] holds, every child is wanted.
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

// Unmet returns the paths of the list, in byte order of their names, of which [Node.Child]
// was never asked. A path that leads to one counts with it.
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
