package readback

import (
	"errors"
	"fmt"

	"github.com/seed65876f4f/sealift/internal/timing"
)

// judge reports files, and renames those that are bad. One goroutine uses it. It is a worker
// that can open all trees.
type judge struct{ *worker }

// collect reports the files of a job that could not be opened. After the last job of a path it
// compares all files of the path with their lines.
func (w *judge) collect(j job, done bool) {
	if !done || w.ctx.Err() != nil {
		return
	}
	for _, i := range j.group.trees {
		if err := j.files[i].lost; err != nil && !w.gone[i].Load() {
			w.fail(i, j.path, Unreadable, err)
		}
	}
	if j.group.source {
		w.failSource(j.entry)
	}
	if j.left--; j.left == 0 {
		w.judge(j.entry)
		w.activity.At(timing.None)
	}
}

// judge compares the files of a path with their lines, after all of them were read.
func (w *judge) judge(p *entry) {
	for i := range p.files {
		f := &p.files[i]
		if f.good {
			w.results[i].count(1, f.cached)
		}
		if f.bad != nil && !w.gone[i].Load() {
			w.judgeBad(i, p)
		}
	}
	if p.source.digests != nil {
		w.judgeSource(p)
	}
}

// fail reports a bad file of a tree that no manifest may list.
func (w *judge) fail(i int, path string, kind Kind, err error) {
	w.report(i, path, kind, err)
	w.results[i].Bad = append(w.results[i].Bad, path)
}

// report reports a bad file of a tree.
func (w *judge) report(i int, path string, kind Kind, err error) {
	if w.Report(Finding{i, path, kind, err}) {
		w.results[i].Gone = true
		w.gone[i].Store(true)
	}
}

// failSource reports that the source's file cannot be read.
func (w *judge) failSource(p *entry) {
	if err := p.source.err; err != nil && w.ctx.Err() == nil {
		w.Report(Finding{TheSource, p.path, Unreadable, err})
	}
}

// judgeBad reports a file of a tree that does not match its line. The file is renamed if this
// run wrote it, or if the source matches the line.
func (w *judge) judgeBad(i int, p *entry) {
	f, t := &p.files[i], &w.Trees[i]
	written := t.Written == nil || t.Written(p.path)
	if !written && w.Source != nil && !p.source.read {
		w.readSourceAlso(p)
	}
	switch {
	case w.ctx.Err() != nil:
	case !written && p.source.digests == nil:
		w.report(i, p.path, f.kind, fmt.Errorf("%w; it was left in place, because the source could not be read to decide whether the file or its line is right", f.bad))
	case !written && w.differs("", p.source.digests, f.digests) != nil:
		w.report(i, p.path, f.kind, fmt.Errorf("%w; the source differs from the line of the manifest, too, so the file was left in place", f.bad))
	default:
		dir, name, err := w.trees[i].Parent(p.path)
		if err != nil {
			w.fail(i, p.path, f.kind, f.bad)
			return
		}
		w.fail(i, p.path, f.kind, w.setAside(i, p.path, f.bad, dir, name, f.info))
	}
}

// readSourceAlso reads a file of the source that no group reads. The totals of the progress
// grow by that file.
func (w *judge) readSourceAlso(p *entry) {
	w.Counters.ReadBack.TotalFiles.Add(1)
	w.readSource(p)
	w.failSource(p)
	w.Counters.ReadBack.TotalBytes.Add(max(p.source.info.Size, 0))
}

// judgeSource reports, once, that the source differs from the line of trees whose own files
// match it. Nothing is renamed: those files are what their lines say.
func (w *judge) judgeSource(p *entry) {
	var err error
	for i, f := range p.files {
		if !f.good {
			continue
		}
		differs := w.differs("the source, read again, differs from the line of the manifest", p.source.digests, f.digests)
		if differs == nil {
			continue
		}
		if changed, err := w.sourceChanged(i, p); err != nil {
			w.fail(i, p.path, Unreadable, err)
			continue
		} else if changed {
			w.Report(Finding{TheSource, p.path, Changed, errors.New("it has changed since it was copied")})
			return
		}
		w.results[i].count(-1, f.cached)
		err = fmt.Errorf("%w; the copy matches that line and was left in place", differs)
	}
	if err != nil {
		w.Report(Finding{TheSource, p.path, Differs, err})
	}
}

// sourceChanged reports whether the source's file has changed since it was copied to a tree.
func (w *judge) sourceChanged(i int, p *entry) (bool, error) {
	dir, name, err := w.trees[i].Parent(p.path)
	if err != nil {
		return false, err
	}
	there, err := dir.Lstat(name)
	return err == nil && (p.source.changed || w.Trees[i].SourceChanged(dir, there, p.source.info)), err
}
