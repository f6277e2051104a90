package resume

import (
	"time"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/journal"
)

// TimeStamps describes the time stamps of a file system.
type TimeStamps struct {
	// ChangeTimes means that programs cannot set a file's change time. So it shows whether
	// the file has changed since an instant.
	ChangeTimes bool
	Granularity int64 // granularity of modification times in nanoseconds
	// Slack is how much earlier a time stamp may be here than on the file system of the
	// destination's root, whose clock and granularity may differ.
	Slack time.Duration
}

// SameTime reports whether two modification times are equal at the granularity of the file system.
func (t TimeStamps) SameTime(a, b fsys.Time) bool { return a.Within(b, t.Granularity) }

// before reports whether a time stamp of this file system is certainly earlier than at, a
// time stamp of the root's file system.
func (t TimeStamps) before(stamp, at fsys.Time) bool {
	if stamp.Compare(at) >= 0 {
		return false
	}
	stamp.Sec += int64(t.Slack / time.Second)
	stamp.Nsec += int64(t.Slack % time.Second)
	if stamp.Nsec >= 1e9 {
		stamp.Sec, stamp.Nsec = stamp.Sec+1, stamp.Nsec-1e9
	}
	return stamp.Compare(at) < 0
}

// Judgement describes a file that interrupted runs may have changed.
type Judgement struct {
	// Listed: a checkpoint covers the file, and neither it nor the source's file has
	// changed since. Digests are those of both.
	Listed  bool
	Digests hash.Digests
	// MayBeIncomplete: the file may be that of an interrupted run. After a power cut, such
	// a file can have the right size and time and hold zeros.
	MayBeIncomplete bool
}

// Judge judges the file that have describes, at path in the destination. src describes the
// source's file; t is for the file system of have.
func (r *Reader) Judge(path string, src, have fsys.Info, t TimeStamps) Judgement {
	j := Judgement{MayBeIncomplete: r.Interrupted && r.changedSince(src, have, t)}
	if digests, ok := r.listed(path, src, have, t); ok {
		j.Listed, j.Digests = true, digests
	}
	return j
}

// changedSince reports whether the file that have describes may have changed since the first
// interrupted run. If programs can set the change time, the modification time decides. A file that
// gets its name has the modification time of the source, or that of the writing.
func (r *Reader) changedSince(src, have fsys.Info, t TimeStamps) bool {
	if t.ChangeTimes {
		return !t.before(have.Ctime, r.begun)
	}
	return t.SameTime(have.Mtime, src.Mtime) || !t.before(have.Mtime, r.begun)
}

// listed returns the digests of a file that an interrupted run has copied or found equal,
// and synced. Neither it nor the source's file may have changed since. Only a change time
// that programs cannot set shows that.
func (r *Reader) listed(path string, src, have fsys.Info, t TimeStamps) (hash.Digests, bool) {
	if r.known == nil {
		return nil, false
	}
	f, at, ok, err := r.known.File(path)
	if err != nil || !ok || !r.fits(&f, src, have) { // a record that cannot be read does not count
		return nil, false
	}
	if at.Sec > time.Now().Unix() { // the clock was set back, so the change time proves nothing
		return nil, false
	}
	if !r.opts.KeepTimes || !t.SameTime(have.Mtime, src.Mtime) {
		return nil, false // a rename of its directory may have put another file here
	}
	return f.Digests, t.ChangeTimes && t.before(have.Ctime, at)
}

// Touched implements record.Interrupted. It reports whether an interrupted run may have
// changed the file that have describes, and which digests it should then have.
func (r *Reader) Touched(path string, have fsys.Info) (digests hash.Digests, touched bool) {
	if r.known != nil {
		f, _, ok, err := r.known.File(path)
		if err == nil && ok && f.Size == have.Size && r.fitsHashes(f.Digests) {
			return f.Digests, true
		}
	}
	t, ok := r.opts.TimeStamps(have.ID.Dev)
	return nil, !ok || !t.ChangeTimes || !t.before(have.Ctime, r.begun)
}

// fits reports whether a record is about the current file of the source, and has the
// digests that this run needs.
func (r *Reader) fits(f *journal.File, src, have fsys.Info) bool {
	return f.Size == src.Size && f.Mtime == src.Mtime && f.Ctime == src.Ctime && have.Size == src.Size && r.fitsHashes(f.Digests)
}

// fitsHashes reports whether digests are of the hashes of this run.
func (r *Reader) fitsHashes(digests hash.Digests) bool {
	if len(digests) != len(r.opts.Hashes) {
		return false
	}
	for i, a := range r.opts.Hashes {
		if len(digests[i]) != a.Size() {
			return false
		}
	}
	return true
}
