package engine

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/dest"
	"github.com/seed65876f4f/sealift/internal/event"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/metadata"
	"github.com/seed65876f4f/sealift/internal/pipe"
	"github.com/seed65876f4f/sealift/internal/policy"
	"github.com/seed65876f4f/sealift/internal/record"
	"github.com/seed65876f4f/sealift/internal/source"
	"github.com/seed65876f4f/sealift/internal/timing"
)

// comparer is the part of a run that reads the source, and compares it with files at destinations.
type comparer struct {
	placer
	pipe     *pipe.Pipe
	sets     sync.Pool // a pool of *hash.Set
	metadata metadata.Reader
	cache    source.Cache
}

// compare compares the content of the source with the existing files of all transfers that are
// in stateComparing. It reads the source once, and each destination's file until that differs.
// If the source does not match its manifests, no file counts as equal. The error is about the
// source; errors of a destination fail its transfer.
func (r *comparer) compare(e *entry) error {
	if !e.has(stateComparing) {
		return nil
	}
	for p := range e.in(stateComparing) { // each file only once
		f := e.group.fileOf(p)
		if f != nil && f.equal != nil && (f.equal.decision.Suspect || !p.decision.Suspect) {
			p.content = f.equal.content
			p.startAction(e, p.decision.Equal)
		}
	}
	open := r.openExisting(e)
	defer func() {
		for _, c := range open {
			c.file.Close()
		}
	}()
	if len(open) == 0 {
		return nil
	}
	e.activity.At(timing.Source)
	if err := e.Open(&r.cache); err != nil {
		return err
	}
	digests, err := r.readBeside(e, open)
	if err == nil {
		e.activity.At(timing.Source)
		err = e.Unchanged()
	}
	if err == nil {
		err = e.recordDigests(digests)
	}
	if err != nil {
		return err
	}
	broken := e.digests != nil && !r.checkExpected(e, e.digests)
	for _, c := range open {
		r.endStep(e, c.transfer, r.endComparison(e, c, broken))
	}
	if broken {
		r.failBroken(e)
	}
	return nil
}

// compareInstead sends a transfer whose file was up to date by size and time back to
// stateComparing.
func (p *transfer) compareInstead() {
	p.decision = p.decision.CompareInstead()
	p.content = policy.Content{}
	p.become(stateComparing)
}

// openExisting opens the existing files of all transfers that are in stateComparing. The caller
// closes them.
func (r *comparer) openExisting(e *entry) (open []*comparison) {
	for p := range e.in(stateComparing) {
		e.activity.At(p.target.Place())
		f, info, err := p.dir.Open(p.name)
		if err != nil {
			r.failTransfer(e, p, failure.StageRead, err)
			continue
		}
		c := &comparison{transfer: p, file: f, regular: info.Kind == fsys.Regular}
		c.differs = !c.regular || info.Size != e.Meta.Info.Size
		if p.decision.Suspect && (!c.differs || p.decision.ReplacePartial) {
			// The page cache and the device may hold different data after an interrupted run.
			// A file whose data did not reach the device, or that the device cannot return, is
			// copied again.
			if _, err := f.DropCache(); err != nil {
				c.differs = true
			}
		}
		if r.cache.Drops() {
			f.SetUncached(true)
		}
		open = append(open, c)
	}
	return open
}

// endComparison carries out the decision for an equal file, or that for a different one. broken
// means that the source does not match its manifests, which compare has reported.
func (r *comparer) endComparison(e *entry, c *comparison, broken bool) error {
	p := c.transfer
	switch {
	case c.err != nil && !p.decision.ReplacesUnreadable(c.err):
		return inStage(failure.StageRead, c.err)
	case p.decision.Damaged(e.digests) && c.differs:
		p.startAction(e, policy.Replace)
		return nil
	case p.decision.ReplacePartial && c.differs:
		act := p.decision.Different
		lossless, err := r.isPartialCopy(e, c)
		if lossless {
			act = policy.Replace
		}
		if err == nil {
			p.startAction(e, act)
		}
		return inStage(failure.StageRead, err)
	case c.differs || c.err != nil:
		p.decision.Unreadable = c.err != nil
		if c.err != nil && !p.decision.Suspect { // the device may be failing
			err := fmt.Errorf("its content cannot be read, so it is replaced: %w", c.err)
			r.report(event.Event{Kind: event.Warning, Path: e.Path, Target: p.target.Given, Err: err})
		}
		p.startAction(e, p.decision.Different)
		return nil
	case broken:
		return dest.ErrReported
	}
	e.activity.At(p.target.Place())
	if err := p.syncKept(c.file); err != nil {
		return inStage(failure.StageSync, err)
	}
	if p.decision.Equal == policy.Keep {
		if err := r.accepts(e, p, e.digests, false); err != nil {
			return err
		}
	}
	p.content = policy.Content{Digests: e.digests, Fresh: true}
	if f := e.group.fileOf(p); f != nil {
		f.equal = p
	}
	p.startAction(e, p.decision.Equal)
	return nil
}

// isPartialCopy reports whether every byte of the destination's file is zero or equals the byte of
// the source at the same offset. After a power cut, a file of an interrupted run can be
// truncated, and can have zeros where data was not written. Replacing that file loses nothing.
func (r *comparer) isPartialCopy(e *entry, c *comparison) (bool, error) {
	if !c.regular {
		return false, nil
	}
	b, err := r.pipe.Pool.Get(r.ctx)
	if err != nil {
		return false, err
	}
	defer b.Release()
	half := len(b.Buf) / 2
	for off := int64(0); ; {
		have, err := c.file.ReadAt(b.Buf[half:2*half], off)
		if err != nil || have == 0 {
			return err == nil, err
		}
		n, err := e.File.ReadAt(b.Buf[:half], off) // half a buffer, because O_DIRECT needs aligned lengths
		if err != nil || n < have {
			return false, err
		}
		for i, x := range b.Buf[half : half+have] {
			if x != b.Buf[i] && x != 0 {
				return false, nil
			}
		}
		if err := r.pipe.Pace(r.ctx, n, e.activity); err != nil {
			return false, err
		}
		off += int64(have)
	}
}

// syncKept syncs an existing file before the manifest lists it, if files on its file system are
// synced separately.
func (p *transfer) syncKept(f *fsys.File) error {
	err := p.dd.system.SyncChanged(f)
	if err != nil {
		p.target.Journals.Keep.Store(true)
	}
	return err
}

// comparison is the state of compare for one destination's file.
type comparison struct {
	transfer *transfer
	file     *fsys.File
	regular  bool // true for a regular file
	differs  bool
	err      error
}

// needsMore reports whether the comparison needs the rest of the source. It does as long as the file
// does not differ, and if an earlier manifest line has to be compared with the source's digests.
func (c *comparison) needsMore() bool {
	return c.err == nil && (!c.differs || c.transfer.decision.Line.Any())
}

// read reads the destination's file at the offset off into buf, and compares it with want, the
// bytes of the source there. If want is shorter than buf, it is the end of the source.
func (c *comparison) read(e *entry, want, buf []byte, off int64) {
	e.activity.At(c.transfer.target.Place())
	// At the end of the source, read one byte more: the other file may be longer.
	n, err := c.file.ReadAt(buf[:min(len(want)+1, len(buf))], off)
	if err != nil {
		c.err = failure.At(err, off+int64(n))
	}
	isLonger := len(want) < len(buf) && n > len(want)
	c.differs = err == nil && (n < len(want) || isLonger || !bytes.Equal(want, buf[:len(want)]))
}

// readBeside reads the source and the destinations' files at the same offsets and compares
// them. It stops before the end of the source if all files differ and no earlier manifest line has
// to be compared with the digests. One half of a buffer is for the source, the other for the
// destinations. The digests are those of the source, nil if it was not read to its end.
func (r *comparer) readBeside(e *entry, open []*comparison) (hash.Digests, error) {
	b, err := r.pipe.Pool.Get(r.ctx)
	if err != nil {
		return nil, err
	}
	defer b.Release()
	half := len(b.Buf) / 2
	set := r.sets.Get().(*hash.Set)
	defer r.sets.Put(set)
	set.Reset()
	if e.Evict != nil {
		e.Evict.Restart()
	}
	r.uncount(e)
	count := func(n int64) {
		e.counted += n
		counters.Grow(&r.counters.Bytes, n)
	}
	if e.has(stateMoving) { // the copy to other destinations reads the source again, so this is a check
		left := e.Meta.Info.Size
		counters.Grow(&r.counters.CheckTotal, left)
		count = func(n int64) {
			left -= n
			counters.Grow(&r.counters.Checked, n)
		}
		defer func() { r.counters.CheckTotal.Add(-left) }() // the comparison may end early
	}
	for off := int64(0); ; {
		if !slices.ContainsFunc(open, (*comparison).needsMore) {
			return nil, nil
		}
		if err := r.ctx.Err(); err != nil {
			return nil, err
		}
		e.activity.At(timing.Source)
		n, err := e.File.ReadAt(b.Buf[:half], off)
		if err != nil {
			return nil, failure.At(err, off+int64(n))
		}
		if err := r.pipe.Pace(r.ctx, n, e.activity); err != nil {
			return nil, err
		}
		e.activity.At(timing.CPU)
		set.Write(b.Buf[:n])
		for _, c := range open {
			if !c.differs && c.err == nil {
				c.read(e, b.Buf[:n], b.Buf[half:2*half], off)
			}
		}
		off += int64(n)
		count(int64(n))
		if e.Evict != nil {
			e.Evict.Read(off)
		}
		if n < half {
			if e.Evict != nil {
				e.Evict.End(off)
			}
			return set.Digests(), nil
		}
	}
}

// prepareSource reads the metadata that the description lacks, and prepares a regular file
// for the way in which it is read.
func (r *comparer) prepareSource(e *entry) error {
	e.activity.At(timing.Source)
	return inStage(failure.StageMetadata, e.Prepare(&r.metadata, &r.cache))
}

// accepts asks the records at the transfer's destination whether its path may have content with these
// digests, see record.Book. If it may not, accepts finishes the transfer with a conflict, or reports
// a mismatch and returns dest.ErrReported. In a dry run the digests can be nil; then it reads the source
// if they are needed.
func (r *comparer) accepts(e *entry, p *transfer, digests hash.Digests, changes bool) error {
	if e.Kind != fsys.Regular {
		return nil
	}
	err := p.target.records.Accepts(e.manifestPath(p), digests, changes)
	if errors.Is(err, record.ErrNoDigests) {
		if !r.opts.DryRun {
			return nil
		}
		if e.digests == nil {
			if err := r.readDigests(e); err != nil {
				return err
			}
		}
		err = p.target.records.Accepts(e.manifestPath(p), e.digests, changes)
	}
	if conflict, ok := errors.AsType[*record.Conflict](err); ok {
		p.abort()
		p.finish(targetResult{done: outConflict, conflict: conflictOf(conflict)})
		return nil
	}
	if mismatch, ok := errors.AsType[*record.Mismatch](err); ok {
		p.target.Mismatch(e.Path, mismatch.Err)
		return dest.ErrReported
	}
	return inStage(failure.StageManifest, err)
}

// readDigests reads the entry in the source and sets its digests, for a dry run.
func (r *comparer) readDigests(e *entry) error {
	dir, err := e.Dir.Acquire()
	if err != nil {
		return err
	}
	defer e.Dir.Release()
	info, digests, err := r.digestFile(dir, e.Name, e.activity)
	if err == nil && !source.SameState(e.Meta.Info, info) {
		err = source.ErrChanged
	}
	if err != nil {
		return inStage(failure.StageRead, err)
	}
	e.digests = digests
	return nil
}

// digestFile reads a regular file.
func (r *comparer) digestFile(dir *fsys.Dir, name string, activity *timing.Activity) (fsys.Info, hash.Digests, error) {
	f, info, err := dir.OpenRegular(name)
	if err != nil {
		return info, nil, err
	}
	defer f.Close()
	activity.At(timing.Source)
	set := hash.NewSet(r.opts.Hashes)
	_, err = io.CopyBuffer(set, f.Reader(info.Size), make([]byte, r.opts.BlockSize))
	return info, set.Digests(), err
}
