package sum

import (
	"errors"

	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/mhl"
	"github.com/seed65876f4f/sealift/internal/walk"
)

// visitor makes jobs of the regular files of a tree.
type visitor struct {
	run    *run
	send   func(*job)
	given  string
	prefix string
}

// Enter implements walk.Visitor.
func (v *visitor) Enter(d *walk.Dir) bool {
	if d.Parent != nil && d.Name == mhl.Folder && mhl.HoldsHistory(d.Parent) {
		return false
	}
	if h := v.run.history; h != nil && d.Parent != nil {
		if path := d.Path(); !h.hides(path, true) {
			v.send(v.run.directory(path, d.Info.Mtime))
		}
	}
	return true // files of a hidden directory are counted and may have lines
}

// Leave implements walk.Visitor.
func (v *visitor) Leave(*walk.Dir) {}

// Entry implements walk.Visitor.
func (v *visitor) Entry(d *walk.Dir, name string, kind fsys.Kind) {
	if kind != fsys.Regular || v.hidden(d.Join(name)) {
		return
	}
	d.Hold()
	v.send(&job{name: v.prefix + d.Join(name), dir: d, base: name})
}

// hidden reports whether the run writes nothing about a file, because the history ignores
// it. It counts the ignored files.
func (v *visitor) hidden(path string) bool {
	h := v.run.history
	if h == nil || path == h.own || !h.hides(path, false) {
		return false
	}
	h.hidden.Add(1)
	return !v.run.opts.writesLines()
}

// Failed implements walk.Visitor.
func (v *visitor) Failed(d *walk.Dir, name string, err error) {
	path := d.Join(name)
	if h := v.run.history; h != nil && path != "" && !v.run.opts.writesLines() && h.hides(path, true) {
		return // the entry is only counted
	}
	v.fail(path, err)
}

func (v *visitor) fail(name string, err error) {
	if name == "" {
		name = v.given
	} else {
		name = v.prefix + name
	}
	v.send(&job{event: failed(name, failure.StageScan, err)})
}

func (v *visitor) skipReserved(d *walk.Dir, name string) {
	v.run.reserved.Do(func() {
		err := errors.New("journals, markers and temporaries of unfinished copies are not listed")
		v.send(&job{event: &Event{Warning: true, Path: v.prefix + d.Join(name), Err: err}})
	})
}
