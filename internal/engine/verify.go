package engine

import (
	"context"
	"errors"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/readback"
)

// verify reads back everything at the given destinations, on which all of it is
// durable, and takes what is not what was read out of the manifests.
func (r *run) verify(targets []*target) {
	o := &readback.Options{Workers: r.opts.Workers, Pipe: r.pipe, Sheet: r.sheet, MayMove: r.mode.mayCommit}
	var listing []*target
	for _, t := range targets {
		if t.catalog.Lists() {
			listing = append(listing, t)
			o.Trees = append(o.Trees, readback.Tree{
				Root: t.root, Device: t.dev, Place: t.place(), Lines: t.catalog.Lines(), Counters: &t.shown.ReadBack,
				SourceChanged: func(dir *fsys.Dir, there, source fsys.Info) bool { return r.sourceChanged(t, dir, there, source) },
			})
		}
	}
	if len(listing) == 0 {
		return
	}
	o.Algorithm = r.opts.Hashes[0]
	o.Counters = r.counters
	r.counters.Phase.Store(int32(counters.PhaseVerifying))
	total := r.toVerify
	for _, t := range listing {
		t.toVerify.store(&t.shown.ReadBack)
		total.add(t.toVerify.files, t.toVerify.bytes)
	}
	total.store(&r.counters.ReadBack)
	ctx, cancel := context.WithCancel(r.outer)
	defer cancel()
	o.Report = func(f readback.Finding) (gone bool) {
		gone = r.reportFinding(listing, f)
		if r.stopped() { // at the first failure, if that is asked for
			cancel()
		}
		return gone
	}
	if r.opts.Verify == VerifyFull {
		source, info, err := r.route.OpenSource() // the copy has closed it
		if err != nil {
			r.report(fileEvent(EventFailed, "", "", failure.StageVerify, err))
			if r.stopped() {
				return
			}
		} else {
			defer source.Close()
			o.Source = &readback.Source{Root: source, Device: info.ID.Dev, File: r.route.Name}
		}
	}
	results := readback.Run(ctx, o)
	r.sync()
	for i, t := range listing {
		res := results[i]
		t.verified, t.cached = res.Good, res.Cached
		t.present -= int64(len(res.Bad))
		for _, path := range res.Bad {
			t.catalog.Drop(path)
		}
		if res.Gone {
			t.catalog.Fail(errors.New("the destination could not be read back"))
		}
	}
}

// amount is how much there is to read.
type amount struct{ files, bytes int64 }

func (a *amount) add(files, bytes int64) {
	a.files += files
	a.bytes = counters.Plus(a.bytes, bytes)
}

// store makes it the total of w.
func (a *amount) store(w *counters.Work) {
	w.TotalBytes.Store(a.bytes)
	w.TotalFiles.Store(a.files)
}

// reportFinding reports a file that is not shown to be good, and whether its destination
// is gone as a whole. Nothing more is read there then.
func (r *run) reportFinding(targets []*target, f readback.Finding) (gone bool) {
	path, stage, err := f.Path, failure.StageVerify, f.Err
	if r.route.Name != "" { // as in the source
		path = r.route.Name
	}
	given := ""
	if f.Tree != readback.TheSource {
		t := targets[f.Tree]
		given = t.Given
		if f.Kind == readback.Unreadable {
			if gone, err = t.isGone(err); gone && !t.isDropped() {
				t.drop(r, path, err)
				return true
			}
		}
	}
	kind := EventFailed
	switch f.Kind {
	case readback.Unreadable:
	case readback.Differs:
		kind = EventMismatch
	case readback.Changed:
		stage = failure.StageCheck
	}
	r.report(fileEvent(kind, path, given, stage, err))
	return gone
}

// sourceChanged reports whether the source's file has been changed since it was copied to
// there, going by its times or, where those are not kept, by the run's.
func (r *run) sourceChanged(t *target, dir *fsys.Dir, there, source fsys.Info) bool {
	switch {
	case there.Size != source.Size:
		return true
	case r.opts.Preserve&PreserveTimes != 0:
		return !t.fileSystems.of(dir).sameTime(there.Mtime, source.Mtime)
	}
	return source.Mtime.Compare(r.begun) >= 0
}

// mismatch reports content at a destination that is not what a digest says.
func (r *run) mismatch(t *target, path string, err error) {
	r.report(fileEvent(EventMismatch, path, t.Given, failure.StageVerify, err))
}
