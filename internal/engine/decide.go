package engine

import (
	"errors"
	"io/fs"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/quote"
)

// action is what is to be done with an entry at one destination.
type action uint8

const (
	actUndecided action = iota
	actNone             // nothing can be done; it was reported
	actCreate           // the name is free
	actReplace          // what has the name is replaced
	actKeep             // what has the name is up to date; its metadata may not be
	actLeave            // policy "never": nothing is touched
	actCompare          // the content decides between actKeep and what differs says
	actConflict         // left alone and reported
)

// verdict is an action and, for actCompare, what a difference leads to.
type verdict struct {
	act      action
	differs  action
	conflict *conflictError
}

// conflictError says why an entry is left alone, and which policy would replace it.
type conflictError struct {
	why  string
	hint Policy // PolicyDefault: no policy would
}

func (e *conflictError) Error() string { return e.why }

// policy names the policy that would replace it, "" if none would.
func (e *conflictError) policy() string {
	if e.hint == PolicyDefault {
		return ""
	}
	return e.hint.String()
}

// decide applies the overwrite policy to an entry of the source and what has
// its name at the destination. same tells whether two entries that are not
// regular files are equal; it is not called for others.
func (r *run) decide(s *fileSystem, src, have fsys.Info, same func() (bool, error)) (verdict, error) {
	if r.opts.Policy == PolicyNever {
		return verdict{act: actLeave}, nil
	}
	if have.Kind == fsys.Directory {
		return conflict("a directory is in the way", PolicyDefault), nil
	}
	if src.Kind != have.Kind {
		if r.opts.Policy == PolicyDefault {
			return conflict("a "+have.Kind.String()+" is in the way", PolicyAlways), nil
		}
		return verdict{act: actReplace}, nil
	}
	if src.Kind != fsys.Regular {
		equal, err := same()
		switch {
		case err != nil:
			return verdict{}, err
		case r.opts.Policy == PolicyAlways:
			return verdict{act: actReplace}, nil
		case equal:
			return verdict{act: actKeep}, nil
		case r.opts.Policy == PolicyDefault:
			return r.newer(s, src, have), nil
		}
		return verdict{act: actReplace}, nil
	}
	sameSize, sameTime := src.Size == have.Size, s.sameTime(src.Mtime, have.Mtime)
	switch r.opts.Policy {
	case PolicyUpdate:
		if sameSize && sameTime {
			return verdict{act: actKeep}, nil
		}
	case PolicyChecksum:
		if sameSize {
			return verdict{act: actCompare, differs: actReplace}, nil
		}
	case PolicyDefault:
		v := r.newer(s, src, have)
		switch {
		case sameSize && sameTime:
			return verdict{act: actKeep}, nil
		case sameSize:
			return verdict{act: actCompare, differs: v.act, conflict: v.conflict}, nil
		}
		return v, nil
	}
	return verdict{act: actReplace}, nil
}

// newer replaces what is not newer than the source.
func (r *run) newer(s *fileSystem, src, have fsys.Info) verdict {
	if s.sameTime(src.Mtime, have.Mtime) || have.Mtime.Compare(src.Mtime) < 0 {
		return verdict{act: actReplace}
	}
	return conflict("the destination is newer than the source and differs", PolicyUpdate)
}

func conflict(why string, hint Policy) verdict {
	return verdict{act: actConflict, conflict: &conflictError{why: why, hint: hint}}
}

// lookUp finds what has the transfer's name at the destination and decides.
func (r *run) lookUp(p *transfer, src fsys.Info, same func() (bool, error)) (verdict, error) {
	p.exists = false
	if p.dir == nil || !p.dd.maybeExists(p.name) {
		return verdict{act: actCreate}, nil
	}
	have, err := p.dir.Lstat(p.name)
	if errors.Is(err, fs.ErrNotExist) {
		return verdict{act: actCreate}, nil
	}
	if err != nil {
		return verdict{}, err
	}
	p.have, p.exists = have, true
	return r.decide(p.dd.system, src, have, same)
}

// judge turns a verdict into the transfer's action. A file that is up to date by size
// and time keeps the line of an earlier manifest; without one, or with one that the
// source's own manifest contradicts, it is compared.
func (r *run) judge(e *entry, p *transfer, v verdict) {
	p.act = v.act
	p.differs = verdict{act: v.differs, conflict: v.conflict}
	regular := e.kind == fsys.Regular && p.exists && p.have.Kind == fsys.Regular
	if p.made && p.exists {
		p.act = actReplace
		return
	}
	if regular && !r.opts.DryRun && r.judgeInterrupted(e, p, v) {
		return
	}
	switch {
	case v.act == actConflict:
		p.fail(v.conflict)
	case v.act == actLeave:
		p.done = outLeft
	case v.act == actKeep && regular && !r.opts.DryRun && len(r.opts.Hashes) > 0:
		line, ok := p.target.catalog.Kept(e.manifestPath(p))
		if p.line = line; ok && e.expected.Met(line) {
			p.digests = line
			return
		}
		p.act, p.differs = actCompare, sameTimes
	}
}

// judgeInterrupted judges what an interrupted run may have left. What its journal
// lists is up to date, whatever the policy. What it does not list and has changed
// since that run began is compared by content, and replaced if it differs; its
// size and time prove nothing.
func (r *run) judgeInterrupted(e *entry, p *transfer, v verdict) (judged bool) {
	log := p.target.log
	left := log.Judge(e.manifestPath(p), e.meta.info, p.have, p.dd.system.timeStamps())
	if left.Listed && e.expected.Met(left.Digests) {
		p.known, p.act = true, actKeep
		if len(left.Digests) > 0 {
			p.digests = left.Digests
		}
		if v.act == actLeave {
			p.act, p.done = actLeave, outLeft
		}
		return true
	}
	if !left.MayBeIncomplete || log.Certified && p.target.catalog.Settled(e.manifestPath(p)) {
		return false
	}
	p.suspect = true
	if digests, ok := log.Written(e.manifestPath(p), e.meta.info, p.have); ok && e.expected.Met(digests) {
		p.promised = digests // reading it there is enough
	}
	switch {
	case v.act == actReplace:
		return false
	case v.act == actLeave && p.have.Size == e.meta.info.Size:
		p.act, p.differs = actCompare, verdict{act: actLeave}
	case v.act == actLeave:
		p.target.warnTorn(r, e.path)
		p.act, p.done = actLeave, outLeft
	case p.have.Size == e.meta.info.Size:
		p.act, p.differs = actCompare, verdict{act: actReplace}
	default:
		p.act = actReplace
	}
	return true
}

// warnTorn tells of files that policy "never" leaves as an interrupted run has.
func (t *target) warnTorn(r *run, path string) {
	t.mu.Lock()
	told := t.warnedTorn
	t.warnedTorn = true
	t.mu.Unlock()
	if !told {
		err := errors.New("it differs from the source and was changed since a copy was interrupted, as may others; policy never leaves it")
		r.report(Event{Kind: EventWarning, Path: path, Target: t.given, Err: err})
	}
}

// fail leaves the transfer's name alone.
func (p *transfer) fail(c *conflictError) { p.act, p.done, p.conflict = actConflict, outConflict, c }

// sameTimes is what a difference leads to where size and time say that there is none.
var sameTimes = conflict("it differs from the source, although size and modification time are equal", PolicyChecksum)

func quoteName(s string) string { return quote.Name(s) }
