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
		names   *extsort.Sorter // statements about names; see statement
		links   *extsort.Sorter // names of files with several names
		dirs    *extsort.Sorter
		missing *extsort.Sorter
		linked  int64 // records in links
		key     []byte
		value   []byte
		totals  Totals
		cost    int64 // nanoseconds
		err     error // the first one
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
	p.mu.names, p.mu.links, p.mu.dirs = newSorter(dir, o.memory), newSorter(dir, o.memory/4), newSorter(dir, o.memory/4)
	p.mu.missing = newSorter(dir, o.memory/4)
	return p, nil
}

// ID returns the id that the plan will have.
func (p *Planner) ID() string { return p.id }

// maxIndex is the largest number of destinations, manifests and hashes.
const maxIndex = 1<<16 - 1

// Close frees what Planner uses.
func (p *Planner) Close() {
	for _, s := range [...]*extsort.Sorter{p.mu.names, p.mu.links, p.mu.dirs, p.mu.missing} {
		_ = s.Close() // a temporary that is not needed any more
	}
}

// A statement is a record about one name. Statements about a name follow each other, in
// the order of their kinds.
const (
	aboutDirectory    byte = iota // the directory itself; the name is ""
	aboutSubdirectory             // the name is a directory
	aboutEntry                    // kind and size
	aboutGroup                    // the number of its hard link group
	aboutExpected
	aboutPrevious
)

// appendKey appends the key of a statement: directory NUL fold NUL name NUL statement. The sorter
// therefore returns the names of a directory together, and in it the names with equal folds
// together.
func appendKey(dst []byte, path string, about byte) []byte {
	dir, name := Split(path)
	dst = append(dst, dir...)
	dst = append(dst, 0)
	dst = append(dst, fold(name)...)
	dst = append(dst, 0)
	dst = append(dst, name...)
	return append(dst, 0, about)
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
	cost := costOf(e.Kind, e.Size)
	p.mu.cost = addCost(p.mu.cost, cost)
	if e.Kind == fsys.Regular {
		p.mu.totals.Bytes = addCost(p.mu.totals.Bytes, e.Size)
	}
	p.mu.value = append(p.mu.value[:0], byte(e.Kind))
	p.mu.value = binary.AppendUvarint(p.mu.value, uint64(e.Size))
	p.addStatement(e.Path, aboutEntry)
	if links > 1 && p.opts.Links {
		p.mu.key = binary.BigEndian.AppendUint64(p.mu.key[:0], id.Dev)
		p.mu.key = binary.BigEndian.AppendUint64(p.mu.key, id.Ino)
		p.mu.key = append(p.mu.key, e.Path...)
		p.mu.value = append(p.mu.value[:0], byte(e.Kind))
		p.mu.value = binary.AppendUvarint(p.mu.value, uint64(e.Size))
		p.mu.linked++
		p.keepError(p.mu.links.Add(p.mu.key, p.mu.value))
	}
	return p.mu.err
}

// AddDirectory adds a directory of the source, the root included.
func (p *Planner) AddDirectory(d Directory) error {
	if d.Path != "" && !IsPath(d.Path) {
		return fmt.Errorf("%.100q cannot be planned", d.Path)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.totals.Directories++
	p.mu.key = p.mu.key[:0]
	if d.Path != "" {
		p.mu.key = append(append(p.mu.key, d.Path...), '/')
	}
	p.mu.value = appendDirectory(p.mu.value[:0], &d)
	p.keepError(p.mu.dirs.Add(p.mu.key, p.mu.value))
	p.mu.key = append(append(p.mu.key[:0], d.Path...), 0, 0, 0, aboutDirectory)
	p.keepError(p.mu.names.Add(p.mu.key, nil))
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
	p.mu.key = appendKey(p.mu.key[:0], path, about)
	value := p.mu.value
	if about >= aboutExpected {
		p.mu.key, value = append(p.mu.key, p.mu.value...), nil
	}
	p.keepError(p.mu.names.Add(p.mu.key, value))
}

// keepError keeps the first error, which the next call returns.
func (p *Planner) keepError(err error) { p.mu.err = cmp.Or(p.mu.err, err) }

// groupLinks numbers the hard link groups and adds a statement about the group of each name. A file
// with only one name in the plan has no group. groups[n] is the group with number n.
func (p *Planner) groupLinks(ctx context.Context) (groups []linkGroup, err error) {
	groups = make([]linkGroup, 1, 1+p.mu.linked/2)
	var file, first []byte // the file of the record before, and its path
	var names int
	err = p.mu.links.Each(func(key, value []byte) error {
		const idSize = 16
		id, path := key[:idSize], key[idSize:]
		if string(id) != string(file) {
			file, first, names = append(file[:0], id...), append(first[:0], path...), 1
			return ctx.Err()
		}
		kind := fsys.Kind(value[0])
		size, _ := binary.Uvarint(value[1:])
		number := uint64(len(groups))
		if names++; names == 2 {
			groups = append(groups, linkGroup{parent: uint32(number), cost: costOf(kind, int64(size))})
			p.addGroup(string(first), number)
		} else {
			number--
		}
		p.addGroup(string(path), number)
		groups[number].cost = addCost(groups[number].cost, entryCost)
		p.mu.cost -= costOf(kind, int64(size)) - entryCost
		if kind == fsys.Regular {
			p.mu.totals.Bytes -= min(int64(size), p.mu.totals.Bytes)
		}
		return p.mu.err
	})
	p.mu.totals.LinkGroups = int64(len(groups) - 1)
	return groups, err
}

// addGroup adds a statement about the group of a name.
func (p *Planner) addGroup(path string, group uint64) {
	p.mu.value = binary.AppendUvarint(p.mu.value[:0], group)
	p.addStatement(path, aboutGroup)
}

// linkGroup is a hard link group in the forest of groups that share a shard.
type linkGroup struct {
	parent uint32 // itself for the root of a tree
	shard  int32  // the shard of the whole tree, set only at its root; -1 until the tree is placed
	cost   int64  // the cost of the whole tree, valid only at its root
}

// root returns the root of a group's tree.
func root(groups []linkGroup, g uint64) uint64 {
	for uint64(groups[g].parent) != g {
		groups[g].parent = groups[groups[g].parent].parent
		g = uint64(groups[g].parent)
	}
	return g
}

// join puts two groups into one tree.
func join(groups []linkGroup, a, b uint64) {
	a, b = root(groups, a), root(groups, b)
	if a == b {
		return
	}
	low, high := min(a, b), max(a, b)
	groups[high].parent = uint32(low)
	groups[low].cost = addCost(groups[low].cost, groups[high].cost)
}
