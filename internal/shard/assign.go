package shard

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"

	"github.com/seed65876f4f/sealift/internal/fsys"
)

// planned is an entry with its directory and its cluster. A cluster is the set of names in one
// directory that are equal after folding; all of them must be in one shard.
type planned struct {
	Entry
	sequence uint64 // its place in the order of all entries
	cluster  uint64 // number of its cluster
	dir      uint64 // number of its directory
	group    uint64 // names of one file have the same number; 0 for a file with one name in the plan
	cost     int64  // nanoseconds; 0 for a name in a hard link group, whose cost is counted once
}

// missing is a path that a manifest of the source lists and the source lacks.
type missing struct {
	list int // index in Plan.Lists
	path string
}

// entries calls yield for each entry, in order, with everything that the statements say about it. A
// directory without entries is one. It calls absent, unless that is nil, for each path that only
// manifests of the source have. The entry is valid during the call.
func (p *Planner) entries(ctx context.Context, yield func(*planned) error, absent func(missing) error) error {
	var e planned
	var have, noted bool
	var cluster, dir, path []byte // names in the record before
	var beside collision
	var empty struct { // a directory of which no entry was met yet
		have bool
		path string
	}
	flush := func() error {
		if !have {
			return nil
		}
		have = false
		e.sequence++
		return yield(&e)
	}
	flushEmpty := func() error {
		if !empty.have {
			return nil
		}
		empty.have = false
		e = planned{Entry: Entry{Path: empty.path, Kind: fsys.Directory}, sequence: e.sequence, cluster: e.cluster + 1, dir: e.dir + 1, cost: entryCost}
		dir, cluster, have = append(dir[:0], empty.path...), cluster[:0], true
		return flush()
	}
	err := p.mu.names.Each(func(key, value []byte) error {
		k, err := splitKey(key)
		if err != nil {
			return err
		}
		if string(k.path) != string(path) {
			if err := flush(); err != nil {
				return err
			}
			path, noted = append(path[:0], k.path...), false
		}
		if empty.have && string(k.dir) != empty.path {
			if err := flushEmpty(); err != nil {
				return err
			}
		}
		switch k.about {
		case aboutSubdirectory:
			beside.add(k, absent != nil, p.opts.Collides)
		case aboutDirectory:
			empty.have, empty.path = true, string(k.dir)
		case aboutEntry:
			beside.add(k, absent != nil, p.opts.Collides)
			if have {
				return errTwice
			}
			if e.sequence == 0 || string(k.dir) != string(dir) {
				e.dir++
			}
			if e.sequence == 0 || string(k.cluster) != string(cluster) {
				e.cluster++
			}
			empty.have = false
			dir, cluster = append(dir[:0], k.dir...), append(cluster[:0], k.cluster...)
			have = true
			e.read(k, value)
		case aboutGroup:
			e.group, _ = binary.Uvarint(value)
			e.cost = 0
		case aboutExpected:
			x := ListDigest{int(binary.BigEndian.Uint16(k.rest)), bytes.Clone(k.rest[2:])}
			if have {
				e.expect(x)
			} else if !noted && absent != nil {
				noted = true
				return absent(missing{x.List, joinPath(k.dir, k.name)})
			}
		case aboutPrevious:
			if have {
				e.Previous = append(e.Previous, LineDigest{int(binary.BigEndian.Uint16(k.rest)), int(binary.BigEndian.Uint16(k.rest[2:])), bytes.Clone(k.rest[4:])})
			}
		}
		return ctx.Err()
	})
	if err == nil {
		err = flush()
	}
	if err == nil {
		err = flushEmpty()
	}
	return err
}

// collision finds a directory whose name is equal, after folding, to another name beside it.
type collision struct {
	cluster, path []byte // fold and path of the name before
	isDirectory   bool
}

func (c *collision) add(k nameKey, wanted bool, report func(dir, other string)) {
	if !wanted || report == nil {
		return
	}
	isDirectory := k.about == aboutSubdirectory
	path := joinPath(k.dir, k.name)
	if string(c.cluster) == string(k.cluster) && string(c.path) != path && (c.isDirectory || isDirectory) {
		if isDirectory {
			report(path, string(c.path))
		} else {
			report(string(c.path), path)
		}
	}
	c.cluster, c.path, c.isDirectory = append(c.cluster[:0], k.cluster...), append(c.path[:0], path...), isDirectory
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

func joinPath(dir, name []byte) string {
	if len(dir) == 0 {
		return string(name)
	}
	return string(dir) + "/" + string(name)
}

var errTwice = errors.New("a name was listed twice; does the source change its names?")

// read sets the entry from a statement of kind aboutEntry.
func (e *planned) read(k nameKey, value []byte) {
	e.Entry = Entry{Kind: fsys.Kind(value[0])}
	size, _ := binary.Uvarint(value[1:])
	e.Size, e.group = int64(size), 0
	e.Path = joinPath(k.dir, k.name)
	e.cost = costOf(e.Kind, e.Size)
}

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
		dir: dir, name: name, cluster: key[:cluster], path: key[:cluster+1+len(name)],
		about: rest[0], rest: rest[1:],
	}, nil
}

// assignment decides which shard each entry belongs to.
type assignment struct {
	*balance
	groups []linkGroup
	large  map[uint64]int // cluster that was placed first → its shard, or minus the number of its link group
	finest int64          // largest cost of a small unit; see the constant finest
}

// assign makes the assignment in one pass over all entries.
func (p *Planner) assign(ctx context.Context, groups []linkGroup) (*assignment, error) {
	shards := shardCount(p.mu.cost, p.mu.totals.Bytes, p.opts.Shards, p.opts.ShardSize)
	a := &assignment{balance: newBalance(shards), groups: groups, large: map[uint64]int{}}
	a.finest = p.mu.cost / int64(shards) / finest
	var units []unit // clusters
	var small int64
	var c struct { // the current cluster
		unit
		names int
		group uint64 // group of one of its names
		alone int64  // cost of names without a group
	}
	finish := func() {
		switch {
		case c.names == 0:
		case c.group != 0:
			r := root(groups, c.group)
			groups[r].cost = addCost(groups[r].cost, c.alone)
			if c.names > wholeNames { // too many names to hold until the first one with a group comes
				a.large[c.id] = -int(r)
			}
		case c.alone > a.finest || c.names > wholeNames:
			units = append(units, unit{c.id, c.alone})
		default:
			small += c.alone
		}
	}
	err := p.entries(ctx, func(e *planned) error {
		if e.cluster != c.id {
			finish()
			c.unit, c.names, c.group, c.alone = unit{id: e.cluster}, 0, 0, 0
		}
		c.names++
		c.alone = addCost(c.alone, e.cost)
		if e.group != 0 {
			if c.group != 0 {
				join(groups, c.group, e.group)
			}
			c.group = e.group
		}
		return nil
	}, p.addMissing)
	if err != nil {
		return nil, err
	}
	finish()
	a.place(units, small)
	return a, nil
}

// addMissing adds a path that only manifests of the source have.
func (p *Planner) addMissing(m missing) error {
	if p.opts.Missing != nil && !p.opts.Missing(m.path) {
		return nil
	}
	p.mu.totals.Missing++
	key := binary.BigEndian.AppendUint16(nil, uint16(m.list))
	return p.mu.missing.Add(append(key, m.path...), nil)
}

// groupUnit marks ids of units that are hard link groups.
const groupUnit = 1 << 63

// place places the large clusters and groups, and reserves space in the shards for the small ones.
func (a *assignment) place(units []unit, small int64) {
	for g := 1; g < len(a.groups); g++ {
		a.groups[g].shard = -1
		switch {
		case int(a.groups[g].parent) != g:
		case a.groups[g].cost > a.finest:
			units = append(units, unit{groupUnit | uint64(g), a.groups[g].cost})
		default:
			small += a.groups[g].cost
		}
	}
	for i, shard := range a.placeLarge(units) {
		if id := units[i].id; id&groupUnit != 0 {
			a.groups[id&^groupUnit].shard = int32(shard)
		} else {
			a.large[id] = shard
		}
	}
	a.level(small)
}

// ofGroup returns the shard of a hard link group.
func (a *assignment) ofGroup(g uint64) int {
	r := &a.groups[root(a.groups, g)]
	if r.shard < 0 {
		r.shard = int32(a.pour(r.cost))
	}
	return int(r.shard)
}

// ofLarge returns the shard of a cluster if that is known at its first name.
func (a *assignment) ofLarge(cluster uint64) (shard int, ok bool) {
	shard, ok = a.large[cluster]
	if shard < 0 {
		shard = a.ofGroup(uint64(-shard))
	}
	return shard, ok
}

// distributor passes entries on with their shards. It holds the small entries of a directory
// until it knows whether they stay together.
type distributor struct {
	*assignment
	yield func(shard int, e *planned) error

	cluster []planned // the names of the current cluster so far
	held    []planned // clusters of the directory that are not placed
	cost    int64     // cost of held
	dir     uint64    // the directory of cluster and held
	split   bool      // the entries of dir may go to different shards
}

func (d *distributor) add(e *planned) error {
	if len(d.cluster) > 0 && d.cluster[0].cluster != e.cluster {
		if err := d.endCluster(); err != nil {
			return err
		}
	}
	if d.dir != e.dir {
		if err := d.endDirectory(); err != nil {
			return err
		}
		d.dir = e.dir
	}
	if shard, ok := d.ofLarge(e.cluster); ok {
		return d.yield(shard, e)
	}
	d.cluster = append(d.cluster, *e)
	return nil
}

// endCluster places the names of the current cluster, or holds them.
func (d *distributor) endCluster() error {
	defer func() { d.cluster = d.cluster[:0] }()
	var cost int64
	for i := range d.cluster {
		cost += d.cluster[i].cost
		if g := d.cluster[i].group; g != 0 {
			return d.pass(d.ofGroup(g), d.cluster)
		}
	}
	if !d.split && (d.cost+cost > d.finest || len(d.held)+len(d.cluster) > wholeNames) {
		d.split = true
		if err := d.placeHeld(); err != nil {
			return err
		}
	}
	if d.split {
		return d.pass(d.pour(cost), d.cluster)
	}
	d.held, d.cost = append(d.held, d.cluster...), d.cost+cost
	return nil
}

// placeHeld places the clusters of a directory that is split.
func (d *distributor) placeHeld() error {
	for first := 0; first < len(d.held); {
		end, cost := first, int64(0)
		for end < len(d.held) && d.held[end].cluster == d.held[first].cluster {
			cost += d.held[end].cost
			end++
		}
		if err := d.pass(d.pour(cost), d.held[first:end]); err != nil {
			return err
		}
		first = end
	}
	d.held, d.cost = d.held[:0], 0
	return nil
}

// endDirectory places the small entries of a directory that stay together.
func (d *distributor) endDirectory() error {
	if len(d.cluster) > 0 {
		if err := d.endCluster(); err != nil {
			return err
		}
	}
	held := d.held
	cost := d.cost
	d.held, d.cost, d.split = d.held[:0], 0, false
	if len(held) == 0 {
		return nil
	}
	return d.pass(d.pour(cost), held)
}

func (d *distributor) pass(shard int, entries []planned) error {
	for i := range entries {
		if err := d.yield(shard, &entries[i]); err != nil {
			return err
		}
	}
	return nil
}
