package engine

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/seed65876f4f/sealift/internal/dest"
	"github.com/seed65876f4f/sealift/internal/event"
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
		TimeStamps: t.FileSystems.TimeStamps,
	}
	var warnings []error
	if r.opts.DryRun {
		t.Earlier, warnings, err = resume.ReadLogs(t.Root, resume.JournalName(t.Name), o)
	} else if t.Earlier, warnings, err = t.Journal.ReadLogs(o); err == nil {
		t.Log, err = t.Journal.Begin(t.Earlier)
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

// kindSuspect is the warning of warnSuspect.
const kindSuspect = "suspect files"

// warnSuspect warns, once, of files that an interrupted run may have damaged and that policy
// "never" leaves alone.
func (t *target) warnSuspect(path string) {
	err := errors.New(`it differs from the source and was changed since a copy was interrupted, as others may be; policy "never" leaves it unchanged`)
	t.WarnOf(kindSuspect, path, err)
}
