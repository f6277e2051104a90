package engine

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/seed65876f4f/sealift/internal/dest"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/quote"
	"github.com/seed65876f4f/sealift/internal/record"
)

// action is what is to be done with an entry at one destination.
type action uint8

const (
	actNone     action = iota
	actCreate          // the name is free
	actReplace         // replace the existing entry
	actKeep            // keep the existing entry, which is up to date; update its metadata if needed
	actLeave           // leave the existing entry unchanged: policy "never"; reports call it "kept"
	actCompare         // compare the content, which decides between two other actions
	actConflict        // leave the existing entry unchanged and report a conflict
)

// observation is what Sealift knows about an entry of the source, and about the existing entry of
// the same name at a destination, before it compares content. In the zero value there is no
// existing entry.
type observation struct {
	policy  Policy
	hashing bool // the run computes digests

	exists   bool      // there is an existing entry
	source   fsys.Kind // of the entry in the source
	have     fsys.Kind // of the existing entry
	sameSize bool
	sameTime bool           // as far as the destination's file system can tell
	newer    bool           // the existing entry is newer than the source's
	sameNode bool           // two entries without data are equal: links with one target, devices with one number
	ours     bool           // this run created the existing entry, perhaps from an earlier state of the source
	sealed   *conflictError // why no content changes at the destination; nil for most destinations
	guarded  *conflictError // why the existing entry stays, whatever the source has; nil for most entries

	journal   journalView
	line      hash.Digests // that earlier runs have recorded; see record.Kept
	lineHolds bool         // line has all digests, and the source's own manifests list no different ones
	lineAt    record.Line  // which line that is; see record.Outcome
}

// journalView is what the journal of an interrupted run says of a file at the destination.
type journalView struct {
	listed  bool         // the file equalled the source and was flushed; neither has changed since
	digests hash.Digests // of a listed file
	suspect bool         // the file has changed since that run began; a power cut may have damaged content of the right size and time
}

// decision is what happens to an entry at one destination.
type decision struct {
	act       action
	equal     action         // for actCompare: the action if the content is equal
	different action         // for actCompare: the action if the content differs
	conflict  *conflictError // the reason, if one of the actions is actConflict
	content   content        // of the existing file, as far as it is known
	line      hash.Digests   // of the previous manifests; if the source has these digests, a file that differs is damaged
	suspect   bool           // a power cut may have damaged the file: compare the content on the device, not in the page cache
	// replacePartial: a file that differs is replaced if it is a partial copy, see isPartialCopy.
	replacePartial bool
	unreadable     bool // the comparison has shown that the device cannot return the content
}

// replacesUnreadable reports whether a file whose comparison has failed with err is handled like a
// different one. That is so if it would be replaced, and its device cannot return its content.
func (d decision) replacesUnreadable(err error) bool {
	if d.replacePartial {
		return false
	}
	return d.suspect || d.different == actReplace && fsys.DeviceFailed(err)
}

// content is what Sealift knows of the content of a file at a destination.
type content struct {
	digests hash.Digests // for the manifest; nil if they are unknown
	fresh   bool         // this run found them equal to the source's, so the journal may list the file
	known   bool         // the journal of an interrupted run lists the file
	line    record.Line  // the line of an earlier run that the digests come from; see record.Outcome
}

// conflictError says why an entry is left alone, and which policy would replace it.
type conflictError struct {
	why  string
	hint Policy // PolicyDefault: no policy would
	next string // the user's next step; "" if it is to move the existing entry away
}

func (e *conflictError) Error() string { return e.why }

// policy names the policy that would replace it, "" if none would.
func (e *conflictError) policy() string {
	if e.hint == PolicyDefault {
		return ""
	}
	return e.hint.String()
}

// decide decides what happens to an entry at one destination. It is a pure function of the
// observation.
func decide(o observation) decision {
	d := decideFree(o)
	switch {
	case o.sealed != nil:
		return d.instead(o.sealed)
	case o.guarded != nil && o.policy != PolicyNever:
		return decision{act: actConflict, conflict: o.guarded}
	case o.guarded != nil:
		return decision{act: actLeave}
	}
	return d
}

// instead returns the decision with a conflict in place of each change of content.
func (d decision) instead(why *conflictError) decision {
	if d.act == actCreate || d.act == actReplace {
		return decision{act: actConflict, conflict: why}
	}
	if d.equal == actReplace {
		d.equal = actKeep
	}
	if d.different == actReplace {
		d.different, d.conflict = actConflict, why
	}
	return d
}

// conflictOf returns the conflict of a record, or nil.
func conflictOf(c *record.Conflict) *conflictError {
	if c == nil {
		return nil
	}
	return &conflictError{why: c.Why, next: c.Next}
}

// decideFree is decide for an entry that may change.
func decideFree(o observation) decision {
	switch {
	case !o.exists:
		return decision{act: actCreate}
	case o.ours:
		return decision{act: actReplace}
	}
	d := o.byPolicy()
	if o.source == fsys.Regular && o.have == fsys.Regular {
		switch {
		case o.journal.listed:
			d = o.listedBefore(d)
		case o.journal.suspect:
			d = o.suspectBefore(d)
		case d.act == actKeep && o.hashing:
			d = o.keepLine()
		}
	}
	return d
}

// byPolicy applies the overwrite policy to the existing entry.
func (o *observation) byPolicy() decision {
	switch {
	case o.policy == PolicyNever:
		return decision{act: actLeave}
	case o.have == fsys.Directory:
		return conflict("a directory is in the way", PolicyDefault)
	case o.source != o.have && o.cautious():
		return conflict("a "+o.have.String()+" is in the way", PolicyAlways)
	case o.source != o.have || o.policy == PolicyAlways:
		return decision{act: actReplace}
	case o.upToDate():
		return decision{act: actKeep}
	}
	d := decision{act: actReplace}
	switch {
	case o.cautious() && o.newer:
		d = conflict("the destination is newer than the source and differs", PolicyUpdate)
	case o.policy == PolicyProtect:
		d = conflict("it differs from the source", PolicyUpdate)
	}
	if o.source == fsys.Regular && o.sameSize && o.policy != PolicyUpdate {
		d.act, d.equal, d.different = actCompare, actKeep, d.act
	}
	return d
}

// cautious reports whether the policy makes a newer entry, or one of another kind, a conflict.
func (o *observation) cautious() bool {
	return o.policy == PolicyDefault || o.policy == PolicyProtect
}

// upToDate reports whether the policy treats two entries of one kind as equal without comparing
// their content.
func (o *observation) upToDate() bool {
	if o.source != fsys.Regular {
		return o.sameNode
	}
	return o.sameSize && o.sameTime && (o.cautious() || o.policy == PolicyUpdate)
}

// listedBefore decides about a file that the journal lists. The file is up to date under every
// policy.
func (o *observation) listedBefore(d decision) decision {
	act := actKeep
	if d.act == actLeave {
		act = actLeave
	}
	return decision{act: act, content: content{digests: o.journal.digests, known: true}}
}

// suspectBefore decides about a file that a power cut may have damaged. Its size and time prove
// nothing. The interrupted run wrote the file, so a policy that otherwise reports a conflict allows
// to replace it. Under policy "never", the file stays unchanged. If its size is right, the run
// compares it, so that the manifest can list the file if it is complete. Policy "protect" replaces
// only a partial copy, because another process may have changed the file.
func (o *observation) suspectBefore(d decision) decision {
	suspect := decision{act: d.act, suspect: true}
	switch {
	case o.policy == PolicyProtect:
		suspect.act, suspect.equal, suspect.different, suspect.replacePartial = actCompare, actKeep, actConflict, true
		if suspect.conflict = d.conflict; suspect.conflict == nil {
			suspect.conflict = errSameTimes
		}
	case o.sameSize && d.act == actLeave:
		suspect.act, suspect.equal, suspect.different = actCompare, actLeave, actLeave
	case o.sameSize && d.act != actReplace:
		suspect.act, suspect.equal, suspect.different = actCompare, actKeep, actReplace
	case d.act != actLeave:
		suspect.act = actReplace
	}
	return suspect
}

// keepLine decides about a file that is up to date by size and time. It keeps the line of
// an earlier manifest. Without one, or with one that the source's own manifests contradict,
// the content decides.
func (o *observation) keepLine() decision {
	d := decision{act: actKeep}
	if o.policy != PolicyProtect { // "protect" does not replace a damaged file
		d.line = o.line
	}
	if o.lineHolds {
		d.content.digests, d.content.line = o.line, o.lineAt
		return d
	}
	return d.compareInstead()
}

// compareInstead returns the decision to compare a file that is up to date by size and time.
func (d decision) compareInstead() decision {
	return decision{act: actCompare, equal: actKeep, different: actConflict, conflict: errSameTimes, line: d.line, suspect: d.suspect}
}

func conflict(why string, hint Policy) decision {
	return decision{act: actConflict, conflict: &conflictError{why: why, hint: hint}}
}

// errSameTimes is the conflict of a file with equal size and mtime and different content.
var errSameTimes = &conflictError{why: "it differs from the source, although size and modification time are equal", hint: PolicyChecksum}

// observe reads the existing entry of the transfer's name at the destination.
func (r *copier) observe(e *entry, p *transfer) (o observation, err error) {
	p.exists = false
	claim := p.target.records.Claim(e.Path)
	if claim.Guarded != nil { // it may be aside
		return observation{guarded: conflictOf(claim.Guarded), policy: r.opts.Policy, exists: true, source: e.Kind, have: fsys.Regular}, nil
	}
	o.sealed = conflictOf(claim.Sealed)
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
	o.ours, o.sealed = p.made, conflictOf(claim.Sealed)
	switch {
	case o.source != o.have:
	case o.source != fsys.Regular:
		if o.policy != PolicyNever {
			o.sameNode, err = e.sameNode(p)
		}
	default:
		if p.target.earlier != nil {
			o.journal = r.observeJournal(e, p)
		}
		if o.hashing && o.upToDate() {
			kept := r.recorded(e, p)
			o.line, o.lineAt, o.lineHolds = kept.Digests, kept.Line, kept.Complete && e.expected.Met(kept.Digests)
		}
	}
	return o, err
}

// observationOf returns the observation that follows from the metadata of an entry of the source and of
// the existing entry.
func (r *copier) observationOf(s *dest.FileSystem, src, have fsys.Info) observation {
	o := observation{
		policy: r.opts.Policy, hashing: len(r.opts.Hashes) > 0,
		exists: true, source: src.Kind, have: have.Kind,
		sameSize: src.Size == have.Size, sameTime: s.SameTime(src.Mtime, have.Mtime),
	}
	o.newer = !o.sameTime && have.Mtime.Compare(src.Mtime) > 0
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
func (r *copier) observeJournal(e *entry, p *transfer) (j journalView) {
	left := p.target.earlier.Judge(e.manifestPath(p), e.Meta.Info, p.have, timeStampsOf(p.dd.system))
	if j.listed = left.Listed && e.expected.Met(left.Digests); j.listed {
		if len(left.Digests) > 0 {
			j.digests = left.Digests
		}
		return j
	}
	j.suspect = left.MayBeIncomplete && !p.target.leftBefore(e.Path)
	return j
}

func quoteName(s string) string { return quote.Name(s) }
