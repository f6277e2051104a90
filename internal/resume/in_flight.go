package resume

import (
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/journal"
)

const (
	// LeastPartial is the smallest size, in bytes, that a run continues. A shorter file is
	// copied again; a longer one has a temporary name from the start.
	LeastPartial = 16 << 20

	// MarkEvery is the distance between two points at which a large file can be continued,
	// in bytes.
	MarkEvery = 4 << 20
)

// LargeFile is a large file before it is written.
type LargeFile struct {
	Path   string        // path of the file at the destination, as in the log
	Source fsys.Info     // state of the source's file
	File   *fsys.Pending // the temporary
	Start  int64         // length of the bytes that File already has
	// Separately means that a flush of file systems does not cover it.
	Separately bool
	// Reached returns how far the file has come: its first off bytes are written, and
	// states are those of the digests there. ok is false if there is no such point yet.
	Reached func() (off int64, states [][]byte, ok bool)
}

// InFlight is a large file that is being written, with its progress for checkpoints. A nil
// InFlight is a file without checkpoints; only Keep needs another one.
type InFlight struct {
	LargeFile
	log  *Writer
	temp string     // the name of File
	dup  *fsys.File // a separate descriptor, because the worker may close the other one
}

// progress is how much of an InFlight is written. The log's mu guards it.
type progress struct {
	synced int64 // length of the first bytes in the last record
	users  int   // number of checkpoints that sync the file, and the worker
}

// Track lets checkpoints record how much of a large file is written. The result is nil if
// the log does not record it: the file is not large, it has no name, or the log has failed.
func (w *Writer) Track(o LargeFile) (*InFlight, error) {
	if o.Source.Size <= LeastPartial || o.File.Name() == "" || !w.Active() {
		return nil, nil
	}
	dup, err := o.File.Dup()
	if err != nil {
		return nil, err
	}
	f := &InFlight{LargeFile: o, log: w, temp: o.File.Name(), dup: dup}
	w.mu.Lock()
	w.mu.inFlight[f] = &progress{synced: f.Start, users: 1}
	w.mu.Unlock()
	return f, nil
}

// Stop ends the work of Track. It may be called again.
func (f *InFlight) Stop() {
	if f == nil { // small files need no lock
		return
	}
	f.log.mu.Lock()
	at := f.log.mu.inFlight[f]
	delete(f.log.mu.inFlight, f)
	last := at != nil && at.release()
	f.log.mu.Unlock()
	if last {
		f.dup.Close()
	}
}

// release ends the use by the worker or a checkpoint, and reports whether it was the last
// user. If it was, the caller closes the file without the lock, because closing can wait
// for a server.
func (p *progress) release() (last bool) {
	p.users--
	return p.users == 0
}

// Gone records that the temporary does not exist any more.
func (f *InFlight) Gone() {
	if f != nil {
		f.log.gone(f.Path)
	}
}

func (w *Writer) gone(path string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.mu.partials, path)
	if w.active() {
		w.fail(w.mu.lines.Done(path))
	}
}

// Partials returns the number of large files of which the beginning is recorded, and the length of these
// parts in bytes. A later run continues them, if neither source nor destination changes.
func (w *Writer) Partials() (files, bytes int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, n := range w.mu.partials {
		bytes += n
	}
	return int64(len(w.mu.partials)), bytes
}

// recordPartial records the beginning of a large file, for callers that hold mu.
func (w *Writer) recordPartial(p *journal.Partial) error {
	err := w.mu.lines.Partial(p)
	if err == nil {
		w.mu.partials[p.Path] = p.Offset
	}
	return err
}

// Keep keeps the temporary, of which the first off bytes are written, for the next run. It
// syncs and closes the file. RecordKept records that.
func (f *InFlight) Keep(off int64, states [][]byte) error {
	if err := f.File.Sync(); err != nil {
		return err
	}
	w := f.log
	w.mu.Lock()
	w.mu.kept = append(w.mu.kept, *f.lineAt(off, states))
	w.mu.worked = true
	w.mu.Unlock()
	return f.File.Keep()
}

// RecordKept records the files that were kept. The caller has checked that no other
// descriptor got an error when it wrote them.
func (w *Writer) RecordKept() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.mu.kept {
		if w.active() {
			w.fail(w.recordPartial(&p))
		}
	}
	w.mu.kept = nil
}

// lineAt returns the record of the first off bytes of the file.
func (f *InFlight) lineAt(off int64, states [][]byte) *journal.Partial {
	src := f.Source
	return &journal.Partial{
		Path: f.Path, Temp: f.temp, Offset: off, Size: src.Size, Mtime: src.Mtime, Ctime: src.Ctime, States: states,
	}
}
