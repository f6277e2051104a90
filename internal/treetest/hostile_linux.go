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

// longAgo is before every access: what is read gets a new access time.
var longAgo = time.Unix(1_000_000_000, 111_111_111)

// Trap is a tree outside of the one under attack, whose names another process exchanges.
// It should have the names of the attacked tree, so that a program that leaves that tree
// finds something.
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

// NewTrap makes the tree and notes how things are.
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

// Touched returns the accesses to the tree since then: entries that were read, listed,
// written, created, or that got other metadata. It reads nothing of the tree itself.
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

// Attack exchanges Victim for Bait before the Nth operation at which there is a
// victim, for good or for one operation.
type Attack struct {
	Victim, Bait string
	Nth          int // -1: never
	Brief        bool
	Only         string // the name of the operations that count; "" for all
	// Root: the user names Victim. The test exchanges it after the first check.
	Root bool

	Seen int    // operations at which there was a victim
	At   string // the operation before which it was exchanged

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

// Undo puts things back where they were, if both are still there.
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

// Sweep calls run for an attack at each strideth operation, and puts things back.
// root says that the user names the victim. It returns how many runs there were.
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
