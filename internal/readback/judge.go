package readback

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"

	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/hash"
)

// judge reports files, and renames those that are bad. One goroutine uses it.
type judge struct{ *worker }

// collect reports the files of a job that could not be opened. After the last job of an entry it
// compares all files of the entry with their lines.
func (w *judge) collect(j job, done bool) {
	if !done || w.ctx.Err() != nil {
		return
	}
	for _, i := range j.places {
		switch f := &j.files[i]; {
		case f.err == nil || w.gone[i].Load():
		case i == w.source:
			w.failSource(j.entry)
		case errors.Is(f.err, fs.ErrNotExist):
			w.fail(i, j.entry, Unreadable, errors.New("it is not there any more"))
		case !f.opened:
			w.fail(i, j.entry, Unreadable, f.err)
		}
	}
	if j.left--; j.left == 0 {
		w.judge(j.entry)
	}
}

// judge compares the files of an entry with their lines, after all of them were read.
func (w *judge) judge(e *entry) {
	good := make([]bool, len(w.Trees))
	for i := range w.Trees {
		f := &e.files[i]
		if !f.opened {
			continue
		}
		var bad error
		kind := Differs
		if f.err != nil {
			kind, bad = Unreadable, fmt.Errorf("reading it back: %w", f.err)
		} else {
			bad = w.differs("the device returned other data", f.digests, f.listed)
		}
		if good[i] = bad == nil; good[i] {
			w.results[i].count(1, f.cached)
		} else if !w.gone[i].Load() {
			w.judgeBad(i, e, kind, bad)
		}
	}
	if e.files[w.source].digests != nil {
		w.judgeSource(e, good)
	}
}

// differs returns the error for a file with the digests have, and nil if it matches its lines. The error
// names the first hash of which the digest differs.
func (w *judge) differs(what string, have, want hash.Digests) error {
	for i, a := range w.Hashes {
		if !bytes.Equal(have[i], want[i]) {
			return fmt.Errorf("%s: its %s is %s and should be %s", what, a, a.Text(have[i]), a.Text(want[i]))
		}
	}
	return nil
}

// fail reports a bad file of a tree that no manifest may list.
func (w *judge) fail(i int, e *entry, kind Kind, err error) {
	w.report(i, e, kind, err)
	w.results[i].Bad = append(w.results[i].Bad, e.path)
}

// report reports a bad file of a tree.
func (w *judge) report(i int, e *entry, kind Kind, err error) {
	if w.Report(Finding{i, e.path, kind, err}) {
		w.results[i].Gone = true
		w.gone[i].Store(true)
	}
}

// failSource reports that the source's file cannot be read.
func (w *judge) failSource(e *entry) {
	err := e.files[w.source].err
	if errors.Is(err, fs.ErrNotExist) {
		err = failure.ErrVanished
	}
	w.Report(Finding{TheSource, e.path, Unreadable, err})
}

// judgeBad reports a file of a tree that does not match its line. The file is renamed if this
// run wrote it, or if the source matches the line.
func (w *judge) judgeBad(i int, e *entry, kind Kind, bad error) {
	f, t, source := &e.files[i], &w.Trees[i], &e.files[w.source]
	written := t.Written == nil || t.Written(e.path)
	if !written && w.Source != nil && !source.read {
		w.readSourceAlso(e)
	}
	switch {
	case w.ctx.Err() != nil:
	case !written && source.digests == nil:
		w.report(i, e, kind, fmt.Errorf("%w; it was left in place, because the source could not be read to decide whether the file or its line is right", bad))
	case !written && w.differs("", source.digests, f.listed) != nil:
		w.report(i, e, kind, fmt.Errorf("%w; the source differs from the line of the manifest, too, so the file was left in place", bad))
	default:
		if dir, name, err := w.places[i].finder.Parent(e.path); err == nil {
			bad = w.setAside(i, e.path, bad, dir, name, f.info)
		}
		w.fail(i, e, kind, bad)
	}
}

// readSourceAlso reads a file of the source that no job reads. The totals of the progress
// grow by that file.
func (w *judge) readSourceAlso(e *entry) {
	w.Counters.ReadBack.TotalFiles.Add(1)
	w.read(e, w.source)
	source := &e.files[w.source]
	if source.err != nil && w.ctx.Err() == nil {
		w.failSource(e)
	}
	w.Counters.ReadBack.TotalBytes.Add(max(source.info.Size, 0))
}

// judgeSource reports, once, that the source differs from the line of trees whose own files are
// good. Nothing is renamed: those files are what their lines say.
func (w *judge) judgeSource(e *entry, good []bool) {
	var err error
	for i, f := range e.files[:len(w.Trees)] {
		if !good[i] {
			continue
		}
		differs := w.differs("the source, read again, differs from the line of the manifest", e.files[w.source].digests, f.listed)
		if differs == nil {
			continue
		}
		if changed, err := w.sourceChanged(i, e); err != nil {
			w.fail(i, e, Unreadable, err)
			continue
		} else if changed {
			w.Report(Finding{TheSource, e.path, Changed, errors.New("it has changed since it was copied")})
			return
		}
		w.results[i].count(-1, f.cached)
		err = fmt.Errorf("%w; the copy matches that line and was left in place", differs)
	}
	if err != nil {
		w.Report(Finding{TheSource, e.path, Differs, err})
	}
}

// sourceChanged reports whether the source's file has changed since it was copied to a tree.
func (w *judge) sourceChanged(i int, e *entry) (bool, error) {
	dir, name, err := w.places[i].finder.Parent(e.path)
	if err != nil {
		return false, err
	}
	there, err := dir.Lstat(name)
	source := &e.files[w.source]
	return err == nil && (source.changed || w.Trees[i].SourceChanged(dir, there, source.info)), err
}
