package engine

import (
	"github.com/seed65876f4f/sealift/internal/event"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
)

// reportUnflushed reports the files whose data did not reach the device, after a flush of the
// file system has failed with err. The kernel forgets the writeback error of a file when it
// evicts the inode from memory, so the list may be incomplete. reportUnflushed does not flush again.
func (t *target) reportUnflushed(err error) {
	if gone, _ := t.IsGone(err); gone || t.log == nil || !fsys.DeviceFailed(err) {
		return
	}
	log, err := t.log.ReadBack()
	if log == nil || err != nil {
		return // errors of the log are reported separately
	}
	finder := fsys.NewFinder(t.Root, fsys.FinderLimit())
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
			continue // the file was removed or replaced
		}
		if err := f.WritebackError(); err != nil && !fsys.Unsupported(err) {
			t.Report(event.OfFile(event.Failed, path, t.Given, failure.StageSync, err))
		}
		f.Close()
	}
}
