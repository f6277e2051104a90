package engine

import (
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
)

// reportUnwritten reports which files the device did not take, after flushing a file system
// has failed with err. The kernel knows that only of files that are still in memory, so a
// file that is not reported may be lost, too. Nothing is flushed again.
func (r *run) reportUnwritten(t *target, err error) {
	if gone, _ := t.isGone(err); gone || t.log == nil || !fsys.DeviceFailed(err) {
		return
	}
	log, err := t.log.ReadBack()
	if log == nil || err != nil {
		return // errors of the log are reported separately
	}
	finder := newFinder(t.root)
	defer finder.Close()
	for path, err := range log.Loose() {
		if err != nil {
			return
		}
		dir, name, err := finder.Parent(path)
		if err != nil {
			continue
		}
		f, _, err := dir.OpenRegular(name)
		if err != nil {
			continue // it is not there any more, or something else is
		}
		if err := f.WritebackError(); err != nil && !fsys.Unsupported(err) {
			r.report(fileEvent(EventFailed, path, t.Given, failure.StageSync, err))
		}
		f.Close()
	}
}
