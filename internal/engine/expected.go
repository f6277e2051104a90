package engine

import (
	"errors"
	"fmt"
	"strings"

	"github.com/seed65876f4f/sealift/internal/catalog"
	"github.com/seed65876f4f/sealift/internal/event"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/quote"
)

// This file compares the computed digests of a file with those that the source's own manifests
// list, so that a corrupt file is not copied.

// reportProblem reports something about a manifest of the source.
func (r *run) reportProblem(p catalog.Problem) {
	switch p.Severity {
	case catalog.Failure:
		r.report(event.OfFile(event.Failed, p.Path, "", failure.StageManifest, p.Err))
	case catalog.Mismatch:
		r.report(event.OfFile(event.Mismatch, p.Path, "", failure.StageVerify, p.Err))
	default:
		r.report(event.Event{Kind: event.Warning, Path: p.Path, Err: p.Err})
	}
}

// findAbsent reports the files that the manifests of the source list and the source
// lacks.
func (treeCopy) findAbsent(r *run) {
	if r.route.Name != "" {
		return // the copy of a single file does not concern other files in its directory
	}
	finder := fsys.NewFinder(r.source, fsys.FinderLimit())
	defer finder.Close()
	absent := absentFiles{run: r}
	err := r.manifests.Absent(func(list, file string, bag bool) error {
		if r.ctx.Err() != nil {
			return r.ctx.Err()
		}
		if !r.opts.wanted(file) || !r.absent(finder, file) {
			return nil
		}
		absent.add(list, file, bag)
		return nil
	})
	absent.warn()
	var bad *catalog.ListError
	if errors.As(err, &bad) {
		r.report(event.OfFile(event.Failed, bad.Name, "", failure.StageManifest, bad.Err))
	}
}

// absentFiles reports the absent files of one manifest after another: as mismatches, or in one
// warning for each manifest.
type absentFiles struct {
	run   *run
	list  string
	files quote.Few
}

// add reports an absent file that list names. A file of a bag is a mismatch in any case, others unless the user
// allows absent files.
func (a *absentFiles) add(list, file string, bag bool) {
	if bag || a.run.opts.SourceManifest != SourceManifestPresent {
		err := fmt.Errorf("%s lists it, and it is absent", quoteName(list))
		if !bag {
			err = fmt.Errorf("%w (--source-manifest=present allows that)", err)
		}
		a.run.report(event.OfFile(event.Mismatch, file, "", failure.StageVerify, err))
		return
	}
	if list != a.list {
		a.warn()
		a.list, a.files = list, quote.Few{}
	}
	a.files.Add(file)
}

func (a *absentFiles) warn() {
	what := "a file that is"
	switch n := a.files.Count; {
	case n == 0:
		return
	case n > 1:
		what = fmt.Sprintf("%d files that are", n)
	}
	a.run.report(event.Event{Kind: event.Warning, Path: a.list, Err: fmt.Errorf("lists %s absent: %s", what, &a.files)})
}

// absent reports whether the source has no file of that name. A symbolic link to a file in the
// source counts as a file. So does a file that cannot be opened: the copy has reported the error.
func (r *reporter) absent(finder *fsys.Finder, name string) bool {
	f, _, err := finder.Open(name)
	if err == nil {
		f.Close()
		return false
	}
	if !fsys.NoSuchFile(err) && !errors.Is(err, fsys.ErrOutside) && !errors.As(err, new(*fsys.KindError)) {
		return false
	}
	if !r.opts.OneFileSystem {
		return true
	}
	for end := range name { // a file on another file system is not part of the copy
		if name[end] != '/' {
			continue
		}
		info, err := finder.Lstat(name[:end])
		if err != nil { // nothing is below; a hostile list can have a path of a million names
			return true
		}
		if info.ID.Dev != r.sourceInfo.ID.Dev {
			return false
		}
	}
	return true
}

// wanted reports whether the filters include the path.
func (o *Selection) wanted(name string) bool {
	only := o.Only.Root()
	for element := range strings.SplitSeq(name, "/") {
		if only = only.Child(element); only == nil {
			return false
		}
	}
	return o.Filter.MatchAll(name, false).Selected
}

// checkCount reports a source that is a bag of another size than it says. It checks nothing after an
// error or an interrupted copy, because the count is too small then.
func (r *run) checkCount() {
	if !r.validates {
		return
	}
	r.collector.await()
	file, err := r.manifests.CheckCount()
	if err != nil && r.collector.summary.Errors == 0 && r.ctx.Err() == nil {
		r.report(event.OfFile(event.Mismatch, file, "", failure.StageVerify, err))
	}
}
