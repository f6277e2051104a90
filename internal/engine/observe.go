package engine

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/seed65876f4f/sealift/internal/dest"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/policy"
	"github.com/seed65876f4f/sealift/internal/quote"
	"github.com/seed65876f4f/sealift/internal/record"
)

// conflictOf returns the conflict of a record, or nil.
func conflictOf(c *record.Conflict) *policy.Conflict {
	if c == nil {
		return nil
	}
	return &policy.Conflict{Why: c.Why, Next: c.Next}
}

// observe reads the existing entry of the transfer's name at the destination. claim is that of the
// records there.
func (r *copier) observe(e *entry, p *transfer, claim record.Claim) (o policy.Observation, err error) {
	p.exists = false
	if claim.Guarded != nil { // it may be aside
		return policy.Observation{Guarded: conflictOf(claim.Guarded), Policy: r.opts.Policy, Exists: true, Source: e.Kind, Dst: fsys.Regular}, nil
	}
	o.Sealed = conflictOf(claim.Sealed)
	if p.dir == nil || !p.made && !p.dd.maybeExists(p.name) {
		return o, nil
	}
	have, err := p.dir.Lstat(p.name)
	if errors.Is(err, fs.ErrNotExist) {
		return o, nil
	}
	if err != nil {
		return o, err
	}
	p.have, p.exists = have, true
	o = r.observationOf(p.dd.system, e.Meta.Info, have)
	o.Ours, o.Sealed = p.made, conflictOf(claim.Sealed)
	switch {
	case o.Source != o.Dst:
	case o.Source != fsys.Regular:
		if o.Policy != policy.Never {
			o.SameNode, err = e.sameNode(p)
		}
	default:
		if p.target.Earlier != nil {
			o.Journal = r.observeJournal(e, p)
		}
		if o.Hashing && o.UpToDate() {
			kept := r.recorded(e, p)
			o.Line, o.LineAt, o.LineHolds = kept.Digests, kept.Line, kept.Complete && e.expected.Met(kept.Digests)
		}
	}
	return o, err
}

// observationOf returns the observation that follows from the metadata of an entry of the source and of
// the existing entry.
func (r *copier) observationOf(s *dest.FileSystem, src, have fsys.Info) policy.Observation {
	o := policy.Observation{
		Policy: r.opts.Policy, Hashing: len(r.opts.Hashes) > 0,
		Exists: true, Source: src.Kind, Dst: have.Kind,
		SameSize: src.Size == have.Size, SameTime: s.SameTime(src.Mtime, have.Mtime),
	}
	o.Newer = !o.SameTime && have.Mtime.Compare(src.Mtime) > 0
	return o
}

// sameNode reports whether an entry without data equals the existing entry, which has the same
// kind.
func (e *entry) sameNode(p *transfer) (bool, error) {
	switch e.Kind {
	case fsys.Symlink:
		target, err := p.dir.Readlink(p.name)
		if err != nil { // sshfs refuses to read some
			err = fmt.Errorf("reading the existing link: %w", err)
		}
		return target == e.Link, err
	case fsys.CharDevice, fsys.BlockDevice:
		return p.have.Rdev == e.Meta.Info.Rdev, nil
	}
	return true, nil
}

// observeJournal returns what the journal of an interrupted run records about a file. It ignores
// records with digests that the source's own manifests contradict.
func (r *copier) observeJournal(e *entry, p *transfer) (j policy.JournalView) {
	left := p.target.Earlier.Judge(e.manifestPath(p), e.Meta.Info, p.have, p.dd.system.TimeStamps())
	if j.Listed = left.Listed && e.expected.Met(left.Digests); j.Listed {
		if len(left.Digests) > 0 {
			j.Digests = left.Digests
		}
		return j
	}
	j.Suspect = left.MayBeIncomplete && !r.shared.wasLeftAlone(p.target, e.Path)
	return j
}

func quoteName(s string) string { return quote.Name(s) }
