package engine

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/seed65876f4f/sealift/internal/dest"
	"github.com/seed65876f4f/sealift/internal/event"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/metadata"
	"github.com/seed65876f4f/sealift/internal/resume"
)

// openLog reads the journal of interrupted runs, and begins or continues the log of this copy.
// In a dry run it only reads.
func (t *target) openLog(r *run) error {
	source, err := r.route.SourcePath()
	if err != nil {
		return err
	}
	o := resume.Options{
		Source:     source,
		File:       t.Name,
		Terms:      r.opts.logTerms(),
		Hashes:     r.opts.Hashes,
		KeepTimes:  r.opts.Preserve&metadata.PreserveTimes != 0,
		Durable:    r.opts.Sync != dest.SyncNone,
		TimeStamps: t.timeStamps,
	}
	var warnings []error
	if r.opts.DryRun {
		t.earlier, warnings, err = resume.ReadLogs(t.Root, resume.JournalName(t.Name), o)
	} else if t.earlier, warnings, err = t.journal.ReadLogs(o); err == nil {
		t.log, err = t.journal.Begin(t.earlier)
	}
	for _, w := range warnings {
		r.report(event.Event{Kind: event.Warning, Target: t.Given, Err: w})
	}
	return err
}

// logTerms returns, as one word, the options that the content of the log depends on, and those
// that select files. A log with other terms cannot be continued. The policy and
// --preserve are not included. A file in the log equals the source under every policy, and its
// metadata is updated like that of any other equal file.
func (o *Options) logTerms() string {
	names := make([]string, len(o.Hashes))
	for i, h := range o.Hashes {
		names[i] = string(h)
	}
	values := url.Values{
		"hash":   {strings.Join(names, ",")},
		"part":   {fmt.Sprintf("%x,%x,%t", o.Filter.Fingerprint(), o.Only.Fingerprint(), o.OneFileSystem)},
		"sparse": {o.Sparse.String()},
	}
	if o.Reflink == ReflinkNever { // the written part of a large file may be a clone
		values.Set("reflink", o.Reflink.String())
	}
	return values.Encode()
}

// part reports whether filters can exclude files of the source from the run.
func (o *Selection) part() bool { return o.Filter != nil || o.Only != nil || o.OneFileSystem }

// timeStamps describes the time stamps of the file system of a device. ok is false if the run
// has not met that file system.
func (t *target) timeStamps(device uint64) (stamps resume.TimeStamps, ok bool) {
	s := t.FileSystems.On(device)
	if s == nil {
		return stamps, false
	}
	return timeStampsOf(s), true
}

func timeStampsOf(s *dest.FileSystem) resume.TimeStamps {
	return resume.TimeStamps{ChangeTimes: s.ChangeTimes, Granularity: s.Granularity, Slack: s.Slack}
}

// reportLog reports, once, that the log of a destination has failed.
func (t *target) reportLog() {
	err := t.log.Failure()
	inPlan := err != nil && t.log.Clock() != nil // the log of a task, on the file system of the plan
	if inPlan {
		err = fmt.Errorf("the log of the task, in the plan, cannot be written: %w", err)
	}
	switch {
	case err == nil:
	case inPlan && fsys.DestinationLost(err):
		t.Drop("", errors.New(err.Error())) // drop adds the free space of the destination to an error that wraps ENOSPC
	case fsys.DestinationLost(err):
		t.Drop("", err)
	case !inPlan && t.FileSystems.Root() != nil && t.FileSystems.Root().SharesSyncErrors(): // the error may be about the files that the log lists
		t.DropUnflushed("", err)
	case !t.Dropped():
		if gone, cause := t.IsGone(err); gone && !inPlan {
			t.Drop("", cause)
			return
		}
		t.FailEnd(failure.StageJournal, err)
	}
}

// kindSuspect is the warning of warnSuspect.
const kindSuspect = "suspect files"

// warnSuspect warns, once, of files that an interrupted run may have damaged and that policy
// "never" leaves alone.
func (t *target) warnSuspect(path string) {
	err := errors.New(`it differs from the source and was changed since a copy was interrupted, as others may be; policy "never" leaves it unchanged`)
	t.WarnOf(kindSuspect, path, err)
}
