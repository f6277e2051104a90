package treetest

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Canary is in every file of a Trap, and in no other file.
const Canary = "CANARY"

// longAgo is before every access, so reading an entry changes its access time.
var longAgo = time.Unix(1_000_000_000, 111_111_111)

// Trap is a tree outside of the attacked one. Another process exchanges their names. A Trap
// should have the names of the attacked tree, so that a program that leaves that tree finds
// entries there.
type Trap struct {
	Root  string
	nodes map[string]syscall.Stat_t
}

// CanaryFile is a file of a Trap.
func CanaryFile(size int) Node {
	return File(strings.Repeat(Canary+"\n", size/7+1)[:size], Mode(0o604), Mtime(longAgo), Xattr("user.canary", "1"))
}

// CanaryDir is a directory of a Trap.
func CanaryDir(d Dir) Node { return Directory(d, Mode(0o705), Mtime(longAgo)) }

// NewTrap creates the tree and records its state.
func NewTrap(t testing.TB, root string, tree Node) *Trap {
	t.Helper()
	Create(t, root, tree)
	tr := &Trap{Root: root, nodes: map[string]syscall.Stat_t{}}
	var paths []string
	err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		paths = append(paths, path)
		return err
	})
	for _, path := range paths { // after the walk, which reads directories
		at := unix.NsecToTimespec(longAgo.UnixNano())
		if err == nil {
			err = unix.UtimesNanoAt(unix.AT_FDCWD, path, []unix.Timespec{at, at}, unix.AT_SYMLINK_NOFOLLOW)
		}
		var st syscall.Stat_t
		if err == nil {
			err = syscall.Lstat(path, &st)
		}
		tr.nodes[path] = st
	}
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

// Touched returns the accesses to the tree since NewTrap: entries that were read, listed,
// written or created, or whose metadata changed. It reads no content of the tree.
func (tr *Trap) Touched() (list []string) {
	for _, path := range slices.Sorted(maps.Keys(tr.nodes)) {
		was, now := tr.nodes[path], syscall.Stat_t{}
		if err := syscall.Lstat(path, &now); err != nil {
			list = append(list, err.Error())
		} else if now != was {
			list = append(list, fmt.Sprintf("outside, %s was\n    %+v and is\n    %+v", path, was, now))
		}
	}
	return list
}

// Swap exchanges two names.
func Swap(t testing.TB, a, b string) {
	t.Helper()
	if err := unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE); err != nil {
		t.Fatal(a, b, err)
	}
}

// Attack exchanges Victim and Bait before the Nth operation at which Victim exists,
// permanently or for one operation.
type Attack struct {
	Victim, Bait string
	Nth          int // number of the operation; -1: never
	Brief        bool
	Only         string // name of the operations that count; "" for all
	// Root means that the user names Victim. The exchange comes after the program's first check.
	Root bool

	Seen int    // number of operations at which Victim existed
	At   string // the operation before which Victim was exchanged

	mu      sync.Mutex
	opened  bool
	named   bool
	swapped bool
}

// Before is for fsys.FS.Fault.
func (a *Attack) Before(t testing.TB, op, name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.swapped {
		if a.Brief && a.Nth >= 0 {
			a.undo(t)
			a.Nth = -1
		}
		return
	}
	if _, err := os.Lstat(a.Victim); err != nil {
		return
	}
	if a.Root && !a.named {
		a.named = op == "stat" && a.opened
		a.opened = a.opened || op == "opendir" && name == a.Victim
		return
	}
	if a.Only != "" && a.Only != name {
		return
	}
	if a.Seen == a.Nth {
		Swap(t, a.Victim, a.Bait)
		a.swapped, a.At = true, fmt.Sprintf("%s %q", op, name)
	}
	a.Seen++
}

// Undo exchanges Victim and Bait again, if both still exist.
func (a *Attack) Undo(t testing.TB) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.undo(t)
}

func (a *Attack) undo(t testing.TB) {
	if !a.swapped {
		return
	}
	a.swapped = false
	err := unix.Renameat2(unix.AT_FDCWD, a.Victim, unix.AT_FDCWD, a.Bait, unix.RENAME_EXCHANGE)
	if errors.Is(err, unix.ENOENT) {
		if err = os.RemoveAll(a.Victim); err == nil {
			err = os.Rename(a.Bait, a.Victim)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Sweep calls run for an attack at each strideth operation, and undoes each attack. root means
// that the user names the victim. It returns the number of runs.
func Sweep(t testing.TB, victim, bait string, root bool, offset, stride int, run func(*Attack)) (runs int) {
	t.Helper()
	once := func(nth int, brief bool) int {
		a := &Attack{Victim: victim, Bait: bait, Root: root, Nth: nth, Brief: brief}
		run(a)
		a.Undo(t)
		runs++
		return a.Seen
	}
	count := once(-1, false)
	for nth := offset % stride; nth < count; nth += stride {
		once(nth, nth/stride%2 == 0)
	}
	return runs
}
