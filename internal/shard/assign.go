package shard

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"

	"github.com/seed65876f4f/sealift/internal/fsys"
)

// planned is a name with everything that the statements say about it. A cluster is the set of names in
// one directory that are equal after folding; all of them must be in one shard.
type planned struct {
	Entry          // of kind Unknown if the name is no entry
	subdir  bool   // it is a directory, of which another name has the entries
	dir     uint64 // number of its directory
	cluster uint64 // number of its cluster
	group   uint64 // a hard link group with a name in the cluster; 0 if there is none
	cost    int64  // nanoseconds
	line    []byte // of a directory, in the table of directories
}

// entries calls yield for each name, in order. The first one of a directory is the directory itself. The
// name is valid during the call.
func (p *Planner) entries(ctx context.Context, yield func(*planned) error) error {
	var e planned
	var dir, cluster, path []byte // of the statement before
	flush := func() error {
		e.Missing = e.Kind == fsys.Unknown && len(e.Expected) > 0
		if e.Kind == fsys.Unknown && !e.Missing && !e.subdir { // at most an earlier manifest has it
			return nil
		}
		return yield(&e)
	}
	err := p.mu.names.Each(func(key, value []byte) error {
		k, err := splitKey(key)
		if err != nil {
			return err
		}
		first := path == nil
		if first || string(k.path) != string(path) {
			if err := flush(); err != nil {
				return err
			}
			path = append(path[:0], k.path...)
			e.Entry, e.subdir, e.cost = Entry{Path: joinPath(k.dir, k.name)}, false, 0
		}
		if first || string(k.dir) != string(dir) {
			dir = append(dir[:0], k.dir...)
			e.dir++
		}
		if first || string(k.cluster) != string(cluster) {
			cluster = append(cluster[:0], k.cluster...)
			e.cluster++
			e.group = 0
		}
		return errors.Join(p.add(&e, k, value), ctx.Err())
	})
	if err == nil {
		err = flush()
	}
	return err
}

// add adds a statement to what is known about a name.
func (p *Planner) add(e *planned, k nameKey, value []byte) error {
	switch k.about {
	case aboutDirectory:
		e.Kind, e.cost, e.line = fsys.Directory, entryCost, append(e.line[:0], value...)
	case aboutCluster:
		group, _ := binary.Uvarint(value)
		if e.group != 0 {
			join(p.mu.groups, e.group, group)
		}
		e.group = group
	case aboutSubdirectory:
		e.subdir = true
	case aboutEntry:
		if e.Kind != fsys.Unknown {
			return errTwice
		}
		e.Kind, e.Size = parseKind(value)
		e.cost = costOf(e.Kind, e.Size)
	case aboutExpected:
		e.expect(ListDigest{int(binary.BigEndian.Uint16(k.rest)), bytes.Clone(k.rest[2:])})
	case aboutPrevious:
		e.Previous = append(e.Previous, LineDigest{int(binary.BigEndian.Uint16(k.rest)), int(binary.BigEndian.Uint16(k.rest[2:])), bytes.Clone(k.rest[4:])})
	}
	return nil
}

// maxExpected limits the different digests that one manifest lists for an entry. No file matches
// two different digests, so further ones change nothing. The limit bounds the memory that a hostile
// manifest with a million lines for one entry can use.
const maxExpected = 16

// expect adds an expected digest. The calls come in the order of manifests and digests.
func (e *planned) expect(x ListDigest) {
	n := len(e.Expected)
	if n > 0 && e.Expected[n-1].List == x.List && bytes.Equal(e.Expected[n-1].Digest, x.Digest) {
		return
	}
	if n >= maxExpected && e.Expected[n-maxExpected].List == x.List {
		return
	}
	e.Expected = append(e.Expected, x)
}

// joinPath returns the path of a name; "" is the directory itself.
func joinPath(dir, name []byte) string {
	if len(dir) == 0 || len(name) == 0 {
		return string(dir) + string(name)
	}
	return string(dir) + "/" + string(name)
}

var errTwice = errors.New("a name was listed twice; does the source change its names?")

// nameKey is the key of a statement in parts.
type nameKey struct {
	dir, name []byte
	cluster   []byte // directory and fold
	path      []byte // directory, fold and name
	about     byte
	rest      []byte
}

func splitKey(key []byte) (k nameKey, err error) {
	dir, rest, ok1 := bytes.Cut(key, []byte{0})
	folded, rest, ok2 := bytes.Cut(rest, []byte{0})
	name, rest, ok3 := bytes.Cut(rest, []byte{0})
	if !ok1 || !ok2 || !ok3 || len(rest) == 0 {
		return k, errRecord
	}
	cluster := len(dir) + 1 + len(folded)
	return nameKey{
		dir: bytes.TrimSuffix(dir, []byte{'/'}), name: name, cluster: key[:cluster], path: key[:cluster+1+len(name)],
		about: rest[0], rest: rest[1:],
	}, nil
}

// assignment decides which shard each entry belongs to. It cuts the entries, in their order, where their
// cost reaches the next multiple of the mean cost of a shard. It cuts only between units. A unit is a
// directory that costs little, or a cluster in another one. Clusters with names of one hard link group
// are one unit, at the place of the first one.
type assignment struct {
	groups []linkGroup
	split  map[uint64]bool // the directories that may be cut
	total  float64         // cost of all entries
	before float64         // cost of the units so far
	loads  []int64         // cost of each shard

	dir, cluster uint64 // those of the entry before
	shard        int    // shard of the unit that this entry belongs to
}

// assign prepares the assignment in one pass over all entries.
func (p *Planner) assign(ctx context.Context) (*assignment, error) {
	shards := shardCount(p.mu.cost, p.mu.totals.Bytes, p.opts.Shards, p.opts.ShardSize)
	a := &assignment{groups: p.mu.groups, split: map[uint64]bool{}, loads: make([]int64, shards)}
	whole := p.mu.cost / int64(shards) / finest
	dir, cost := uint64(0), int64(0) // a directory, and the cost of its entries so far
	return a, p.entries(ctx, func(e *planned) error {
		if e.dir != dir {
			dir, cost = e.dir, 0
		}
		if cost = addCost(cost, e.cost); cost > whole {
			a.split[dir] = true // at most finest directories for each shard
		}
		a.total += float64(e.cost)
		if e.group != 0 {
			tree := root(a.groups, e.group)
			tree.cost = addCost(tree.cost, e.cost)
		}
		return nil
	})
}

// place returns the shard of an entry. The entries come in their order.
func (a *assignment) place(e *planned) int {
	if e.dir != a.dir || e.cluster != a.cluster && a.split[e.dir] {
		a.shard = a.at(e.cost)
	}
	a.dir, a.cluster = e.dir, e.cluster
	if e.group == 0 {
		a.add(a.shard, e.cost)
		return a.shard
	}
	tree := root(a.groups, e.group)
	if tree.shard < 0 {
		tree.shard = int32(a.at(tree.cost))
		a.add(int(tree.shard), tree.cost)
	}
	return int(tree.shard)
}

// at returns the shard that contains the middle of the next unit, whose cost is given.
func (a *assignment) at(cost int64) int {
	return min(int((a.before+float64(cost)/2)/a.total*float64(len(a.loads))), len(a.loads)-1)
}

func (a *assignment) add(shard int, cost int64) {
	a.before += float64(cost)
	a.loads[shard] = addCost(a.loads[shard], cost)
}
