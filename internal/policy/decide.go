package policy

import (
	"bytes"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/manifest"
)

// Action is what is to be done with an entry at one destination.
type Action uint8

const (
	None          Action = iota
	Create               // the name is free
	Replace              // replace the existing entry
	Keep                 // keep the existing entry, which is up to date; update its metadata if needed
	Leave                // leave the existing entry unchanged: policy "never"; reports call it "kept"
	Compare              // compare the content, which decides between two other actions
	LeaveConflict        // leave the existing entry unchanged and report a conflict
)

// Observation is what Sealift knows about an entry of the source, and about the existing entry of
// the same name at a destination, before it compares content. In the zero value there is no
// existing entry.
type Observation struct {
	Policy  Policy
	Hashing bool // the run computes digests

	Exists   bool      // there is an existing entry
	Source   fsys.Kind // of the entry in the source
	Dst      fsys.Kind // of the existing entry
	SameSize bool
	SameTime bool      // true if the times are equal at the granularity of the destination's file system
	Newer    bool      // the existing entry is newer than the source's
	SameNode bool      // two entries without data are equal: links with one target, devices with one number
	Ours     bool      // this run created the existing entry, perhaps from an earlier state of the source
	Sealed   *Conflict // why no content changes at the destination; nil for most destinations
	Guarded  *Conflict // why the existing entry stays, whatever the source has; nil for most entries

	Journal   JournalView
	Line      hash.Digests        // that earlier runs have recorded; by a record of the destination
	LineHolds bool                // line has all digests, and the source's own manifests list no different ones
	LineAt    manifest.LineNumber // which line that is; for the record of this run
}

// JournalView is what the journal of an interrupted run says of a file at the destination.
type JournalView struct {
	Listed  bool         // the file equalled the source and was flushed; neither has changed since
	Digests hash.Digests // of a listed file
	Suspect bool         // the file has changed since that run began; a power cut may have damaged content of the right size and time
}

// Decision is what happens to an entry at one destination.
type Decision struct {
	Act       Action
	Equal     Action       // for Compare: the action if the content is equal
	Different Action       // for Compare: the action if the content differs
	Conflict  *Conflict    // the reason, if one of the actions is LeaveConflict
	Content   Content      // of the existing file, as far as it is known
	Line      hash.Digests // of the previous manifests; if the source has these digests, a file that differs is damaged
	Suspect   bool         // a power cut may have damaged the file: compare the content on the device, not in the page cache
	// ReplacePartial: a file that differs is replaced if it is a partial copy, see isPartialCopy.
	ReplacePartial bool
	Unreadable     bool // the comparison has shown that the device cannot return the content
}

// ReplacesUnreadable reports whether a file whose comparison has failed with err is handled like a
// different one. That is so if it would be replaced, and its device cannot return its content.
func (d Decision) ReplacesUnreadable(err error) bool {
	if d.ReplacePartial {
		return false
	}
	return d.Suspect || d.Different == Replace && fsys.DeviceFailed(err)
}

// Content is what Sealift knows of the content of a file at a destination.
type Content struct {
	Digests hash.Digests        // for the manifest; nil if they are unknown
	Fresh   bool                // this run found them equal to the source's, so the journal may list the file
	Known   bool                // the journal of an interrupted run lists the file
	Line    manifest.LineNumber // the line of an earlier run that the digests come from; for the record of this run
}

// Conflict says why an entry is left alone, and which policy would replace it.
type Conflict struct {
	Why  string
	By   Policy // Default: no policy would
	Next string // the user's next step; "" if it is to move the existing entry away
}

func (e *Conflict) Error() string { return e.Why }

// Hint names the policy that would replace it, "" if none would.
func (e *Conflict) Hint() string {
	if e.By == Default {
		return ""
	}
	return e.By.String()
}

// Decide decides what happens to an entry at one destination. It is a pure function of the
// observation.
func Decide(o Observation) Decision {
	d := decideFree(o)
	switch {
	case o.Sealed != nil:
		return d.instead(o.Sealed)
	case o.Guarded != nil && o.Policy != Never:
		return Decision{Act: LeaveConflict, Conflict: o.Guarded}
	case o.Guarded != nil:
		return Decision{Act: Leave}
	}
	return d
}

// instead returns the decision with a conflict in place of each change of content.
func (d Decision) instead(why *Conflict) Decision {
	if d.Act == Create || d.Act == Replace {
		return Decision{Act: LeaveConflict, Conflict: why}
	}
	if d.Equal == Replace {
		d.Equal = Keep
	}
	if d.Different == Replace {
		d.Different, d.Conflict = LeaveConflict, why
	}
	return d
}

// decideFree is decide for an entry that may change.
func decideFree(o Observation) Decision {
	switch {
	case !o.Exists:
		return Decision{Act: Create}
	case o.Ours:
		return Decision{Act: Replace}
	}
	d := o.byPolicy()
	if o.Source == fsys.Regular && o.Dst == fsys.Regular {
		switch {
		case o.Journal.Listed:
			d = o.listedBefore(d)
		case o.Journal.Suspect:
			d = o.suspectBefore(d)
		case d.Act == Keep && o.Hashing:
			d = o.keepLine()
		}
	}
	return d
}

// byPolicy applies the overwrite policy to the existing entry.
func (o *Observation) byPolicy() Decision {
	switch {
	case o.Policy == Never:
		return Decision{Act: Leave}
	case o.Dst == fsys.Directory:
		return conflict("a directory is in the way", Default)
	case o.Source != o.Dst && o.cautious():
		return conflict("a "+o.Dst.String()+" is in the way", Always)
	case o.Source != o.Dst || o.Policy == Always:
		return Decision{Act: Replace}
	case o.UpToDate():
		return Decision{Act: Keep}
	}
	d := Decision{Act: Replace}
	switch {
	case o.cautious() && o.Newer:
		d = conflict("the destination is newer than the source and differs", Update)
	case o.Policy == Protect:
		d = conflict("it differs from the source", Update)
	}
	if o.Source == fsys.Regular && o.SameSize && o.Policy != Update {
		d.Act, d.Equal, d.Different = Compare, Keep, d.Act
	}
	return d
}

// cautious reports whether the policy makes a newer entry, or one of another kind, a conflict.
func (o *Observation) cautious() bool {
	return o.Policy == Default || o.Policy == Protect
}

// UpToDate reports whether the policy treats two entries of one kind as equal without comparing
// their content.
func (o *Observation) UpToDate() bool {
	if o.Source != fsys.Regular {
		return o.SameNode
	}
	return o.SameSize && o.SameTime && (o.cautious() || o.Policy == Update)
}

// listedBefore decides about a file that the journal lists. The file is up to date under every
// policy.
func (o *Observation) listedBefore(d Decision) Decision {
	act := Keep
	if d.Act == Leave {
		act = Leave
	}
	return Decision{Act: act, Content: Content{Digests: o.Journal.Digests, Known: true}}
}

// suspectBefore decides about a file that a power cut may have damaged. Its size and time prove
// nothing. The interrupted run wrote the file, so a policy that otherwise reports a conflict allows
// to replace it. Under policy "never", the file stays unchanged. If its size is right, the run
// compares it, so that the manifest can list the file if it is complete. Policy "protect" replaces
// only a partial copy, because another process may have changed the file.
func (o *Observation) suspectBefore(d Decision) Decision {
	suspect := Decision{Act: d.Act, Suspect: true}
	switch {
	case o.Policy == Protect:
		suspect.Act, suspect.Equal, suspect.Different, suspect.ReplacePartial = Compare, Keep, LeaveConflict, true
		if suspect.Conflict = d.Conflict; suspect.Conflict == nil {
			suspect.Conflict = errSameTimes
		}
	case o.SameSize && d.Act == Leave:
		suspect.Act, suspect.Equal, suspect.Different = Compare, Leave, Leave
	case o.SameSize && d.Act != Replace:
		suspect.Act, suspect.Equal, suspect.Different = Compare, Keep, Replace
	case d.Act != Leave:
		suspect.Act = Replace
	}
	return suspect
}

// keepLine decides about a file that is up to date by size and time. It keeps the line of
// an earlier manifest. Without one, or with one that the source's own manifests contradict,
// the content decides.
func (o *Observation) keepLine() Decision {
	d := Decision{Act: Keep}
	if o.Policy != Protect { // "protect" does not replace a damaged file
		d.Line = o.Line
	}
	if o.LineHolds {
		d.Content.Digests, d.Content.Line = o.Line, o.LineAt
		return d
	}
	return d.CompareInstead()
}

// CompareInstead returns the decision to compare a file that is up to date by size and time.
func (d Decision) CompareInstead() Decision {
	return Decision{Act: Compare, Equal: Keep, Different: LeaveConflict, Conflict: errSameTimes, Line: d.Line, Suspect: d.Suspect}
}

func conflict(why string, hint Policy) Decision {
	return Decision{Act: LeaveConflict, Conflict: &Conflict{Why: why, By: hint}}
}

// errSameTimes is the conflict of a file with equal size and mtime and different content.
var errSameTimes = &Conflict{Why: "it differs from the source, although size and modification time are equal", By: Checksum}

// Damaged reports whether an earlier manifest lists the file with the digests of the source. If
// the file differs from the source, it was then damaged after that manifest was written.
func (d *Decision) Damaged(source hash.Digests) bool {
	for i, digest := range d.Line {
		if digest != nil && (source == nil || !bytes.Equal(digest, source[i])) {
			return false
		}
	}
	return d.Line.Any()
}

// WhyReplaced returns the reason why an existing file was replaced. equal means that the
// Content was compared and is equal.
func (o Observation) WhyReplaced(d Decision, equal bool) string {
	switch {
	case o.Ours:
		return "the source changed while it was copied"
	case o.Source != o.Dst:
		return "was a " + o.Dst.String()
	case equal || d.Act == Keep:
		return "shares its inode with other names"
	case d.Suspect:
		return "perhaps damaged when the last run was interrupted"
	case d.Unreadable:
		return "content cannot be read"
	case d.Act == Compare && d.Different != Replace:
		return "damaged: differs from the previous manifest"
	case o.Policy == Always:
		return "--overwrite-policy=always"
	case o.Source == fsys.Symlink:
		return "link target differs"
	case o.Source != fsys.Regular:
		return "device number differs"
	case !o.SameSize:
		return "size differs"
	case d.Act == Compare:
		return "content differs"
	}
	return "modification time differs"
}
