package mhl

import (
	"errors"
	"fmt"
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
	hashes   []hash.Algorithm
	running  []stdhash.Hash // one for each hash
	newSpill func() (extsort.Spill, error)
	open     []*extsort.Sorter // records of the open directories, the root first; see put
}

// dirMemory is the memory, in bytes, for the records of one open directory. It is enough for about
// 30,000 entries and one hash. More records are sorted in a temporary file.
const dirMemory = 1 << 20

func newDirHasher(hashes []hash.Algorithm, newSpill func() (extsort.Spill, error)) *dirHasher {
	d := &dirHasher{hashes: hashes, newSpill: newSpill}
	for _, a := range hashes {
		d.running = append(d.running, a.New())
	}
	return d
}

// close removes the temporary files of directories that are still open, after an error.
func (d *dirHasher) close() (err error) {
	for _, s := range d.open {
		err = errors.Join(err, s.Close())
	}
	return err
}

// enter begins a directory in the current one. The first call begins the root.
func (d *dirHasher) enter() { d.open = append(d.open, extsort.New(d.newSpill, dirMemory)) }

// file adds a file to the current directory. digests are in the order of the hashes.
func (d *dirHasher) file(name string, digests [][]byte) error { return d.add(name, digests, digests) }

func (d *dirHasher) add(name string, content, structure [][]byte) error {
	for i, h := range d.running {
		if err := d.put(2*i, content[i]); err != nil {
			return err
		}
		h.Reset()
		h.Write([]byte(name))
		h.Write(structure[i])
		if err := d.put(2*i+1, h.Sum(nil)); err != nil {
			return err
		}
	}
	return nil
}

// put adds a record to the current directory: a slot in one byte, and a digest. Each hash has two slots,
// for the contents of the entries and then for their structure.
func (d *dirHasher) put(slot int, digest []byte) error {
	return aboutDirectories(d.open[len(d.open)-1].Add(append([]byte{byte(slot)}, digest...), nil))
}

// leave ends the current directory, and adds it under its name to its parent.
func (d *dirHasher) leave(name string) (*dirDigests, error) {
	last := len(d.open) - 1
	records := d.open[last]
	d.open = d.open[:last]
	sums := &dirDigests{make([][]byte, len(d.hashes)), make([][]byte, len(d.hashes))}
	for _, h := range d.running {
		h.Reset()
	}
	slot := 0 // slot of the record that comes next
	endBefore := func(next int) {
		for ; slot < next; slot++ {
			h := d.running[slot/2]
			[...][][]byte{sums.content, sums.structure}[slot%2][slot/2] = h.Sum(nil)
			h.Reset()
		}
	}
	err := records.Each(func(key, _ []byte) error {
		endBefore(int(key[0]))
		d.running[slot/2].Write(key[1:])
		return nil
	})
	endBefore(2 * len(d.hashes))
	if err := aboutDirectories(errors.Join(err, records.Close())); err != nil {
		return nil, err
	}
	if last == 0 {
		return sums, nil
	}
	return sums, d.add(name, sums.content, sums.structure)
}

// aboutDirectories adds to an error of a temporary file what is kept in it.
func aboutDirectories(err error) error {
	if err != nil {
		err = fmt.Errorf("hashes of directories: %w", err)
	}
	return err
}
