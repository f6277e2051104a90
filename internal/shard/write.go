package shard

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io/fs"
	"iter"
	"math"
	"time"

	"github.com/seed65876f4f/sealift/internal/extsort"
	"github.com/seed65876f4f/sealift/internal/fsys"
)

// Write writes the plan. It writes plan.json last, when everything else is on the device. A plan
// without plan.json is not complete, and Write of a new Planner replaces its files. The caller
// must not add anything to the Planner afterwards.
func (p *Planner) Write(ctx context.Context) (*Plan, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.err != nil {
		return nil, p.mu.err
	}
	plan := p.newPlan()
	if err := p.groupLinks(ctx); err != nil {
		return nil, err
	}
	_ = p.mu.links.Close() // a temporary that is not needed any more
	if err := p.mu.names.Seal(); err != nil {
		return nil, err
	}
	a, err := p.assign(ctx)
	if err != nil {
		return nil, err
	}
	if err := p.writeShards(ctx, a, plan); err != nil {
		return nil, err
	}
	plan.Totals = p.mu.totals
	plan.Totals.LeftOut = p.LeftOut.Load()
	return plan, p.writePlan(plan)
}

// newPlan returns the content of plan.json without the descriptions of the files of the plan.
func (p *Planner) newPlan() *Plan {
	return &Plan{
		Format: formatName, Version: formatVersion, ID: p.id,
		Created: time.Now().UTC().Truncate(time.Second), Sealift: p.opts.Sealift,
		Options: p.opts.Copy, Source: p.opts.Source, Targets: p.opts.Targets, Lists: p.opts.Lists,
	}
}

// writeShards writes the table of directories and the lists of all shards, and describes them in the
// plan.
func (p *Planner) writeShards(ctx context.Context, a *assignment, plan *Plan) error {
	dirs, err := createText(p.plan)
	if err != nil {
		return err
	}
	defer dirs.file.Abort()
	files := make([]File, len(a.loads))
	in := make([]uint64, len(files))          // the directory of each shard's last entry
	lists := newSorter(p.plan, p.opts.memory) // lines by shard and sequence
	defer lists.Close()                       //nolint:errcheck // a temporary that is not needed any more
	var key, value []byte
	sequence := uint64(0)
	add := func(shard int, e *Entry) error {
		sequence++
		key = binary.BigEndian.AppendUint32(key[:0], uint32(shard))
		key = binary.BigEndian.AppendUint64(key, sequence)
		value = appendEntry(value[:0], e)
		return lists.Add(key, value)
	}
	var last planned
	err = p.entries(ctx, func(e *planned) error {
		if p.opts.Collides != nil {
			last = p.compareNames(last, e)
		}
		switch {
		case e.Missing:
			return p.addMissing(lists, e)
		case e.Kind == fsys.Unknown:
			return nil
		}
		shard := a.place(e)
		if in[shard] != e.dir { // directories are numbered from 1
			in[shard] = e.dir
			dir, _ := Split(e.Path)
			if e.Kind == fsys.Directory {
				dir = e.Path
			}
			if err := add(shard, &Entry{Path: dir, Kind: fsys.Directory}); err != nil {
				return err
			}
		}
		if e.Kind == fsys.Directory {
			_, err := dirs.Write(e.line)
			return err
		}
		f := &files[shard]
		f.Entries++
		if e.Kind == fsys.Regular {
			f.Files++
			f.Bytes = addCost(f.Bytes, e.Size)
		}
		return add(shard, &e.Entry)
	})
	if err != nil {
		return err
	}
	_ = p.mu.names.Close() // a temporary that is not needed any more
	plan.Dirs.Entries = p.mu.totals.Directories
	if plan.Dirs.Size, plan.Dirs.SHA256, err = dirs.commit(dirsName); err != nil {
		return err
	}
	for i := range files {
		files[i].Cost = a.loads[i]
	}
	plan.Shards = files
	return p.writeLists(ctx, files, lists)
}

// compareNames reports a directory whose name is equal, after folding, to the name before it. It
// returns the name that the next one is compared with.
func (p *Planner) compareNames(last planned, e *planned) planned {
	switch {
	case !e.subdir && (e.Missing || e.Kind == fsys.Directory):
		return last
	case last.cluster != e.cluster:
	case e.subdir:
		p.opts.Collides(e.Path, last.Path)
	case last.subdir:
		p.opts.Collides(last.Path, e.Path)
	}
	return *e
}

// addMissing adds a path that only manifests of the source have to the end of the first list: its task
// reports all of them.
func (p *Planner) addMissing(lists *extsort.Sorter, e *planned) error {
	if p.opts.Missing != nil && !p.opts.Missing(e.Path) {
		return nil
	}
	p.mu.totals.Missing++
	list := e.Expected[0].List
	key := binary.BigEndian.AppendUint64(make([]byte, 4), math.MaxUint64)
	key = binary.BigEndian.AppendUint16(key, uint16(list))
	return lists.Add(append(key, e.Path...), appendMissing(nil, list, e.Path))
}

// writeLists writes the lists, whose lines are sorted, and makes the directories of the attempts.
func (p *Planner) writeLists(ctx context.Context, files []File, lists *extsort.Sorter) error {
	dirs := [2]*fsys.Dir{} // the directories of lists and of attempts
	for i, name := range [...]string{shardsName, workName} {
		err := p.plan.Mkdir(name)
		if err == nil || errors.Is(err, fs.ErrExist) {
			dirs[i], err = p.plan.OpenDir(name)
		}
		if err != nil {
			return err
		}
		defer dirs[i].Close()
	}
	left, err := dirs[0].List() // an interrupted planner has left them
	if err != nil {
		return err
	}
	for i := range left.Len() {
		if err := dirs[0].Remove(left.Name(i)); err != nil {
			return err
		}
	}
	next, stop := iter.Pull2(extsort.Seq(func(yield func(listLine) error) error {
		return lists.Each(func(key, value []byte) error {
			return errors.Join(yield(listLine{int(binary.BigEndian.Uint32(key)), value}), ctx.Err())
		})
	}))
	defer stop()
	line, err, more := next()
	write := func(i int) error {
		f, createErr := createText(dirs[0])
		if createErr != nil {
			return createErr
		}
		defer f.file.Abort()
		for err == nil && more && line.shard == i {
			if _, err = f.Write(line.text); err == nil {
				line, err, more = next()
			}
		}
		if err == nil {
			files[i].Size, files[i].SHA256, err = f.commit(shardName(i))
		}
		return err
	}
	for i := range files {
		if err := write(i); err != nil {
			return err
		}
		if err := dirs[1].Mkdir(shardName(i)); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return errors.Join(dirs[0].Sync(), dirs[1].Sync())
}

// listLine is a line of a list.
type listLine struct {
	shard int
	text  []byte // valid until the next line
}

// writePlan writes plan.json when everything else is on the device. Of two planners that
// finish at the same time, one gets ErrPlanned.
func (p *Planner) writePlan(plan *Plan) error {
	text, err := json.MarshalIndent(plan, "", " ")
	if err != nil {
		return err
	}
	if err := p.plan.Sync(); err != nil {
		return err
	}
	if p.opts.BeforeCommit != nil {
		if err := p.opts.BeforeCommit(); err != nil {
			return err
		}
	}
	err = writeFile(p.plan, planName, string(text)+"\n", (*fsys.Pending).Commit)
	if errors.Is(err, fs.ErrExist) {
		return ErrPlanned
	}
	return err
}

// ErrPlanned says that a directory contains a complete plan.
var ErrPlanned = errors.New("it contains a plan; give another directory, or remove it")

// ErrNotEmpty says that a directory contains entries that no planner made.
var ErrNotEmpty = errors.New("it is not empty")

// Inspect checks that a plan can be made in dir. The directory must be private. It must be empty,
// apart from files of an interrupted planner.
func Inspect(dir *fsys.Dir) error {
	info, err := dir.Stat()
	if err == nil && !info.Private() {
		err = ErrNotPrivate
	}
	if err != nil {
		return err
	}
	listing, err := dir.List()
	if err != nil {
		return err
	}
	for i := range listing.Len() {
		switch name := listing.Name(i); {
		case name == planName:
			return ErrPlanned
		case name != shardsName && name != workName && name != dirsName && !fsys.IsTemp(name):
			return ErrNotEmpty
		}
	}
	return nil
}
