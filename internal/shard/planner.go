package shard

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/seed65876f4f/sealift/internal/extsort"
	"github.com/seed65876f4f/sealift/internal/fsys"
)

// PlanOptions say what to plan.
type PlanOptions struct {
	Copy    Options
	Sealift string // the version of the program
	Source  Root
	Targets []Root
	Lists   []List

	Shards    int   // how many; 0 for a number that suits the source
	ShardSize int64 // mean bytes of a shard; 0 for a number that suits the source
	Links     bool  // keep hard links

	// Missing is called for each path that manifests of the source list and that is no entry of the
	// plan. It returns false if the filters exclude the path. It may be nil: then it is not called.
	Missing func(path string) bool
	// Collides, if set, is called for a directory whose name some file system treats as equal to
	// another name beside it. The entries of the two may be in different shards.
	Collides func(dir, other string)
	// BeforeCommit is called when the plan is complete on the device, before plan.json gets its
	// name; nil for nothing. After an error there is no plan.
	BeforeCommit func() error

	memory int // limit of each sort, in bytes; 0 for sortMemory
}

// Planner collects the entries of a source and writes a plan.
type Planner struct {
	opts PlanOptions
	plan *fsys.Dir // the directory of the plan
	id   string

	LeftOut atomic.Int64 // entries of the source or lines of manifests that the filters leave out

	mu struct {
		sync.Mutex
		names  *extsort.Sorter // statements about names; see statement
		links  *extsort.Sorter // names of files with several names
		linked int64           // records in links
		groups []linkGroup     // set by groupLinks; groups[n] is the group with number n, counted from 1
		key    []byte
		value  []byte
		totals Totals
		cost   int64 // of everything, in nanoseconds
		err    error // the first one
	}
}

// NewPlanner makes a Planner that writes to the directory, which it does not take over. The
// caller must Close it. It is an error if the directory contains a complete plan.
func NewPlanner(dir *fsys.Dir, o PlanOptions) (*Planner, error) {
	if o.Shards < 0 || o.Shards > MaxShards || o.ShardSize < 0 {
		return nil, fmt.Errorf("a plan has from 1 to %d shards", MaxShards)
	}
	if len(o.Targets) == 0 || len(o.Targets) > maxIndex || len(o.Lists) > maxIndex || len(o.Copy.Hashes) > maxIndex {
		return nil, errors.New("a plan has at least one destination and at most 65,535")
	}
	if err := Inspect(dir); err != nil {
		return nil, err
	}
	if o.memory == 0 {
		o.memory = sortMemory
	}
	random := make([]byte, 16)
	_, _ = rand.Read(random) // it never returns an error
	p := &Planner{opts: o, plan: dir, id: hex.EncodeToString(random)}
	p.mu.names, p.mu.links = newSorter(dir, o.memory), newSorter(dir, o.memory/4)
	return p, nil
}

// ID returns the id that the plan will have.
func (p *Planner) ID() string { return p.id }

// maxIndex is the largest number of destinations, manifests and hashes.
const maxIndex = 1<<16 - 1

// Close frees what Planner uses.
func (p *Planner) Close() {
	for _, s := range [...]*extsort.Sorter{p.mu.names, p.mu.links} {
		_ = s.Close() // a temporary that is not needed any more
	}
}

// A statement is a record about one name. Statements about a name follow each other, in
// the order of their kinds.
const (
	aboutDirectory    byte = iota // the line of the directory itself; the name is ""
	aboutCluster                  // the number of a hard link group that has a name in the cluster; the name is ""
	aboutSubdirectory             // the name is a directory
	aboutEntry                    // kind and size
	aboutExpected
	aboutPrevious
)

// appendKey appends the key of a statement: directory / NUL fold NUL name NUL statement. The sorter
// therefore returns a directory before everything below it, the names of a directory together, and in
// it the names with equal folds, a cluster, together.
func appendKey(dst []byte, dir, fold, name string, about byte) []byte {
	if dst = append(dst, dir...); dir != "" {
		dst = append(dst, '/')
	}
	for _, part := range [...]string{"", fold, name} {
		dst = append(append(dst, part...), 0)
	}
	return append(dst, about)
}

// Split returns the directory of a path, "" for the root, and the last element.
func Split(path string) (dir, name string) {
	i := strings.LastIndexByte(path, '/')
	return path[:max(i, 0)], path[i+1:]
}

// Add adds an entry of the source. id and links are those of the file. Add may be called from
// several goroutines, as may the other methods up to Write.
func (p *Planner) Add(e Entry, id fsys.ID, links uint64) error {
	if !IsPath(e.Path) || e.Kind == fsys.Unknown || e.Kind == fsys.Directory || e.Size < 0 {
		return fmt.Errorf("%.100q cannot be planned", e.Path)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.totals.Entries++
	if links > 1 && p.opts.Links {
		p.mu.key = binary.BigEndian.AppendUint64(p.mu.key[:0], id.Dev)
		p.mu.key = binary.BigEndian.AppendUint64(p.mu.key, id.Ino)
		p.mu.key = append(p.mu.key, e.Path...)
		p.mu.linked++
		p.keepError(p.mu.links.Add(p.mu.key, appendKind(nil, e.Kind, e.Size)))
	} else {
		p.addEntry(e.Path, e.Kind, e.Size)
	}
	return p.mu.err
}

// addEntry adds the statement about an entry.
func (p *Planner) addEntry(path string, kind fsys.Kind, size int64) {
	p.mu.cost = addCost(p.mu.cost, costOf(kind, size))
	if kind == fsys.Regular {
		p.mu.totals.Bytes = addCost(p.mu.totals.Bytes, size)
	}
	p.mu.value = appendKind(p.mu.value[:0], kind, size)
	p.addStatement(path, aboutEntry)
}

func appendKind(dst []byte, kind fsys.Kind, size int64) []byte {
	return binary.AppendUvarint(append(dst, byte(kind)), uint64(size))
}

func parseKind(value []byte) (kind fsys.Kind, size int64) {
	n, _ := binary.Uvarint(value[1:])
	return fsys.Kind(value[0]), int64(n)
}

// AddDirectory adds a directory of the source, the root included.
func (p *Planner) AddDirectory(d Directory) error {
	if d.Path != "" && !IsPath(d.Path) {
		return fmt.Errorf("%.100q cannot be planned", d.Path)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.totals.Directories++
	p.mu.cost = addCost(p.mu.cost, entryCost)
	p.mu.key = appendKey(p.mu.key[:0], d.Path, "", "", aboutDirectory)
	p.mu.value = appendDirectory(p.mu.value[:0], &d)
	p.keepError(p.mu.names.Add(p.mu.key, p.mu.value))
	if d.Path != "" && p.opts.Collides != nil {
		p.mu.value = p.mu.value[:0]
		p.addStatement(d.Path, aboutSubdirectory)
	}
	return p.mu.err
}

// Expect adds what manifest number x.List of the source lists for a path. PlanOptions.Missing
// is asked about paths that are not entries.
func (p *Planner) Expect(path string, x ListDigest) error {
	if !IsPath(path) || x.List < 0 || x.List >= len(p.opts.Lists) || len(x.Digest) != p.opts.Lists[x.List].Hash.Size() {
		return fmt.Errorf("%.100q cannot be expected", path)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.value = binary.BigEndian.AppendUint16(p.mu.value[:0], uint16(x.List))
	p.mu.value = append(p.mu.value, x.Digest...)
	p.addStatement(path, aboutExpected)
	return p.mu.err
}

// Previous adds a line of a destination's previous manifest. Lines of paths that are not
// entries are ignored: merge takes them from that manifest.
func (p *Planner) Previous(path string, l LineDigest) error {
	if !IsPath(path) || l.Target < 0 || l.Target >= len(p.opts.Targets) ||
		l.Hash < 0 || l.Hash >= len(p.opts.Copy.Hashes) || len(l.Digest) != p.opts.Copy.Hashes[l.Hash].Size() {
		return fmt.Errorf("%.100q cannot have a line", path)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.value = binary.BigEndian.AppendUint16(p.mu.value[:0], uint16(l.Target))
	p.mu.value = binary.BigEndian.AppendUint16(p.mu.value, uint16(l.Hash))
	p.mu.value = append(p.mu.value, l.Digest...)
	p.addStatement(path, aboutPrevious)
	return p.mu.err
}

// addStatement adds a statement with the value p.mu.value. For expected digests and lines, the value
// becomes a part of the key. Their order then does not depend on the order of the calls.
func (p *Planner) addStatement(path string, about byte) {
	dir, name := Split(path)
	p.mu.key = appendKey(p.mu.key[:0], dir, fold(name), name, about)
	value := p.mu.value
	if about >= aboutExpected {
		p.mu.key, value = append(p.mu.key, p.mu.value...), nil
	}
	p.keepError(p.mu.names.Add(p.mu.key, value))
}

// keepError keeps the first error, which the next call returns.
func (p *Planner) keepError(err error) { p.mu.err = cmp.Or(p.mu.err, err) }

// groupLinks numbers the hard link groups, and adds the statements about their names and clusters. A
// file with only one name in the plan has no group. The size of a file counts at its first name.
func (p *Planner) groupLinks(ctx context.Context) error {
	p.mu.groups = make([]linkGroup, 1, 1+p.mu.linked/2)
	var file, first []byte // the file of the record before, and its path
	grouped := false       // that file has a group
	err := p.mu.links.Each(func(key, value []byte) error {
		const idSize = 16
		id, path := key[:idSize], key[idSize:]
		kind, size := parseKind(value)
		if string(id) != string(file) {
			file, first, grouped = append(file[:0], id...), append(first[:0], path...), false
		} else {
			if size = 0; !grouped {
				grouped = true
				p.mu.groups = append(p.mu.groups, linkGroup{parent: uint32(len(p.mu.groups)), shard: -1})
				p.addToGroup(string(first))
			}
			p.addToGroup(string(path))
		}
		p.addEntry(string(path), kind, size)
		return errors.Join(p.mu.err, ctx.Err())
	})
	p.mu.totals.LinkGroups = int64(len(p.mu.groups) - 1)
	return err
}

// addToGroup adds a statement that the last group has a name in the cluster of the path.
func (p *Planner) addToGroup(path string) {
	dir, name := Split(path)
	p.mu.key = appendKey(p.mu.key[:0], dir, fold(name), "", aboutCluster)
	p.keepError(p.mu.names.Add(p.mu.key, binary.AppendUvarint(nil, uint64(len(p.mu.groups)-1))))
}

// linkGroup is a hard link group in the forest of groups that share a shard, because they have names in
// one cluster.
type linkGroup struct {
	parent uint32 // itself for the root of a tree
	shard  int32  // the shard of the whole tree, set only at its root; -1 until the tree is placed
	cost   int64  // the cost of all clusters of the tree, valid only at its root
}

// root returns the root of a group's tree.
func root(groups []linkGroup, g uint64) *linkGroup {
	for uint64(groups[g].parent) != g {
		groups[g].parent = groups[groups[g].parent].parent
		g = uint64(groups[g].parent)
	}
	return &groups[g]
}

// join puts two groups into one tree.
func join(groups []linkGroup, a, b uint64) {
	x, y := root(groups, a), root(groups, b)
	if x.parent > y.parent {
		x, y = y, x
	}
	if x != y {
		x.cost = addCost(x.cost, y.cost)
		y.parent = x.parent
	}
}
