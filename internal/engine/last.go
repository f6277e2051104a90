package engine

import (
	"fmt"

	"github.com/seed65876f4f/sealift/internal/dest"
	"github.com/seed65876f4f/sealift/internal/event"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/metadata"
	"github.com/seed65876f4f/sealift/internal/record"
	"github.com/seed65876f4f/sealift/internal/walk"
)

// lastFile is the file in the root of the source that a recorder wants to get its name last, see
// record.Recorder.
type lastFile struct {
	name    string // "" for none
	usable  bool   // true if the file can be read and matches the source's manifests
	content []byte
	meta    *metadata.Values
}

// maxLast is the largest size of that file, in bytes. Real ones have less than 100.
const maxLast = 64 << 10

// readLast reads the last file into memory, and checks it against the manifests of the source. It reports a
// mismatch if the file is not usable; the file is not written then.
func (r *completer) readLast() {
	for _, recorder := range r.recorders {
		r.last.name = recorder.Last()
	}
	if r.last.name == "" {
		return
	}
	if err := r.last.read(r); err != nil {
		r.report(event.OfFile(event.Mismatch, r.last.name, "", failure.StageVerify, err))
		return
	}
	r.last.usable = true
}

func (l *lastFile) read(r *completer) error {
	f, info, err := r.source.OpenRegular(l.name)
	if err != nil {
		return err
	}
	defer f.Close()
	if info.Size > maxLast {
		return fmt.Errorf("it is longer than %d bytes", maxLast)
	}
	l.content, l.meta = make([]byte, info.Size), &metadata.Values{Info: info}
	if n, err := (fsys.ReaderAt{File: f}).ReadAt(l.content, 0); int64(n) < info.Size {
		return err
	}
	if err := r.metadata.Read(&f.Object, l.name, l.meta); err != nil {
		return err
	}
	expected, err := r.manifests.Expect(l.name)
	if err != nil {
		return err
	}
	set := hash.NewSet(r.opts.Hashes)
	set.Write(l.content)
	if err := expected.Invalid(); err != nil {
		return err
	}
	return expected.Mismatch(r.opts.Hashes, set.Digests())
}

// isLast reports whether the entry name of d is the last file. The walk passes over it.
func (r *completer) isLast(d *walk.Dir, name string) bool {
	return name == r.last.name && d.Parent == nil
}

// writeLast writes the last file to those of the durable destinations that are complete, and
// sends the results to the collector.
func (r *completer) writeLast(durable []*target) {
	if !r.last.usable {
		return
	}
	f := &result{path: r.last.name, kind: fsys.Regular, size: int64(len(r.last.content))}
	for _, t := range durable {
		switch end := r.endOf(t); {
		case t.records.Claim(f.path).Sealed != nil:
			f.targets = append(f.targets, targetResult{target: t, name: f.path, done: outUpToDate})
		case end.Complete && end.Conflicts == 0:
			if err := r.last.writeTo(t, r.opts.Sync != dest.SyncNone); err != nil {
				t.FailEnd(failure.StageManifest, fmt.Errorf("%s: %w", f.path, err))
				continue
			}
			f.targets = append(f.targets, targetResult{target: t, name: f.path, done: outCreated})
		}
	}
	if len(f.targets) > 0 {
		r.collector.messages <- message{result: f}
	}
}

// writeTo writes the file to one destination. If it is durable, everything else in the root of the
// destination is durable before the file gets its name, and the name is durable when writeTo returns.
func (l *lastFile) writeTo(t *target, durable bool) error {
	p, err := t.Root.Create(false)
	if err != nil {
		return err
	}
	defer p.Abort()
	if _, err := (&fsys.Writer{File: &p.File}).Write(l.content); err != nil {
		return err
	}
	fresh, err := p.Stat()
	if err == nil {
		_, err = t.FileSystems.Root().Apply(&p.Object, l.meta, fresh, true, false)
	}
	if err == nil && durable {
		if err = p.Sync(); err == nil {
			err = t.Root.Sync()
		}
	}
	if err == nil {
		err = p.Commit(l.name)
	}
	if err == nil && durable {
		err = t.Root.Sync()
	}
	return err
}

// endOf says what a destination lacks.
func (r *completer) endOf(t *target) record.End {
	r.collector.await()
	undone := r.collector.undone
	return record.End{
		Complete:  undone != nil && undone[t.Index].Complete() && !t.Dropped() && !t.FileSystems.Failed.Load(),
		Conflicts: r.collector.at[t.Index].Conflicts,
	}
}
