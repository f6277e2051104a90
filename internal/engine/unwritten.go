package engine

import (
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/journal"
)

// reportUnwritten tells, after forcing a file system has failed with err, which files
// its device did not take, as far as the system still knows: it forgets that with a
// file that goes out of memory. Nothing is forced again, and nothing follows for a
// file that is not told: it is not known to be on the device either.
func (r *run) reportUnwritten(t *target, err error) {
	if gone, _ := t.isGone(err); gone || t.ledger == nil || !fsys.DeviceFailed(err) {
		return
	}
	log, err := t.ledger.log()
	if log == nil || err != nil {
		return // what is known of the log is told elsewhere
	}
	look := newFinder(t.root)
	defer look.Close()
	for path, err := range log.Loose() {
		if err != nil {
			return
		}
		dir, name, err := look.Parent(path)
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

// log reads the log that is being written; nil if none is.
func (l *ledger) log() (*journal.Log, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil || l.target.logErr != nil {
		return nil, nil
	}
	if err := l.w.Flush(); err != nil {
		return nil, err
	}
	return journal.Read(fsys.ReaderAt{File: &l.file.File}, l.w.Size())
}
