package engine

import (
	"context"
	"errors"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/event"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/metadata"
	"github.com/seed65876f4f/sealift/internal/readback"
	"github.com/seed65876f4f/sealift/internal/record"
)

// verify reads the files of the given destinations again, after all of them have been flushed
// to their devices. It reports files that differ from their lines. Those that readback has set
// aside are dropped from the manifests.
func (r *completer) verify(targets []*target) {
	o := &readback.Options{Workers: r.opts.Workers, Pipe: r.pipe, Sampler: r.sampler}
	var listing []*target
	for _, t := range targets {
		if t.records.Lists() {
			listing = append(listing, t)
			o.Trees = append(o.Trees, readback.Tree{
				Root: t.Root, Device: t.ID.Dev, Place: t.Place(), Lines: t.records.Lines(), Counters: &t.Progress.ReadBack,
				Written:       r.collector.at[t.Index].written.Has,
				SourceChanged: func(dir *fsys.Dir, there, source fsys.Info) bool { return r.sourceChanged(t, dir, there, source) },
				MayMove: func(path string) error {
					if err := r.mode.mayCommit(t); err != nil {
						return err
					}
					return t.records.BeforeChange(path) // the previous manifest lists a file that was up to date
				},
			})
		}
	}
	if len(listing) == 0 {
		return
	}
	o.Hashes = r.opts.Hashes[:r.listedHashes]
	o.Counters = r.counters
	r.counters.Phase.Store(int32(counters.PhaseVerifying))
	total := r.collector.toVerify
	for _, t := range listing {
		there := &r.collector.at[t.Index].toVerify
		there.store(&t.Progress.ReadBack)
		total.add(there.files, there.bytes)
	}
	total.store(&r.counters.ReadBack)
	ctx, cancel := context.WithCancel(r.outer)
	defer cancel()
	o.Report = func(f readback.Finding) (gone bool) {
		gone = r.reportFinding(listing, f)
		if r.stopped() { // --fail-fast stops the run at the first failure
			cancel()
		}
		return gone
	}
	source, info, err := r.route.OpenSource() // the copy has closed it
	switch {
	case err == nil:
		defer source.Close()
		o.Source = &readback.Source{Root: source, Device: info.ID.Dev, File: r.route.Name, Full: r.opts.Verify == VerifyFull}
	case r.opts.Verify == VerifyFull:
		r.report(event.OfFile(event.Failed, "", "", failure.StageVerify, err))
		if r.stopped() {
			return
		}
	}
	results := readback.Run(ctx, o)
	r.collector.await()
	for i, t := range listing {
		res := results[i]
		at := &r.collector.at[t.Index]
		at.Verified, at.Cached, at.ReadBack, at.ReadBytes = res.Good, res.Cached, res.Elapsed, t.Progress.ReadBack.Bytes.Load()
		at.Present -= int64(len(res.Bad))
		for _, path := range res.Bad {
			t.records.Account(record.Outcome{Path: path, Dropped: true})
		}
		if res.Gone {
			t.records.Fail(errors.New("the destination could not be read back"))
		}
	}
}

// amount is a number of files and bytes to read.
type amount struct{ files, bytes int64 }

func (a *amount) add(files, bytes int64) {
	a.files += files
	a.bytes = counters.Plus(a.bytes, bytes)
}

// store sets the totals of w.
func (a *amount) store(w *counters.Work) {
	w.TotalBytes.Store(a.bytes)
	w.TotalFiles.Store(a.files)
}

// reportFinding reports a file that could not be verified. gone is true if its destination is
// lost; readback then stops reading there.
func (r *completer) reportFinding(targets []*target, f readback.Finding) (gone bool) {
	path, stage, err := f.Path, failure.StageVerify, f.Err
	if r.route.Name != "" { // errors use the name in the source
		path = r.route.Name
	}
	given := ""
	if f.Tree != readback.TheSource {
		t := targets[f.Tree]
		given = t.Given
		if f.Kind == readback.Unreadable {
			gone, err = t.IsGone(err)
			switch lost := t.Lost(); {
			case !gone:
			case lost == nil:
				t.Drop(path, err)
				return true
			case fsys.DeviceFailed(lost): // drop has reported it
				return true
			}
		}
	}
	kind := event.Failed
	switch f.Kind {
	case readback.Unreadable:
	case readback.Differs:
		kind = event.Mismatch
	case readback.Changed:
		stage = failure.StageCheck
	}
	r.report(event.OfFile(kind, path, given, stage, err))
	return gone
}

// sourceChanged reports whether a file of the source has changed since it was copied: its size or
// mtime differs from that of the copy. The parameters source and there describe the two files. If the
// copy does not keep mtimes, a source that is newer than the start of the run counts as changed.
func (r *completer) sourceChanged(t *target, dir *fsys.Dir, there, source fsys.Info) bool {
	switch {
	case there.Size != source.Size:
		return true
	case r.opts.Preserve&metadata.PreserveTimes != 0:
		return !t.FileSystems.SameTime(dir, there.Mtime, source.Mtime)
	}
	return source.Mtime.Compare(r.begun) >= 0
}
