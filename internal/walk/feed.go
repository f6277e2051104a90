package walk

import (
	"context"
	"errors"
	"io"
	"strings"

	"github.com/seed65876f4f/sealift/internal/fsys"
)

// Step is what Feed visits next: a directory, or an entry of one that is not a directory.
type Step struct {
	Dir  string // path of the directory, relative to the root; "" for the root itself
	Name string // name of the entry in Dir; "" for the directory
	Kind fsys.Kind
	Note any // Dir.Note of a directory, or Item.Note of an entry
}

// Feed is a Walk over given steps. It lists no directory. next returns the steps, and io.EOF
// after the last one. Feed calls entry instead of Visitor.Entry. It opens directories name by
// name, and follows no link. It enters a directory when a step is about it or below it, and leaves
// it when a step is not. If a later step is in it again, Feed enters it again; so steps that keep
// subtrees together enter each directory once. If a directory cannot be opened, Feed calls Failed
// for it and skips all steps below it.
//
// Feed works in the calling goroutine, holds root until all steps were visited, and returns
// the error of next. When ctx ends, it stops early.
func Feed(ctx context.Context, root *Dir, next func() (Step, error), entry func(Item)) error {
	f := &feed{way: []*fedDir{{dir: root, entered: root.visitor.Enter(root)}}}
	defer f.leave(0)
	for ctx.Err() == nil {
		step, err := next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if step.Name == "" {
			f.goTo(step.Dir, step.Note)
			continue
		}
		if at := f.goTo(step.Dir, nil); at.entered {
			entry(Item{Dir: at.dir, Name: step.Name, Kind: step.Kind, Note: step.Note})
		}
	}
	return nil
}

// feed is one execution of Feed.
type feed struct {
	path string    // path of the directory at the end of way
	way  []*fedDir // directories from the root down
}

// fedDir is a directory on the way down to the current one.
type fedDir struct {
	name    string
	dir     *Dir // directory of the tree; nil if it was not opened
	entered bool // false if steps below it are skipped
}

// goTo enters the directories on the way to path. A note that is not nil belongs to the last
// of them. If that directory was entered without a note, goTo leaves and enters it again.
func (f *feed) goTo(path string, note any) *fedDir {
	if path == f.path && (note == nil || path == "") { // the root was entered first, without a note
		return f.way[len(f.way)-1]
	}
	var names []string
	if path != "" {
		names = strings.Split(path, "/")
	}
	depth := f.common(names)
	if note != nil { // leave the directory itself, too, to enter it with the note
		depth = min(depth, max(len(names)-1, 0))
	}
	f.leave(depth + 1)
	for i := depth; i < len(names); i++ {
		var own any
		if i == len(names)-1 {
			own = note
		}
		f.way = append(f.way, f.way[i].enter(names[i], own))
	}
	f.path = path
	return f.way[len(f.way)-1]
}

// common returns how many directories below the root the current way has in common with names.
func (f *feed) common(names []string) int {
	n := 0
	for n < len(names) && n+1 < len(f.way) && f.way[n+1].name == names[n] {
		n++
	}
	return n
}

// enter opens and enters a subdirectory.
func (up *fedDir) enter(name string, note any) *fedDir {
	if !up.entered {
		return &fedDir{name: name}
	}
	d, err := openChild(up.dir, name)
	if err != nil {
		up.dir.visitor.Failed(up.dir, name, err)
		return &fedDir{name: name}
	}
	d.Note = note
	entered := d.visitor.Enter(d)
	d.handle.Release()
	return &fedDir{name: name, dir: d, entered: entered}
}

// leave leaves all directories from this depth on, the deepest first.
func (f *feed) leave(depth int) {
	for len(f.way) > depth {
		last := f.way[len(f.way)-1]
		f.way = f.way[:len(f.way)-1]
		if last.dir != nil {
			last.dir.Done()
		}
	}
}
