package engine

import (
	"bytes"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/pipe"
	"github.com/seed65876f4f/sealift/internal/timing"
)

// compare compares the transfers that are in stateComparing: it reads the source once, and
// beside it every destination's file until that differs. No file counts as equal if the
// source does not match its manifests. The error is the source's.
func (r *run) compare(e *entry) error {
	if !e.has(stateComparing) {
		return nil
	}
	var open []*comparison
	for p := range e.in(stateComparing) {
		e.clock.At(timing.Read, p.target.place())
		f, info, err := p.dir.Open(p.name)
		if err != nil {
			r.failTransfer(e, p, failure.StageRead, err)
			continue
		}
		defer f.Close()
		c := &comparison{transfer: p, file: f, regular: info.Kind == fsys.Regular}
		c.differs = !c.regular || info.Size != e.meta.info.Size
		if p.decision.suspect && (!c.differs || p.decision.remains) {
			// The page cache may hold other data than the device. A file that the device did
			// not take, or cannot give back, is copied again.
			if _, err := f.DropCache(); err != nil {
				c.differs = true
			}
		}
		if p.decision.written != nil && !c.differs {
			if proved, err := r.proveWhole(e, c, info); err != nil {
				return err
			} else if proved {
				continue
			}
		}
		if r.drops() {
			f.SetUncached(true)
		}
		open = append(open, c)
	}
	if len(open) == 0 {
		return nil
	}
	if err := r.openContent(e); err != nil {
		return err
	}
	digests, err := r.readBeside(e, open)
	if err == nil {
		err = e.unchanged()
	}
	if err == nil {
		err = e.agree(digests)
	}
	if err != nil {
		return err
	}
	broken := e.digests != nil && !r.isExpected(e, e.digests)
	for _, c := range open {
		r.endStep(e, c.transfer, r.endComparison(e, c, broken))
	}
	for _, p := range e.transfers {
		if broken && p.open() {
			p.become(stateFailed)
		}
	}
	return nil
}

// endComparison follows the decision for an equal or a different file. broken: the source
// does not match its manifests, which was reported.
func (r *run) endComparison(e *entry, c *comparison, broken bool) error {
	p := c.transfer
	switch {
	case c.err != nil && (!p.decision.suspect || p.decision.remains):
		return inStage(failure.StageRead, c.err)
	case p.decision.damaged(e.digests) && c.differs:
		r.follow(e, p, actReplace)
		return nil
	case p.decision.remains && c.differs:
		act := p.decision.different
		lossless, err := r.isRemains(e, c)
		if lossless {
			act = actReplace
		}
		if err == nil {
			r.follow(e, p, act)
		}
		return inStage(failure.StageRead, err)
	case c.differs || c.err != nil:
		r.follow(e, p, p.decision.different)
		return nil
	case broken:
		return errReported
	}
	e.clock.At(timing.Commit, p.target.place())
	if err := p.syncKept(c.file); err != nil {
		return inStage(failure.StageSync, err)
	}
	if p.decision.equal == actKeep {
		if err := r.accepts(e, p); err != nil {
			return err
		}
	}
	p.content = content{digests: e.digests, fresh: true}
	r.follow(e, p, p.decision.equal)
	return nil
}

// damaged reports whether an earlier manifest lists the file with the digests of the
// source: if the file differs from the source, it has been damaged since.
func (d *decision) damaged(source hash.Digests) bool {
	for i, digest := range d.line {
		if digest != nil && (source == nil || !bytes.Equal(digest, source[i])) {
			return false
		}
	}
	return d.line.Any()
}

// proveWhole reads what an interrupted run has written from the device and compares it
// with the digests of what that run read. If they are equal, the source need not be read.
// If not, or if the file cannot be read, the comparison with the source follows. An error
// says that the run was stopped.
func (r *run) proveWhole(e *entry, c *comparison, info fsys.Info) (proved bool, err error) {
	set := r.sets.Get().(*hash.Set)
	defer r.sets.Put(set)
	set.Reset()
	p := c.transfer
	// Not counted: the progress is that of the source.
	quiet := pipe.Pipe{Pool: r.pipe.Pool, QueueSize: r.pipe.QueueSize}
	_, _, err = quiet.ReadBack(r.ctx, c.file, info, set, pipe.CacheDrop, e.clock, p.target.place())
	if stopped := r.ctx.Err(); stopped != nil {
		return false, stopped
	}
	if err != nil || !set.Digests().Equal(p.decision.written) || p.syncKept(c.file) != nil {
		return false, nil
	}
	p.content = content{digests: p.decision.written, fresh: true, known: true}
	r.follow(e, p, p.decision.equal)
	return true, nil
}

// isRemains reports whether the destination's file holds nothing but bytes that the source
// has at the same place, and zeros. After a power cut, a file of an interrupted run can lack
// its end, and have zeros where data was not written. Replacing such a file loses nothing.
func (r *run) isRemains(e *entry, c *comparison) (bool, error) {
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
		n, err := e.file.ReadAt(b.Buf[:half], off) // of this length also past the page cache
		if err != nil || n < have {
			return false, err
		}
		for i, x := range b.Buf[half : half+have] {
			if x != b.Buf[i] && x != 0 {
				return false, nil
			}
		}
		if err := r.pipe.Pace(r.ctx, n, e.clock); err != nil {
			return false, err
		}
		off += int64(have)
	}
}

// syncKept syncs a file that existed already and is going to be listed, if its file system
// needs that for each file.
func (p *transfer) syncKept(f *fsys.File) error {
	if !p.dd.system.syncEach {
		return nil
	}
	err := p.target.sync(f)
	if err != nil {
		p.target.keepLog.Store(true)
	}
	return err
}

// comparison is one destination's side of compare.
type comparison struct {
	transfer *transfer
	file     *fsys.File
	regular  bool // it is a regular file
	differs  bool
	err      error
}

// readBeside reads the source to its end, or until every destination differs and no
// earlier line has to be compared with the digests. Source and destinations share one
// buffer, a half each. The digests are the source's, nil if it was not read to the end.
func (r *run) readBeside(e *entry, open []*comparison) (hash.Digests, error) {
	b, err := r.pipe.Pool.Get(r.ctx)
	if err != nil {
		return nil, err
	}
	defer b.Release()
	half := len(b.Buf) / 2
	set := r.sets.Get().(*hash.Set)
	defer r.sets.Put(set)
	set.Reset()
	if e.evict != nil {
		e.evict.Restart()
	}
	r.uncount(e)
	for off := int64(0); ; {
		going := false
		for _, c := range open {
			going = going || c.err == nil && (!c.differs || c.transfer.decision.line.Any())
		}
		if !going {
			return nil, nil
		}
		if err := r.ctx.Err(); err != nil {
			return nil, err
		}
		e.clock.At(timing.Read, timing.Source)
		n, err := e.file.ReadAt(b.Buf[:half], off)
		if err != nil {
			return nil, failure.At(err, off+int64(n))
		}
		e.clock.Did(int64(n))
		if err := r.pipe.Pace(r.ctx, n, e.clock); err != nil {
			return nil, err
		}
		e.clock.At(timing.Hash, timing.CPU)
		set.Write(b.Buf[:n])
		for range set.Len() {
			e.clock.Did(int64(n))
		}
		for _, c := range open {
			if c.differs || c.err != nil {
				continue
			}
			e.clock.At(timing.Read, c.transfer.target.place())
			// One byte more where the source has ended: the other may go on.
			m, err := c.file.ReadAt(b.Buf[half:half+min(n+1, half)], off)
			if err != nil {
				c.err = failure.At(err, off+int64(m))
			}
			e.clock.Did(int64(m))
			c.differs = err == nil && (m < n || n < half && m > n || !bytes.Equal(b.Buf[:n], b.Buf[half:half+n]))
		}
		off += int64(n)
		e.counted += int64(n)
		counters.Grow(&r.counters.Bytes, int64(n))
		if e.evict != nil {
			e.evict.Read(off)
		}
		if n < half {
			if e.evict != nil {
				e.evict.End(off)
			}
			return set.Digests(), nil
		}
	}
}
