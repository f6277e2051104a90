package engine

import (
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/journal"
	"github.com/seed65876f4f/sealift/internal/pipe"
)

// cut says, for certain, that no more of a large file is to be relied on than p
// says, before it is cut off there.
func (l *ledger) cut(f *fsys.Pending, p journal.Partial) error {
	if !l.notes() {
		return nil
	}
	if err := f.Sync(); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.w.Done(p.Path); err != nil {
		return err
	}
	if err := l.w.Partial(&p); err != nil {
		return err
	}
	if err := l.w.Flush(); err != nil {
		return err
	}
	return l.file.Sync()
}

// done says that the temporary of a large file is not there any more.
func (l *ledger) done(path string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil || l.target.logErr != nil {
		return nil
	}
	return l.w.Done(path)
}

// inFlight is a large file on its way to one destination.
type inFlight struct {
	line    journal.Partial // what is told of it, but for how far it has come
	sink    *pipe.Sink
	file    *fsys.File // a descriptor of its own: the worker may close the other one
	noted   int64      // how far it has come on the device, by the last line that says so
	written int64      // how far it has come, by the last line that says so
	users   int        // checkpoints at work on it, and the worker
}

// follow lets checkpoints note how far a large file has come. untrack ends it.
func (l *ledger) track(e *entry, p *transfer, start int64) error {
	if e.meta.info.Size <= leastPartial || p.sink.File.Name() == "" || !l.notes() {
		return nil
	}
	file, err := p.sink.File.Dup()
	if err != nil {
		return err
	}
	p.noted = true
	l.mu.Lock()
	defer l.mu.Unlock()
	f := &inFlight{line: p.partial(e, p.sink.File, pipe.Mark{}), sink: &p.sink, file: file, noted: start, written: start, users: 1}
	if start == 0 { // nothing that could be proved, but the next run finds it
		if err := l.w.Written(f.at(pipe.Mark{Off: 1})); err != nil {
			file.Close()
			p.noted = false
			return err
		}
	}
	l.inFlight[p] = f
	return nil
}

func (l *ledger) untrack(p *transfer) {
	if !p.noted { // no lock for small files
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if f := l.inFlight[p]; f != nil {
		delete(l.inFlight, p)
		f.release()
	}
}

// partial is the journal's line that says how far the temporary f has come.
func (p *transfer) partial(e *entry, f *fsys.Pending, m pipe.Mark) journal.Partial {
	src := e.meta.info
	return journal.Partial{
		Path: e.manifestPath(p), Temp: f.Name(), Offset: m.Off, Size: src.Size, Mtime: src.Mtime, Ctime: src.Ctime, States: m.States,
	}
}

// at is the line that says that the file has come to the mark.
func (f *inFlight) at(m pipe.Mark) *journal.Partial {
	line := f.line
	line.Offset, line.States = m.Off, m.States
	return &line
}

// release is called with the ledger's lock held.
func (f *inFlight) release() {
	if f.users--; f.users == 0 {
		f.file.Close()
	}
}

// leavePartial keeps the temporary of a large file of a run that is stopped, for
// the next one.
func (l *ledger) leavePartial(e *entry, p *transfer, off int64, states [][]byte) error {
	if !l.notes() || off < leastPartial || p.sink.Err != nil || p.sink.File.Name() == "" {
		return nil
	}
	if err := p.sink.Stop(off); err != nil {
		return err
	}
	if err := p.sink.File.Sync(); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kept = append(l.kept, p.partial(e, p.sink.File, pipe.Mark{Off: off, States: states}))
	p.noted = false
	l.worked = true
	return p.sink.File.Keep()
}

// noteKept notes what leavePartial has kept, when it is known that no error of
// writing it has been told to others.
func (l *ledger) noteKept() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.kept {
		if l.file == nil || l.target.logErr != nil {
			break
		}
		if err := l.w.Partial(&p); err != nil {
			return err
		}
	}
	l.kept = nil
	return nil
}

// leastPartial is the least that is worth continuing with. A file that is not
// longer is copied again; a longer one has a temporary name from the start.
const leastPartial = 16 << 20 // bytes
