package mhl

import (
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/seed65876f4f/sealift/internal/extsort"
	"github.com/seed65876f4f/sealift/internal/hash"
)

// Record is the information of a tree's histories about one path.
type Record struct {
	Path  string // path relative to the tree
	IsDir bool
	Depth int     // number of directories between the tree and the history that lists it
	Known []Known // the first usable hash of each algorithm of a file, the oldest first
}

// Known is a hash that a file should have.
type Known struct {
	Algorithm hash.Algorithm
	Sum       []byte
}

// Find returns the hash of an algorithm, nil if there is none.
func (r *Record) Find(a hash.Algorithm) []byte {
	for _, k := range r.Known {
		if k.Algorithm == a {
			return k.Sum
		}
	}
	return nil
}

// records collects the entries of all generations, and sorts them by path. For sorting, the
// paths of directories end in a slash, so that a directory comes immediately before the
// entries below it.
//
// They are the keys of a sorter: the path, a separator that no XML document can contain, and
// fields of fixed length. The fields sort the deepest history first, and in it the oldest
// generation:
//
//	depth (6 digits, counted down) generation (6) position (2) action (1) algorithm (1) hash
type records struct {
	sorter *extsort.Sorter
}

const (
	separator  = "\x01"
	maxDepth   = 999_999
	sortedPart = 6 + 6 + 2 + 1 + 1
)

func newRecords(newSpill func() (extsort.Spill, error)) *records {
	return &records{extsort.New(newSpill, 8<<20)}
}

func (r *records) close() error { return r.sorter.Close() }

// add adds the entry of one generation about a path.
func (r *records) add(path string, l Listed, depth, generation int) error {
	prefix := path
	if l.IsDir {
		prefix += "/"
	}
	prefix += separator + fmt.Sprintf("%06d%06d", maxDepth-depth, generation)
	if l.IsDir {
		return r.sorter.Add([]byte(prefix), nil)
	}
	for i, d := range l.Digests {
		failed := "-"
		if d.Action == Failed {
			failed = "f"
		}
		algorithm := strconv.Itoa(slices.Index(algorithms, d.Algorithm))
		key := prefix + fmt.Sprintf("%02d", min(i, 99)) + failed + algorithm + hex.EncodeToString(d.Sum)
		if err := r.sorter.Add([]byte(key), nil); err != nil {
			return err
		}
	}
	return nil
}

// each calls yield for the records, sorted by path, directories as if they ended in a
// slash. The record is valid during the call. The error is that of yield or of the spill, or a
// *ChainError if one generation lists a file twice, with different hashes of one kind.
func (r *records) each(yield func(*Record) error) error {
	var (
		current Record
		path    string // path of current in the form in which it is sorted
		any     bool
		seen    = map[hash.Algorithm]string{} // the generation of each hash in current.Known
	)
	flush := func() error {
		if !any {
			return nil
		}
		return yield(&current)
	}
	err := r.sorter.EachLast(func(key, _ []byte) error {
		text := string(key)
		cut := strings.LastIndex(text, separator)
		name, fields := text[:cut], text[cut+len(separator):]
		below, err := strconv.Atoi(fields[:6])
		if err != nil {
			return err
		}
		depth := maxDepth - below
		if !any || name != path {
			if err := flush(); err != nil {
				return err
			}
			clear(seen)
			stem, isDir := strings.CutSuffix(name, "/")
			path, any = name, true
			current = Record{Path: stem, IsDir: isDir, Depth: depth, Known: current.Known[:0]}
		}
		if current.IsDir || depth != current.Depth || fields[14] == 'f' { // the closest history counts
			return nil
		}
		a := algorithms[fields[15]-'0']
		sum, err := hex.DecodeString(fields[sortedPart:])
		if err != nil {
			return err
		}
		generation := fields[6:12]
		if known := current.Find(a); known != nil {
			if seen[a] == generation && string(known) != string(sum) {
				return &ChainError{current.Path, errors.New("one generation lists it twice, with different hashes")}
			}
			return nil
		}
		seen[a] = generation
		current.Known = append(current.Known, Known{a, sum})
		return nil
	})
	if err != nil {
		return err
	}
	return flush()
}
