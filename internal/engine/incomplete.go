package engine

import (
	"bufio"
	"cmp"
	"container/heap"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/incomplete"
	"github.com/seed65876f4f/sealift/internal/quote"
)

// undone collects what a tree copy leaves undone, for the markers that it writes into
// its destinations (package incomplete has their form). The collector alone adds to
// it. A nil *undone collects nothing: of a dry run or a single file.
type undone struct {
	source  string // absolute, without symbolic links
	filters string // as in incomplete.Head
	cut     bool   // the copy ended before it had tried every file
	targets []*undoneAt
}

// maxGaps is how many paths a marker lists. maxGapPath and maxGapCause bound each of
// them, in bytes, so that all need less than 50 MB for each destination, whatever the
// source holds.
const (
	maxGaps     = 10_000
	maxGapPath  = 4 << 10
	maxGapCause = 500
	maxRemarks  = 100
)

// undoneAt is what is undone at one destination. Of more than maxGaps paths it keeps
// those that come first in the order of bytes, so that equal runs list the same.
type undoneAt struct {
	given   string
	remarks []string // about the destination or the source, and not about a path
	heap    gapHeap
	kept    map[string]bool // the paths in heap
	paths   int64           // kept or not
	notes   int64           // everything that was added
	marked  int64           // notes when the marker was written or removed; -1 before
}

type gap struct{ path, cause string }

// gapHeap has the path on top that comes last.
type gapHeap []gap

func (h gapHeap) Len() int           { return len(h) }
func (h gapHeap) Less(i, j int) bool { return h[i].path > h[j].path }
func (h gapHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *gapHeap) Push(x any)        { *h = append(*h, x.(gap)) }
func (h *gapHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

func newUndone(o *Options, rt *route) *undone {
	source, err := rt.logSource()
	if o.DryRun || rt.name != "" || err != nil { // without its path, openLedger drops every destination
		return nil
	}
	g := &undone{source: source, filters: incomplete.NoFilters}
	if o.part() {
		g.filters = fmt.Sprintf("%x,%x,%t", o.Filter.Fingerprint(), o.Only.Fingerprint(), o.OneFileSystem)
	}
	for _, d := range rt.targets {
		g.targets = append(g.targets, &undoneAt{given: d.given, kept: map[string]bool{}, marked: -1})
	}
	return g
}

// end notes that all entries were taken. If the copy was cut short, some were not.
func (g *undone) end(cut bool) {
	if g != nil {
		g.cut = cut
	}
}

// event adds what an event says to be undone: at its destination, or at all of them if
// it is about the source.
func (g *undone) event(e Event) {
	if g == nil {
		return
	}
	var cause string
	switch e.Kind {
	case EventFailed, EventMismatch:
		cause = e.Err.Error()
		var f *failure.FileError
		if errors.As(e.Err, &f) {
			cause = string(f.Stage) + ": " + f.Err.Error()
		}
	case EventTargetLost:
		cause = "dropped: " + e.Err.Error()
		if e.Path != "" {
			cause = "dropped at " + quoteName(e.Path) + ": " + e.Err.Error()
		}
	default:
		return
	}
	for _, t := range g.targets {
		switch {
		case e.Target != "" && e.Target != t.given:
		case e.Kind == EventTargetLost || e.Path == "" && e.Target != "":
			t.remark("this directory: " + cause)
		case e.Path == "":
			t.remark("the source's directory: " + cause)
		default:
			t.add(e.Path, cause)
		}
	}
}

// account adds an entry that is not known to have arrived at a destination which was
// dropped. Other destinations have an event for each entry that failed.
func (g *undone) account(targets []*target, f *fate) {
	if g == nil {
		return
	}
	for i, t := range targets {
		arrived := func(tf targetFate) bool { return tf.target == t && tf.done != outNothing }
		if t.isLost() && !slices.ContainsFunc(f.targets, arrived) {
			g.targets[i].add(f.path, "not copied: the destination was dropped")
		}
	}
}

func (t *undoneAt) remark(text string) {
	t.notes++
	if text = cut(text, maxGapCause); len(t.remarks) < maxRemarks && !slices.Contains(t.remarks, text) {
		t.remarks = append(t.remarks, text)
	}
}

// add notes a path. The first cause of a path is the one that is kept.
func (t *undoneAt) add(path, cause string) {
	t.notes++
	path = cut(path, maxGapPath)
	if t.kept[path] {
		return
	}
	t.paths++
	if len(t.heap) == maxGaps {
		if path >= t.heap[0].path {
			return
		}
		delete(t.kept, heap.Pop(&t.heap).(gap).path)
	}
	t.kept[path] = true
	heap.Push(&t.heap, gap{strings.Clone(path), cut(cause, maxGapCause)})
}

func cut(s string, size int) string {
	if len(s) <= size {
		return s
	}
	return s[:size] + "..."
}

// write writes a marker.
func (g *undone) write(t *undoneAt, w io.Writer) error {
	b := bufio.NewWriter(w)
	head := incomplete.Head{
		Source: quoteName(g.source), Filters: g.filters,
		Date: time.Now().UTC().Format(time.RFC3339), Missing: t.paths,
	}
	fmt.Fprintf(b, "%sThe copy of this source into this directory ended with failures. The paths below are\n"+
		"missing here, or they are not what the source holds. A directory in the list stands\n"+
		"for everything in it that is not here.\n\n"+
		"To complete the copy, run the same command again. It copies what is missing, and it\n"+
		"removes this file when the copy is complete.\n\n", head)
	if g.cut {
		fmt.Fprint(b, "The copy ended before it had tried every file, so more paths may be missing.\n\n")
	}
	for _, text := range t.remarks {
		fmt.Fprintln(b, quote.Text(text))
	}
	slices.SortFunc(t.heap, func(a, b gap) int { return cmp.Compare(b.path, a.path) }) // still a heap
	for _, gap := range slices.Backward(t.heap) {
		fmt.Fprintf(b, "%s: %s\n", quoteName(gap.path), quote.Text(gap.cause))
	}
	if rest := t.paths - int64(len(t.heap)); rest > 0 {
		fmt.Fprintf(b, "and %d more\n", rest)
	}
	return b.Flush()
}

// mark makes the markers of a destination say what this run has left undone there: it
// writes one, or removes the one of an earlier run if nothing is undone. It does
// nothing if nothing was added since it was last called. Where the marker cannot be
// written, t.unmarked keeps the journal.
func (r *run) mark(t *target) {
	if r.undone == nil || t.journal == nil { // without a journal, the destination is as it was found
		return
	}
	r.sync()
	g := r.undone.targets[t.index]
	if g.marked == g.notes {
		return
	}
	g.marked = g.notes
	if g.notes == 0 && !r.undone.cut {
		if err := r.removeMarkers(t); err != nil {
			r.failEnd(t, failure.StageJournal, fmt.Errorf("the marker of an earlier incomplete copy: %w", err))
		}
		return
	}
	if t.stands() != nil { // finishTarget reports that the name leads elsewhere
		t.unmarked = true
		return
	}
	err := r.writeMarker(t, g)
	t.unmarked = err != nil
	if err != nil && !t.isLost() {
		err = fmt.Errorf("cannot write %s: %w; the journal stays, to show that this copy is incomplete",
			quoteName(incomplete.Name(r.undone.source, 1)), err)
		r.tell(Event{Kind: EventWarning, Target: t.given, Err: err})
	}
}

func (r *run) removeMarkers(t *target) error {
	own, err := r.ownMarkers(t)
	if err != nil || len(own) == 0 {
		return err
	}
	copied, err := r.copiedMarkers(t)
	if err != nil {
		return err
	}
	return t.removeMarkers(r, slices.DeleteFunc(own, func(m marker) bool { return copied.ids[m.id] }))
}

func (t *target) removeMarkers(r *run, list []marker) error {
	for _, m := range list {
		if !t.isMarker(m) {
			continue
		}
		if err := t.root.Remove(m.name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s cannot be removed: %w", quoteName(m.name), err)
		}
	}
	if len(list) == 0 {
		return nil
	}
	return t.forceMarkers(r, t.root.Sync)
}

// forceMarkers calls a function that syncs. After a sync has failed at a destination,
// nothing is synced there again: the kernel reports an error once, and the next sync
// would claim that all is well.
func (t *target) forceMarkers(r *run, sync func() error) error {
	if r.opts.Sync == SyncNone || t.unwritten.Load() {
		return nil
	}
	return sync()
}

// writeMarker writes a new marker. It replaces one of the same copy, which may have
// several since its user can rename them.
func (r *run) writeMarker(t *target, g *undoneAt) error {
	own, err := r.ownMarkers(t)
	if err != nil {
		return err
	}
	copied, err := r.copiedMarkers(t)
	if err != nil { // the source is gone, and what is at the destination may be a copy of it
		own, copied = nil, &copiedMarkers{}
	}
	own = slices.DeleteFunc(own, func(m marker) bool { return copied.ids[m.id] })
	p, err := t.root.Create(false)
	if err != nil {
		return err
	}
	defer p.Abort()
	if err := r.undone.write(g, &fsys.Writer{File: &p.File}); err != nil {
		return err
	}
	if err := p.Chmod(0o666 &^ fsys.Umask()); ignoreRefusal(err) != nil {
		return err
	}
	if err := t.forceMarkers(r, p.Sync); err != nil {
		return err
	}
	for number := 1; number <= incomplete.MaxNumber; number++ {
		name := incomplete.Name(r.undone.source, number)
		if slices.ContainsFunc(copied.names, func(s string) bool { return strings.EqualFold(s, name) }) {
			continue
		}
		i := slices.IndexFunc(own, func(m marker) bool { return m.name == name })
		if i >= 0 && t.isMarker(own[i]) {
			err = p.CommitReplacing(name)
			own = slices.Delete(own, i, i+1)
		} else {
			err = p.Commit(name)
		}
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err == nil {
			err = t.removeMarkers(r, own)
		}
		if err == nil {
			err = t.forceMarkers(r, t.root.Sync)
		}
		return err
	}
	return fmt.Errorf("the names up to %s exist", quoteName(incomplete.Name(r.undone.source, incomplete.MaxNumber)))
}

// marker is a marker at a destination.
type marker struct {
	name string
	id   fsys.ID
}

// isMarker reports whether a marker is still the file that it was.
func (t *target) isMarker(m marker) bool {
	now, err := t.root.Lstat(m.name)
	return err == nil && now.ID == m.id
}

// ownMarkers finds the markers at a destination that earlier runs of the same copy have
// written: they name its source, and the same filters. A copy of everything is also
// the end of one with filters; one with filters says nothing about the rest.
func (r *run) ownMarkers(t *target) (own []marker, err error) {
	names, err := markerNames(t.root, incomplete.IsName)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		head, info, err := incomplete.Open(t.root, name)
		var other *fsys.KindError
		switch {
		case errors.Is(err, incomplete.ErrNoHead), errors.Is(err, fs.ErrNotExist), errors.As(err, &other),
			fsys.NotPermitted(err), fsys.IsSymlinkRefusal(err):
			continue // not a marker of this user
		case err != nil:
			return nil, fmt.Errorf("%s cannot be read: %w", quoteName(name), err)
		}
		whole := r.undone.filters == incomplete.NoFilters
		if head.Source == quoteName(r.undone.source) && (whole || head.Filters == r.undone.filters) {
			own = append(own, marker{name, info.ID})
		}
	}
	return own, nil
}

// copiedMarkers are the files of the source that have the name of a marker: ordinary
// files there, whose copies are no markers of this run.
type copiedMarkers struct {
	names []string         // in the source
	ids   map[fsys.ID]bool // of what has these names at the destination, however that folds them
}

func (r *run) copiedMarkers(t *target) (*copiedMarkers, error) {
	source, _, err := openRoot(r.opts.FS, r.route.dir, r.sourceInfo.ID) // the copy has closed it
	if err != nil {
		return nil, fmt.Errorf("the source cannot be read: %w", err)
	}
	defer source.Close()
	c := &copiedMarkers{ids: map[fsys.ID]bool{}}
	c.names, err = markerNames(source, func(name string) bool {
		return len(name) >= len(incomplete.Prefix) && strings.EqualFold(name[:len(incomplete.Prefix)], incomplete.Prefix)
	})
	if err != nil {
		return nil, fmt.Errorf("the source cannot be read: %w", err)
	}
	for _, name := range c.names {
		if info, err := t.root.Lstat(name); err == nil {
			c.ids[info.ID] = true
		}
	}
	return c, nil
}

func markerNames(dir *fsys.Dir, is func(string) bool) (names []string, err error) {
	err = dir.Each(func(name []byte, _ uint64, _ fsys.Kind) bool {
		if s := string(name); is(s) {
			names = append(names, s)
		}
		return true
	})
	slices.Sort(names)
	return names, err
}
