package compare

import (
	"slices"

	"github.com/seed65876f4f/sealift/internal/fsys"
)

// account counts the results of a job, and reports them.
func (r *run) account(j *job) {
	s := r.summary
	if g := j.ends; g != nil {
		r.endGroup(g, j)
		return
	}
	if j.own {
		s.Own++
	} else {
		r.deliverEntry(j)
	}
	if j.cached {
		s.Cached++
	}
	for _, e := range j.events {
		switch e.Verdict {
		case Differs:
			s.Differ++
		case TypeDiffers:
			s.TypeDiffers++
		case MetadataDiffers:
			s.MetadataDiffers++
		case Unreadable:
			s.Unreadable++
		case OnlyIn:
			r.countOnly(e.Trees, j)
		}
		r.report(e)
	}
	if j.kinds == nil {
		return
	}
	if g := j.group; g != nil && !g.implied && !g.typed {
		r.countOnly(g.event.Trees, j)
		if r.opts.Verbose || !g.only {
			e := g.event
			e.Whole = false
			r.report(e)
		}
	}
	if g := j.dir.group; g != nil && j.group == nil && !slices.ContainsFunc(j.events, func(e Event) bool { return e.Verdict == OnlyIn }) {
		r.countIn(g, j)
	}
	if j.compared {
		r.countCompared(j)
	}
}

// deliverEntry calls Options.Each.
func (r *run) deliverEntry(j *job) {
	if r.opts.Each == nil || j.kinds == nil || j.kind() == fsys.Directory {
		return
	}
	e := &Entry{Path: j.dir.join(j.name), Kind: j.kind(), Size: j.size, Mtime: j.mtime, Events: j.events}
	if g := j.dir.group; g != nil && len(e.Events) == 0 {
		e.Events = []Event{{Verdict: OnlyIn, Path: e.Path, Trees: g.event.Trees, Bytes: j.size}}
	}
	if j.compared || len(e.Events) > 0 { // otherwise the run was stopped before
		r.opts.Each(e)
	}
}

// endGroup reports a directory that some trees lack, and counts its content.
func (r *run) endGroup(g *group, j *job) {
	if (g.implied || g.typed) && g.entries == 0 {
		return
	}
	if g.implied && !g.typed {
		r.countOnly(g.event.Trees, j)
	}
	if !r.opts.Verbose {
		r.report(g.event)
	}
}

// countIn counts an entry of a directory that some trees lack.
func (r *run) countIn(g *group, j *job) {
	r.countOnly(g.event.Trees, j)
	g.entries++
	if j.kind() == fsys.Regular {
		g.event.Files++
		g.event.Bytes += j.size
	}
	if r.opts.Verbose && g.only {
		path := j.dir.join(j.name)
		if j.kind() == fsys.Directory {
			path += "/"
		}
		r.report(Event{Verdict: OnlyIn, Path: path, Trees: g.event.Trees, Bytes: j.size})
	}
}

// kind returns the type of the entry in the first tree that has it.
func (j *job) kind() fsys.Kind {
	for _, k := range j.kinds {
		if k != fsys.Unknown {
			return k
		}
	}
	return fsys.Unknown
}

func (r *run) countOnly(trees []int, j *job) {
	s := r.summary
	i := slices.IndexFunc(s.Only, func(o Only) bool { return slices.Equal(o.Trees, trees) })
	if i < 0 {
		i = len(s.Only)
		s.Only = append(s.Only, Only{Trees: trees})
	}
	o := &s.Only[i]
	if j.kind() != fsys.Regular {
		o.Others++
		return
	}
	o.Files++
	o.Bytes += j.size
}

func (r *run) countCompared(j *job) {
	s := r.summary
	switch j.kinds[0] {
	case fsys.Regular:
		s.Files++
		s.Bytes += j.bytes
	case fsys.Directory:
		s.Directories++
	default:
		s.Others++
	}
}
