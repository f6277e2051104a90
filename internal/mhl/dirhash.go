package mhl

import (
	stdhash "hash"

	"github.com/seed65876f4f/sealift/internal/extsort"
	"github.com/seed65876f4f/sealift/internal/hash"
)

// dirHasher computes the hashes of directories from the entries of a tree, each directory
// with its entries between enter and leave.
//
// The content hash of a directory is the hash of the sorted content hashes of its entries. For
// the structure hash, the name of each entry and its structure hash are hashed together; the
// structure hash of the directory is the hash of these sorted hashes. Both hashes of a file
// are the hash of its content.
type dirHasher struct {
	hashes  []hash.Algorithm
	running []stdhash.Hash // one for each hash
	pool    pool
	frames  []frame // frames of the open directories, the root first
}

// frame has the hashes of one directory's entries.
type frame struct{ content, structure []*digestList }

func newDirHasher(hashes []hash.Algorithm, newSpill func() (extsort.Spill, error)) *dirHasher {
	d := &dirHasher{hashes: hashes, pool: pool{limit: digestMemory, newSpill: newSpill}}
	for _, a := range hashes {
		d.running = append(d.running, a.New())
	}
	return d
}

func (d *dirHasher) close() error { return d.pool.close() }

// enter begins a directory in the current one. The first call begins the root.
func (d *dirHasher) enter() {
	var f frame
	for _, a := range d.hashes {
		f.content = append(f.content, d.pool.newList(a.Size()))
		f.structure = append(f.structure, d.pool.newList(a.Size()))
	}
	d.frames = append(d.frames, f)
}

// file adds a file to the current directory. digests are in the order of the hashes.
func (d *dirHasher) file(name string, digests [][]byte) error { return d.add(name, digests, digests) }

func (d *dirHasher) add(name string, content, structure [][]byte) error {
	f := d.frames[len(d.frames)-1]
	for i, h := range d.running {
		if err := f.content[i].add(content[i]); err != nil {
			return err
		}
		h.Reset()
		h.Write([]byte(name))
		h.Write(structure[i])
		if err := f.structure[i].add(h.Sum(nil)); err != nil {
			return err
		}
	}
	return nil
}

// leave ends the current directory, and adds it under its name to its parent.
func (d *dirHasher) leave(name string) (*dirDigests, error) {
	last := len(d.frames) - 1
	f := d.frames[last]
	d.frames = d.frames[:last]
	sums := &dirDigests{make([][]byte, len(d.hashes)), make([][]byte, len(d.hashes))}
	for i := len(d.hashes) - 1; i >= 0; i-- { // lists are closed in the opposite order
		h := d.running[i]
		h.Reset()
		if err := f.structure[i].close(h); err != nil {
			return nil, err
		}
		sums.structure[i] = h.Sum(nil)
		h.Reset()
		if err := f.content[i].close(h); err != nil {
			return nil, err
		}
		sums.content[i] = h.Sum(nil)
	}
	if last == 0 {
		return sums, nil
	}
	return sums, d.add(name, sums.content, sums.structure)
}
