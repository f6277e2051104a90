package engine

import (
	"bytes"

	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
)

// compare settles the passages whose action depends on content: the source is
// read once, and every destination's file beside it until it differs. What is
// equal to the end gets the digests. It returns what was compared; the error is
// the source's.
func (r *run) compare(e *entry) (compared []*passage, err error) {
	var open []*comparison
	for _, p := range e.passages {
		if !p.open() || p.act != actCompare {
			continue
		}
		f, info, err := p.dir.Open(p.name)
		if err != nil {
			r.failPassage(e, p, failure.StageRead, err)
			continue
		}
		defer f.Close()
		compared = append(compared, p)
		open = append(open, &comparison{passage: p, file: f, differs: info.Kind != fsys.Regular || info.Size != e.meta.info.Size})
	}
	e.digests = nil
	if len(open) == 0 {
		return nil, nil
	}
	for attempt := 1; ; attempt++ {
		digests, err := r.readBeside(e, open)
		if err != nil {
			return nil, err
		}
		changed, err := e.changed()
		if err != nil {
			return nil, err
		}
		if !changed {
			e.digests = digests
			break
		}
		if attempt == maxAttempts {
			return nil, errChanged
		}
	}
	for _, c := range open {
		p := c.passage
		switch {
		case c.err != nil:
			r.failPassage(e, p, failure.StageRead, c.err)
		case !c.differs:
			if len(e.digests) > 0 {
				p.digests = e.digests
			}
			p.act = actKeep
			if r.opts.Policy == PolicyNever {
				p.act, p.done = actLeave, outLeft
			}
		default:
			p.act = p.differs.act
			switch p.act {
			case actConflict:
				r.conflict(p.target, e.path, p.differs.conflict)
				p.done = outConflict
			case actLeave:
				p.done = outLeft
			}
		}
	}
	return compared, nil
}

// comparison is one destination's side of compare.
type comparison struct {
	passage *passage
	file    *fsys.File
	differs bool
	err     error
}

// readBeside reads the source to its end, or until every destination differs,
// in one buffer of which half is the source's. The digests are the source's,
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
	for off := int64(0); ; {
		going := false
		for _, c := range open {
			going = going || !c.differs && c.err == nil
		}
		if !going {
			return nil, nil
		}
		if err := r.ctx.Err(); err != nil {
			return nil, err
		}
		n, err := e.file.ReadAt(b.Buf[:half], off)
		if err != nil {
			return nil, err
		}
		if err := r.pipe.Pace(r.ctx, n); err != nil {
			return nil, err
		}
		set.Write(b.Buf[:n])
		for _, c := range open {
			if c.differs || c.err != nil {
				continue
			}
			// One byte more where the source has ended: the other may go on.
			m, err := c.file.ReadAt(b.Buf[half:half+min(n+1, half)], off)
			c.err = err
			c.differs = err == nil && (m < n || n < half && m > n || !bytes.Equal(b.Buf[:n], b.Buf[half:half+n]))
		}
		off += int64(n)
		if n < half {
			return set.Digests(), nil
		}
	}
}
