package engine

import (
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
)

// reportUnwritten tells, after forcing a file system has failed with err, which files
// its device did not take, as far as the system still knows: it forgets that with a
// file that goes out of memory. Nothing is forced again, and nothing follows for a
// file that is not told: it is not known to be on the device either.
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
