package dest

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

// SyncList lists the files and directories that a run has to sync at a destination when it ends, as
// long as there are few.
type SyncList struct {
	mu struct {
		sync.Mutex
		files, dirs []string // paths relative to the destination's root
		many        bool     // true for more than fewEntries, or an entry that cannot be synced separately; no list then
	}
}

// AddFile records a regular file that is to be synced.
func (l *SyncList) AddFile(path string) { l.add(&l.mu.files, path) }

// AddDir records a directory that is to be synced.
func (l *SyncList) AddDir(path string) { l.add(&l.mu.dirs, path) }

func (l *SyncList) add(list *[]string, path string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.mu.files)+len(l.mu.dirs) >= fewEntries {
		l.mu.many = true
	}
	if l.mu.many {
		l.mu.files, l.mu.dirs = nil, nil
		return
	}
	*list = append(*list, path)
}

// AddOther records an entry that cannot be synced separately: a symbolic link, a special file,
// or a further hard link.
func (l *SyncList) AddOther() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.many = true
}

// sync makes the files and directories durable if they are few. If it returns false without an
// error, the caller must flush the file system instead.
func (l *SyncList) sync(root *fsys.Dir) (done bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.many {
		return false, nil
	}
	find := fsys.NewFinder(root, fsys.FinderLimit())
	defer find.Close()
	// Start writeback of all files before the first sync, which then commits one transaction
	// of the file system for all of them.
	for _, step := range []func(*fsys.File) error{startWriteback, (*fsys.File).Sync} {
		for _, path := range l.mu.files {
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
	slices.SortFunc(l.mu.dirs, func(a, b string) int { return strings.Compare(b, a) }) // children first
	for _, path := range l.mu.dirs {
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
