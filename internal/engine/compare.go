package engine

import (
	"bytes"

	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/pipe"
	"github.com/seed65876f4f/sealift/internal/timing"
)

// compare settles the transfers whose action depends on content: the source is
// read once, and every destination's file beside it until it differs. What is
// equal to the end gets the digests. It returns what was compared, or that the source
// changed; the error is the source's.
func (r *run) compare(e *entry) (compared []*transfer, changed bool, err error) {
	var open []*comparison
	for _, p := range e.transfers {
		if !p.open() || p.act != actCompare {
			continue
		}
		e.clock.At(timing.Read, p.target.place())
		f, info, err := p.dir.Open(p.name)
		if err != nil {
			r.failTransfer(e, p, failure.StageRead, err)
			continue
		}
		defer f.Close()
		differs := info.Kind != fsys.Regular || info.Size != e.meta.info.Size
		if p.decision.torn && !differs {
			// What memory holds may not be what the device has. What the device did not
			// take, or gives back only as an error, is copied again.
			if _, err := f.DropCache(); err != nil {
				differs = true
			}
		}
		if p.decision.written != nil && !differs {
			if proved, err := r.provePromised(e, p, f, info); err != nil {
				return nil, false, err
			} else if proved {
				continue
			}
		}
		if r.drops() {
			f.SetUncached(true)
		}
		compared = append(compared, p)
		open = append(open, &comparison{transfer: p, file: f, differs: differs})
	}
	if len(open) == 0 {
		return nil, false, nil
	}
	digests, err := r.readBeside(e, open)
	if err != nil {
		return nil, false, err
	}
	if changed, err := e.changed(); changed || err != nil {
		return nil, changed, err
	}
	if !e.agree(digests) {
		return nil, true, nil
	}
	for _, c := range open {
		p := c.transfer
		switch {
		case c.err != nil && p.decision.torn:
			p.act = p.decision.different
		case c.err != nil:
			r.failTransfer(e, p, failure.StageRead, c.err)
		case !c.differs:
			e.clock.At(timing.Commit, p.target.place())
			if err := p.forceEqual(c.file); err != nil {
				r.failTransfer(e, p, failure.StageSync, err)
				continue
			}
			if len(e.digests) > 0 {
				p.digests = e.digests
			}
			p.equal, p.decision.line = true, nil
			p.act = actKeep
			if r.opts.Policy == PolicyNever {
				p.act, p.done = actLeave, outLeft
			}
		default:
			p.act = p.decision.different
			switch {
			case p.damaged(e.digests):
				p.act = actReplace
			case p.act == actConflict:
				p.fail()
			case p.act == actLeave:
				p.done = outLeft
				if p.decision.torn {
					p.target.warnTorn(r, e.path)
				}
			}
		}
	}
	return compared, false, nil
}

// damaged reports whether an earlier manifest lists the file with the digests of the
// source: what differs from the source then is not what was once read or written there.
func (p *transfer) damaged(source hash.Digests) bool {
	for i, digest := range p.decision.line {
		if digest != nil && (source == nil || !bytes.Equal(digest, source[i])) {
			return false
		}
	}
	return p.decision.line.Any()
}

// provePromised reads what an interrupted run has written from the device and
// compares it with the digests of what that run read. The source need not be read
// then. Whatever is wrong shows when it is compared with the source; the error is
// that the run was stopped.
func (r *run) provePromised(e *entry, p *transfer, f *fsys.File, info fsys.Info) (proved bool, err error) {
	set := r.sets.Get().(*hash.Set)
	defer r.sets.Put(set)
	set.Reset()
	// Not counted: the progress is that of the source.
	quiet := pipe.Pipe{Pool: r.pipe.Pool, QueueSize: r.pipe.QueueSize}
	_, _, err = quiet.ReadBack(r.ctx, f, info, set, pipe.CacheDrop, e.clock, p.target.place())
	if stopped := r.ctx.Err(); stopped != nil {
		return false, stopped
	}
	if err != nil || !set.Digests().Equal(p.decision.written) {
		return false, nil
	}
	if p.forceEqual(f) != nil {
		return false, nil
	}
	p.digests, p.act, p.equal, p.known = p.decision.written, actKeep, true, true
	if r.opts.Policy == PolicyNever {
		p.act, p.done = actLeave, outLeft
	}
	return true, nil
}

// forceEqual forces a file that was there already, and is going to be listed,
// where every file is forced by itself.
func (p *transfer) forceEqual(f *fsys.File) error {
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
	differs  bool
	err      error
}

// readBeside reads the source to its end, or until every destination differs and no
// earlier line has to be compared with the digests, in one buffer of which half is the
// source's. The digests are the source's,
// nil if it was not read to the end.
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
		e.clock.Count(timing.Read, timing.Source, int64(n))
		if err := r.pipe.Pace(r.ctx, n, e.clock); err != nil {
			return nil, err
		}
		e.clock.At(timing.Hash, timing.CPU)
		set.Write(b.Buf[:n])
		for range set.Len() {
			e.clock.Count(timing.Hash, timing.CPU, int64(n))
		}
		for _, c := range open {
			if c.differs || c.err != nil {
				continue
			}
			place := c.transfer.target.place()
			e.clock.At(timing.Read, place)
			// One byte more where the source has ended: the other may go on.
			m, err := c.file.ReadAt(b.Buf[half:half+min(n+1, half)], off)
			if err != nil {
				c.err = failure.At(err, off+int64(m))
			}
			e.clock.Count(timing.Read, place, int64(m))
			c.differs = err == nil && (m < n || n < half && m > n || !bytes.Equal(b.Buf[:n], b.Buf[half:half+n]))
		}
		off += int64(n)
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
