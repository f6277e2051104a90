package shard

import (
	"bytes"
	"context"
	"errors"
	"hash/maphash"
	"io"

	"github.com/seed65876f4f/sealift/internal/extsort"
)

// Drift finds names that the source has and the plan lacks, in directories that have changed
// since the plan. If a directory has replaced another entry, or the reverse, the plan lacks it. The
// memory of Drift does not depend on the number of names. Only one goroutine may use it.
type Drift struct {
	store  *Store
	sorter *extsort.Sorter
	seed   maphash.Seed
	listed bits // of directories with a listed name; several directories may share one
}

// bits is a set of numbers.
type bits []uint64

func (b bits) set(n uint64)      { b[n/64] |= 1 << (n % 64) }
func (b bits) has(n uint64) bool { return b[n/64]&(1<<(n%64)) != 0 }

// driftBits is the number of those bits.
const driftBits = 1 << 23

// The statements about a path, in their order.
const (
	driftPlanned byte = iota
	driftListed
)

// NewDrift begins a search. The caller must Close it.
func (s *Store) NewDrift() *Drift {
	return &Drift{store: s, sorter: newSorter(s.dir, sortMemory), seed: maphash.MakeSeed(), listed: make(bits, driftBits/64)}
}

// Close frees what the search uses.
func (d *Drift) Close() { _ = d.sorter.Close() }

// Listed adds the path of a name that a directory has now, and whether it is itself a directory. For
// each directory, the caller adds either all names that belong to the copy, or none.
func (d *Drift) Listed(path string, dir bool) error {
	d.listed.set(d.bit(path))
	return d.add(path, dir, driftListed)
}

func (d *Drift) bit(path string) uint64 {
	dir, _ := splitPath(path)
	return maphash.String(d.seed, dir) % driftBits
}

// add adds a statement about a path. A directory and another entry of the same path differ: what is in
// the directory is new.
func (d *Drift) add(path string, dir bool, statement byte) error {
	kind := byte('-')
	if dir {
		kind = 'd'
	}
	return d.sorter.Add(append([]byte(path), 0, kind, statement), nil)
}

// planned adds a path of the plan, if its directory was listed.
func (d *Drift) planned(path string, dir bool) error {
	if !d.listed.has(d.bit(path)) {
		return nil
	}
	return d.add(path, dir, driftPlanned)
}

// Each calls yield for each listed path that the plan lacks. It reads the whole plan, if any path
// was listed.
func (d *Drift) Each(ctx context.Context, yield func(path string) error) error {
	if d.sorter.Empty() {
		return nil
	}
	if err := d.readPlan(ctx); err != nil {
		return err
	}
	var last []byte // the last path that the plan has, and its kind
	return d.sorter.Each(func(key, _ []byte) error {
		entry, statement := key[:len(key)-1], key[len(key)-1]
		switch {
		case statement == driftPlanned:
			last = append(last[:0], entry...)
		case !bytes.Equal(entry, last):
			return yield(string(entry[:len(entry)-2]))
		}
		return ctx.Err()
	})
}

// readPlan adds all paths of the plan.
func (d *Drift) readPlan(ctx context.Context) error {
	for _, path := range d.store.Plan.Late {
		if err := d.planned(string(path), false); err != nil {
			return err
		}
	}
	for i := range d.store.Plan.Shards {
		if err := d.readShard(ctx, i); err != nil {
			return err
		}
	}
	dirs, err := d.store.OpenDirs()
	if err != nil {
		return err
	}
	defer dirs.Close()
	for {
		dir, err := dirs.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil && dir.Path != "" {
			err = d.planned(dir.Path, true)
		}
		if err != nil {
			return err
		}
	}
}

func (d *Drift) readShard(ctx context.Context, index int) error {
	r, err := d.store.OpenShard(index)
	if err != nil {
		return err
	}
	defer r.Close()
	for ctx.Err() == nil {
		e, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = d.planned(e.Path, false)
		}
		if err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}
