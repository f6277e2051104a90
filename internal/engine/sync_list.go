package engine

import (
	"slices"
	"strings"
	"sync"

	"github.com/seed65876f4f/sealift/internal/fsys"
)

// fewEntries is the largest number of files and directories that are synced separately at the
// end of a run. For more of them a flush of the file system is faster, although it also waits
// for the data of other programs. The measurement is in docs/benchmarks.md.
const fewEntries = 16

// syncList lists the files and directories that a run has to sync at a destination when it ends, as
// long as there are few.
type syncList struct {
	mu struct {
		sync.Mutex
		files, dirs []string // relative to the destination's root
		many        bool     // more than fewEntries, or an entry that cannot be synced separately; the lists are empty
	}
}

func (d *syncList) addFile(path string) { d.add(&d.mu.files, path) }
func (d *syncList) addDir(path string)  { d.add(&d.mu.dirs, path) }

func (d *syncList) add(list *[]string, path string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.mu.files)+len(d.mu.dirs) >= fewEntries {
		d.mu.many = true
	}
	if d.mu.many {
		d.mu.files, d.mu.dirs = nil, nil
		return
	}
	*list = append(*list, path)
}

// addOther records an entry that cannot be synced separately: a symbolic link, a special file,
// or a further hard link.
func (d *syncList) addOther() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mu.many = true
}

// addResult records the outcome of an entry other than a directory.
func (d *syncList) addResult(kind fsys.Kind, t targetResult) {
	switch {
	case t.done == outNothing || t.done == outConflict || t.done == outOwn || kind == fsys.Directory:
	case kind == fsys.Regular && t.done != outLinked && t.done != outLeft:
		d.addFile(t.name)
	default:
		d.addOther()
	}
}

// sync makes the files and directories durable if they are few. If it returns false without an
// error, the caller must flush the file system instead.
func (d *syncList) sync(root *fsys.Dir) (done bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.mu.many {
		return false, nil
	}
	find := newFinder(root)
	defer find.Close()
	// Start writeback of all files before the first sync, which then commits one transaction
	// of the file system for all of them.
	for _, step := range []func(*fsys.File) error{startWriteback, (*fsys.File).Sync} {
		for _, path := range d.mu.files {
			f, _, err := find.Open(path)
			if err != nil {
				return false, nil // the mode denies access, or another process has removed the file
			}
			err = step(f)
			f.Close()
			if err != nil {
				return true, err
			}
		}
	}
	slices.SortFunc(d.mu.dirs, func(a, b string) int { return strings.Compare(b, a) }) // children first
	for _, path := range d.mu.dirs {
		dir, _, err := find.Parent(strings.TrimPrefix(path+"/entry", "/"))
		if err != nil {
			return false, nil
		}
		if err := dir.Sync(); err != nil {
			return true, err
		}
	}
	return true, nil
}

// startWriteback asks the kernel to write a file's data. It ignores errors, because Sync
// returns them, too.
func startWriteback(f *fsys.File) error {
	_ = f.StartWriteback(0, 0)
	return nil
}
