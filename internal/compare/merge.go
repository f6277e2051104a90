package compare

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"slices"
	"sort"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/filter"
	"github.com/seed65876f4f/sealift/internal/fsys"
)

// folder is a directory in several trees. It lives until no job uses it.
type folder struct {
	parent  *folder // nil for the roots
	name    string
	trees   []int          // the trees in which it is compared, ascending
	handles []*fsys.Handle // handle in each tree; nil if the directory could not be opened, or is not compared
	verdict filter.Verdict
	only    *filter.Node // names in the directory that --files-from selects
	group   *group       // nil if all trees of its parent have it
	pending atomic.Int64
}

// group is a directory that some trees lack. If only is true, nothing in it is compared,
// because A lacks it or no other tree has it. Then its entries are counted.
type group struct {
	event   Event
	only    bool
	implied bool  // true if only selected entries in the directory are compared
	typed   bool  // true if it was reported as an entry of another type, so only entries in it count
	entries int64 // number of entries in it, without those that are implied
}

func (d *folder) join(name string) string {
	names := []string{name}
	for ; d.parent != nil; d = d.parent {
		names = append(names, d.name)
	}
	slices.Reverse(names)
	return strings.Join(names, "/")
}

// path returns the path with a slash at the end; "" for the roots.
func (d *folder) path() string { return d.join("") }

func (d *folder) hold() { d.pending.Add(1) }

// done releases one hold. The last one closes the directory.
func (d *folder) done() {
	for d != nil && d.pending.Add(-1) == 0 {
		for _, h := range d.handles {
			if h != nil {
				h.Close()
			}
		}
		d = d.parent
	}
}

// counts reports whether entries of the directory are counted instead of compared.
func (d *folder) counts() bool { return d.group != nil && d.group.only }

// merge lists all trees, directory by directory in path order, and makes a job of each
// name. One goroutine calls its methods.
type merge struct {
	run    *run
	ctx    context.Context //nolint:containedctx // a merge lives as long as the run
	send   func(*job)
	number int64 // number of the next job

	leftOut, own int64 // numbers for Summary
}

// add sends a job in the directory d to the workers.
func (m *merge) add(d *folder, j *job) {
	if m.ctx.Err() != nil {
		return
	}
	d.hold()
	j.dir, j.number = d, m.number
	m.number++
	m.send(j)
}

func (m *merge) fail(d *folder, tree int, path string, stage failure.Stage, err error) {
	j := &job{}
	j.fail(tree, path, stage, err)
	m.add(d, j)
}

// roots merges the trees.
func (m *merge) roots() {
	r := m.run
	d := &folder{handles: make([]*fsys.Handle, len(r.trees)), verdict: r.opts.Filter.Root(), only: r.opts.Only.Root()}
	d.pending.Store(1)
	for i := range r.trees {
		d.trees = append(d.trees, i)
	}
	m.folder(d, func(i int) (*fsys.Handle, error) {
		root, err := r.trees[i].root.OpenDir(".")
		if err != nil {
			return nil, err
		}
		return r.trees[i].handles.Root(root), nil
	})
	d.done()
}

// folder opens and lists a directory in all its trees at the same time, and merges the
// listings. If a tree fails, it is reported and skipped.
func (m *merge) folder(d *folder, open func(tree int) (*fsys.Handle, error)) {
	lists := make([]*fsys.Listing, len(d.handles))
	errs := make([]error, len(d.handles))
	notes := make([]notes, len(d.handles))
	var all sync.WaitGroup
	for _, i := range d.trees {
		all.Go(func() {
			if d.handles[i], errs[i] = open(i); errs[i] == nil {
				lists[i], errs[i] = m.list(d, i, &notes[i])
			}
		})
	}
	all.Wait()
	wanted := d.trees
	d.trees = nil
	for _, i := range wanted {
		if errs[i] != nil {
			if !errors.Is(errs[i], errOtherFileSystem) {
				m.fail(d, i, d.path(), failure.StageScan, errs[i])
				continue
			}
			if i == 0 {
				m.leftOut++
			}
			return
		}
		d.trees = append(d.trees, i)
	}
	if len(d.trees) == 0 || !d.counts() && (d.trees[0] != 0 || len(d.trees) == 1) {
		return // nothing is left to compare
	}
	for _, i := range d.trees {
		for _, f := range notes[i].failed {
			m.fail(d, i, d.join(f.name), failure.StageScan, f.err)
		}
	}
	if d.trees[0] == 0 {
		m.leftOut += notes[0].leftOut
	}
	m.names(d, lists)
}

// notes are the findings of listing a directory in one tree, besides its names.
type notes struct {
	leftOut int64
	failed  []failedName
}

type failedName struct {
	name string
	err  error
}

// list reads the names that the filters select, in the order of full paths.
func (m *merge) list(d *folder, tree int, n *notes) (*fsys.Listing, error) {
	dir, err := d.handles[tree].Acquire()
	if err != nil {
		return nil, err
	}
	defer d.handles[tree].Release()
	listing, err := dir.List()
	if err != nil {
		return nil, err
	}
	listing.Retain(func(name string, kind fsys.Kind) (fsys.Kind, bool) {
		if kind == fsys.Unknown {
			info, err := dir.Lstat(name)
			if err != nil {
				n.failed = append(n.failed, failedName{name, err})
				return kind, false
			}
			kind = info.Kind
		}
		if m.verdictOf(d, name, kind).LeftOut() {
			n.leftOut++
			return kind, false
		}
		return kind, true
	})
	listing.SortForManifest()
	return listing, nil
}

// verdictOf returns the verdict of the filters and the list of paths for an entry.
func (m *merge) verdictOf(d *folder, name string, kind fsys.Kind) filter.Verdict {
	if !d.only.All() {
		switch node := d.only.Child(name); {
		case node == nil, !node.All() && kind != fsys.Directory:
			return filter.Verdict{}
		}
	}
	path := name
	if m.run.opts.Filter.NeedsPaths() {
		path = d.join(name)
	}
	return m.run.opts.Filter.Match(path, kind == fsys.Directory, d.verdict)
}

// names merges the listings of a directory and makes a job of each name.
func (m *merge) names(d *folder, lists []*fsys.Listing) {
	at := make([]int, len(lists))
	missing := map[string]bool{} // the names that --files-from lists
	if !d.only.All() && !d.counts() {
		for _, name := range d.only.Names() {
			missing[name] = true
		}
	}
	for m.ctx.Err() == nil {
		name, isDir, more := least(d, lists, at)
		if !more {
			break
		}
		delete(missing, name)
		kinds := make([]fsys.Kind, len(lists))
		for _, i := range d.trees {
			if l := lists[i]; at[i] < l.Len() && l.Name(at[i]) == name && (l.Kind(at[i]) == fsys.Directory) == isDir {
				kinds[i] = l.Kind(at[i])
				at[i]++
			} else {
				kinds[i] = kindOf(l, name, !isDir)
			}
		}
		m.entry(d, name, isDir, kinds)
	}
	for _, name := range slices.Sorted(maps.Keys(missing)) {
		m.fail(d, 0, d.join(name), failure.StageScan, fs.ErrNotExist)
	}
}

// least returns the first remaining entry of all listings, in the order of full paths.
func least(d *folder, lists []*fsys.Listing, at []int) (name string, isDir, more bool) {
	for _, i := range d.trees {
		l := lists[i]
		if at[i] == l.Len() {
			continue
		}
		n, dir := l.Name(at[i]), l.Kind(at[i]) == fsys.Directory
		if !more || fsys.CompareForManifest(n, dir, name, isDir) < 0 {
			name, isDir, more = n, dir, true
		}
	}
	return name, isDir, more
}

// kindOf finds a directory, or any other type, in a sorted listing. It returns Unknown if
// the name is not listed.
func kindOf(l *fsys.Listing, name string, isDir bool) fsys.Kind {
	i := sort.Search(l.Len(), func(i int) bool {
		return fsys.CompareForManifest(l.Name(i), l.Kind(i) == fsys.Directory, name, isDir) >= 0
	})
	if i < l.Len() && l.Name(i) == name && (l.Kind(i) == fsys.Directory) == isDir {
		return l.Kind(i)
	}
	return fsys.Unknown
}

// entry makes the job of one name and merges the directory of that name. kinds has the type
// in each tree. If the name is a directory in only some trees, it occurs twice: with its
// type in A, where the difference is reported, and with the other type.
func (m *merge) entry(d *folder, name string, isDir bool, kinds []fsys.Kind) {
	r := m.run
	if m.withoutReserved(d, name, kinds) {
		m.own++
		return
	}
	inA := kinds[0] != fsys.Unknown
	// The trees that lack the directory have another type, which is reported.
	typed := inA && (kinds[0] != fsys.Directory || !slices.ContainsFunc(d.trees, func(i int) bool { return kinds[i] == fsys.Unknown }))
	if inA && isDir != (kinds[0] == fsys.Directory) {
		if !isDir {
			return // the event of the directory in A covers the entry
		}
		inA = false // A does not have its content
		for i, k := range kinds {
			if k != fsys.Directory {
				kinds[i] = fsys.Unknown
			}
		}
	}
	implied := isDir && (!m.verdictOf(d, name, fsys.Directory).Selected || !d.only.Child(name).All())
	if d.counts() {
		if !implied {
			m.add(d, &job{name: strings.Clone(name), kinds: kinds})
		}
		if isDir {
			m.descend(d, name, kinds, d.group)
		}
		return
	}
	if !inA {
		if r.opts.OneWay {
			return
		}
		if isDir && withoutHistories(d, name, kinds) {
			m.own++
			return
		}
	}
	j := &job{name: strings.Clone(name), kinds: kinds}
	if !isDir {
		m.add(d, j)
		return
	}
	var have []int
	for _, i := range d.trees {
		if kinds[i] == fsys.Directory {
			have = append(have, i)
		}
	}
	if len(have) == len(d.trees) {
		if !implied {
			m.add(d, j)
		}
		m.descend(d, name, kinds, nil)
		return
	}
	j.group = &group{
		event: Event{Verdict: OnlyIn, Path: d.join(name) + "/", Trees: have, Whole: true},
		only:  !inA || len(have) == 1,
	}
	j.group.implied = implied && j.group.only
	j.group.typed = typed && j.group.only
	m.add(d, j)
	m.descend(d, name, kinds, j.group)
	if j.group.only {
		m.add(d, &job{name: j.name, kinds: kinds, ends: j.group})
	}
}

// descend merges the directory name of those trees in which it is a directory.
func (m *merge) descend(parent *folder, name string, kinds []fsys.Kind, g *group) {
	d := &folder{parent: parent, name: strings.Clone(name), handles: make([]*fsys.Handle, len(kinds)), group: g}
	d.pending.Store(1)
	parent.hold()
	defer d.done()
	for _, i := range parent.trees {
		if kinds[i] == fsys.Directory {
			d.trees = append(d.trees, i)
		}
	}
	d.verdict, d.only = m.verdictOf(parent, name, fsys.Directory), parent.only.Child(name)
	first := d.trees[0]
	m.folder(d, func(i int) (*fsys.Handle, error) {
		up, err := parent.handles[i].Acquire()
		if err != nil {
			return nil, err
		}
		defer parent.handles[i].Release()
		dir, err := up.OpenDir(name)
		if err != nil {
			return nil, err
		}
		info, err := dir.Stat()
		if err == nil && i == first && m.run.opts.OneFileSystem && info.ID.Dev != m.run.trees[i].info.ID.Dev {
			err = errOtherFileSystem
		}
		if err != nil {
			dir.Close()
			return nil, err
		}
		h := parent.handles[i].Child(name, dir, info.ID)
		h.Release()
		return h, nil
	})
}

// errOtherFileSystem means that the first tree has another file system mounted there.
var errOtherFileSystem = errors.New("it is on another file system")
