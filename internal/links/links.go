// Package links collects the names of files that have several names, and returns them file by file.
//
// A walk meets the names of one file in any order. A copy that decided about each name as it meets it
// would depend on that order. So the walk only adds the names here, and the copy follows the walk. Names
// that exceed a limit of memory are in a temporary file. See docs/adr/0003.
package links

import (
	"encoding/binary"
	"errors"
	"strings"
	"sync"

	"github.com/seed65876f4f/sealift/internal/extsort"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/walk"
)

// DefaultMemory is the usual limit of the names in memory, in bytes. It is enough for about 100,000
// names.
const DefaultMemory = 8 << 20

// File has all names of one file that were added, in path order. Each holds its directory.
type File struct {
	ID    fsys.ID
	Names []walk.Item
}

// Names collects names. Several goroutines may call Add.
type Names struct {
	mu     sync.Mutex
	sorter *extsort.Sorter // key: device, inode, path; value: the kind, and the indices of directory and note
	dirs   []heldDir
	number map[*walk.Dir]uint64 // indices in dirs
	notes  []any                // notes that are not nil

	key, value []byte // key and value of the name that is being added
}

// heldDir is a directory of the source, and how many names hold it.
type heldDir struct {
	dir   *walk.Dir
	names int
}

// New returns an empty Names. It calls spill when the names exceed memory, in bytes.
func New(spill func() (extsort.Spill, error), memory int) *Names {
	return &Names{sorter: extsort.New(spill, memory), number: map[*walk.Dir]uint64{}}
}

// idLength is the length of the device and the inode in a key, in bytes.
const idLength = 16

// Add adds a name of the file id, and holds its directory. An error means that the name cannot be
// stored.
func (l *Names) Add(id fsys.ID, path string, n walk.Item) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	at, known := l.number[n.Dir]
	if !known {
		at = uint64(len(l.dirs))
		l.dirs = append(l.dirs, heldDir{dir: n.Dir})
		l.number[n.Dir] = at
	}
	l.key = binary.BigEndian.AppendUint64(l.key[:0], id.Dev)
	l.key = binary.BigEndian.AppendUint64(l.key, id.Ino)
	l.key = append(l.key, path...)
	l.value = binary.AppendUvarint(append(l.value[:0], byte(n.Kind)), at)
	if n.Note != nil {
		l.value = binary.AppendUvarint(l.value, uint64(len(l.notes)))
	}
	if err := l.sorter.Add(l.key, l.value); err != nil {
		return err
	}
	if n.Note != nil {
		l.notes = append(l.notes, n.Note)
	}
	l.dirs[at].names++
	n.Dir.Hold()
	return nil
}

// Empty reports whether no name was added.
func (l *Names) Empty() bool { return l.sorter.Empty() }

// Each calls yield with each file. yield takes over the holds of the directories.
func (l *Names) Each(yield func(File) error) error {
	var f File
	flush := func() error {
		if len(f.Names) == 0 {
			return nil
		}
		for _, n := range f.Names {
			l.dirs[l.number[n.Dir]].names--
		}
		return yield(f)
	}
	err := l.sorter.Each(func(key, value []byte) error {
		id := fsys.ID{Dev: binary.BigEndian.Uint64(key), Ino: binary.BigEndian.Uint64(key[8:])}
		if id != f.ID {
			if err := flush(); err != nil {
				return err
			}
			f = File{ID: id}
		}
		n, err := l.name(string(key[idLength:]), value)
		f.Names = append(f.Names, n)
		return err
	})
	if err == nil {
		err = flush()
	}
	return err
}

func (l *Names) name(path string, value []byte) (walk.Item, error) {
	at, size := binary.Uvarint(value[1:])
	if size <= 0 || at >= uint64(len(l.dirs)) { // another process has changed the file
		return walk.Item{}, errors.New("the temporary file with the names of hard links was changed")
	}
	n := walk.Item{Dir: l.dirs[at].dir, Name: path[strings.LastIndexByte(path, '/')+1:], Kind: fsys.Kind(value[0])}
	if rest := value[1+size:]; len(rest) > 0 {
		if at, _ := binary.Uvarint(rest); at < uint64(len(l.notes)) {
			n.Note = l.notes[at]
		}
	}
	return n, nil
}

// Close releases the directories of all names that Each has not yielded, and returns their number.
func (l *Names) Close() (left int) {
	_ = l.sorter.Close() // a temporary that is not needed any more
	for _, held := range l.dirs {
		left += held.names
		for range held.names {
			held.dir.Done()
		}
	}
	l.dirs, l.number, l.notes = nil, nil, nil
	return left
}
