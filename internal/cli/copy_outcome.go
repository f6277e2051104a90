package cli

import (
	"encoding/hex"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/seed65876f4f/sealift/internal/engine"
	outcomes "github.com/seed65876f4f/sealift/internal/outcome"
	"github.com/seed65876f4f/sealift/internal/quote"
	"github.com/seed65876f4f/sealift/internal/record"
)

// copyOutcome is the outcome of copy.
type copyOutcome struct {
	headJSON
	Source nameJSON `json:"source"` // The source, as it was given or as the plan has it.
	// Whether nothing was written: the numbers are of what would be done, or merge only reports the states
	// of the shards.
	DryRun bool `json:"dry_run"`
	copiedJSON
	Reserved  reservedJSON   `json:"reserved"`  // Journals, markers and temporaries of unfinished copies in the source, which no copy gets.
	Conflicts []conflictJSON `json:"conflicts"` // Names that the policy left alone.
	// Mismatches, errors and destinations dropped, in the order in which they were found.
	endJSON

	stopped bool // true if a signal stopped the run
}

// copiedJSON is the outcome of a copy, of a merge, and of each shard of run.
type copiedJSON struct {
	verdict
	// Numbers of entries of each kind. With several destinations, an entry still counts once. It counts in
	// the first of created, replaced, metadata_updated, up_to_date and kept that is true at any
	// destination.
	Counts engine.Totals `json:"counts"`
	// Size of the files copied, in bytes, without resumed_bytes. With several destinations, a file counts
	// once.
	amountJSON
	// The average speed of reading back, of all destinations together, in bytes per second, without
	// decimals; null if it is unknown. For merge, the time is that in which at least one task was reading
	// back.
	ReadBackRate *float64 `json:"read_back_rate"`
	ResumedFiles int64    `json:"resumed_files"` // Files that an interrupted run had copied, and that were not read again.
	ResumedBytes int64    `json:"resumed_bytes"` // Size of these files, and of the parts of other files that were already copied, in bytes.
	// The destinations, in the order of the command line or of the plan; empty if the copy ended before it
	// began.
	Destinations []destinationJSON `json:"destinations"`
	// The place that the run waited for most, or all destinations together. It is null if nothing was
	// copied, in a dry run, after less than a tenth of a second, and for merge: each task reports its own.
	Limit *shareJSON `json:"limit"`

	options *engine.Options
	s       *engine.Summary
	copying time.Duration // time without reading back
}

// destinationJSON is the outcome at one destination.
type destinationJSON struct {
	// The destination, as it was given.
	nameJSON
	Verdict string `json:"verdict"` // The verdict about this destination.
	// The volume that holds the destination, when the command began. A text is empty if it is unknown, and
	// has U+FFFD in place of bytes that are not UTF-8.
	Volume volumeJSON `json:"volume"`
	engine.DestinationCounts
	// Regular files of the source that are not at this destination, conflicts aside; null if the run ended
	// before all files of the source were counted.
	Missing *int64 `json:"missing"`
	// Large files of which the destination has the beginning, which the next run continues.
	PartialFiles int64 `json:"partial_files"`
	PartialBytes int64 `json:"partial_bytes"` // Size of these parts, in bytes.
	// The reason for which the destination was dropped, as text for people; null if it was not dropped.
	Dropped *string `json:"dropped"`
	// The average speed of copying to this destination, until everything was on the device, in bytes per
	// second, without decimals; null if it is unknown. For merge, the time is that in which at least one
	// task was copying to it.
	Rate *float64 `json:"rate"`
	// The average speed of reading it back, in bytes per second, without decimals; null if it is unknown. The
	// time in which only other destinations were read is not part of it.
	ReadBackRate *float64 `json:"read_back_rate"`
	// The manifests that were written, one for each hash; none in a dry run, if the run was stopped, and
	// for a shard, because the merge writes them. With --bag, the manifests, tag manifests and other tag
	// files of a bag that is complete. With --mhl=classic, the media hash list as well.
	Manifests []manifestJSON `json:"manifests"`
	// With --mhl, the generations of ASC MHL histories that were written here: those of nested histories,
	// the deepest first, and then that of the destination.
	Generations []generationJSON `json:"generations"`
	// The replaced files that --backup-dir keeps; null without it, and with policies that replace nothing.
	Backup *backupJSON `json:"backup"`

	volume string
	t      *engine.TargetSummary
}

// reservedJSON counts the journals, markers and temporaries in the source, which no copy gets.
type reservedJSON struct {
	Count int64      `json:"count"` // Their number.
	Paths []nameJSON `json:"paths"` // The first of them, relative to the source.
}

type manifestJSON struct {
	// The manifest, below the destination as it was given.
	nameJSON
	// The hash; empty for bagit.txt and bag-info.txt, and the first one of a media hash list. Others may
	// be added.
	Algorithm string `json:"algorithm"`
	Lines     int    `json:"lines"` // The number of files that it lists.
	// The number of lines of the previous manifest that were dropped, because the file is gone or this
	// copy replaced it.
	Dropped int `json:"dropped"`
	// SHA-256 of the manifest itself, in hexadecimal; empty if no line was left and the manifest was
	// removed.
	SHA256 string `json:"sha256"`
}

// backupJSON is the backup directory, with the number of replaced files that it keeps.
type backupJSON struct {
	// The backup directory, as the user would write it.
	nameJSON
	Files int64 `json:"files"` // Replaced files that this run has kept; in a dry run, files that it would keep.
}

type conflictJSON struct {
	// The entry, relative to the source.
	nameJSON
	Destination string `json:"destination"` // The destination, as it was given. Bytes that are not UTF-8 are U+FFFD.
	Error       string `json:"error"`       // The cause, in English, for people. The text may change.
	// The value of --overwrite-policy that would replace it; absent if none would. Others may be added.
	Hint string `json:"hint,omitempty"`
}

// newCopyOutcome returns the outcome of a copy or a merge.
func newCopyOutcome(s *engine.Summary, r *copyReporter, result outcome) *copyOutcome {
	c := &copyOutcome{
		headJSON: r.head(), Source: newNameJSON(r.flags.options.Source), DryRun: s.DryRun,
		copiedJSON: r.newCopied(s, result), Reserved: reservedJSON{s.Reserved, []nameJSON{}}, endJSON: r.ending(result),
		stopped: result.signal != nil,
	}
	c.Counts.Errors, c.Counts.Mismatches = r.counts()
	r.keep(func() { c.Conflicts = list(r.mu.conflicts) })
	for _, path := range s.ReservedAt {
		c.Reserved.Paths = append(c.Reserved.Paths, newNameJSON(path))
	}
	c.verdict = copyVerdict(c.options, s, c.Counts.Errors, c.Counts.Mismatches, result, r.again)
	c.verdict.close(result, r.where)
	return c
}

// newCopied returns the outcome of a copy without its verdict.
func (r *copyReporter) newCopied(s *engine.Summary, result outcome) copiedJSON {
	c := copiedJSON{
		Counts: s.Totals, amountJSON: newAmountJSON(s.Bytes, s.Elapsed), ResumedFiles: s.ResumedFiles, ResumedBytes: s.ResumedBytes,
		Destinations: []destinationJSON{}, Limit: newLimitJSON(s),
		options: &r.flags.options, s: s, copying: s.Copying(),
	}
	c.Rate = math.Round(rate(s.Bytes, c.copying))
	readBack := int64(0)
	for i := range s.Targets {
		readBack += s.Targets[i].ReadBytes
		c.Destinations = append(c.Destinations, newDestination(s, i, r.volumes.at(s.Targets[i].Path), result))
	}
	c.ReadBackRate = knownRate(readBack, s.ReadBack)
	return c
}

func newDestination(s *engine.Summary, i int, v volume, result outcome) destinationJSON {
	t := &s.Targets[i]
	d := destinationJSON{
		nameJSON: newNameJSON(t.Path), Verdict: copyWords(s.DryRun).bad.name, Volume: newVolumeJSON(v), DestinationCounts: t.DestinationCounts,
		PartialFiles: t.PartialFiles, PartialBytes: t.PartialBytes,
		Rate: knownRate(t.Copied.Bytes, t.Flushed), ReadBackRate: knownRate(t.ReadBytes, t.ReadBack),
		Manifests: []manifestJSON{}, Generations: []generationJSON{}, volume: v.text(), t: t,
	}
	if isComplete(s, t, result) {
		d.Verdict = copyWords(s.DryRun).good.name
	}
	if s.Total >= 0 {
		d.Missing = new(s.Total - t.Present - t.Left)
	}
	if t.Lost != nil {
		d.Dropped = new(t.Lost.Error())
	}
	if t.BackupDir != "" {
		d.Backup = &backupJSON{newNameJSON(t.BackupDir), t.BackedUp}
	}
	for _, m := range t.Manifests {
		if m.Generation {
			d.Generations = append(d.Generations, generationJSON{newNameJSON(m.Path), m.Lines, m.SHA256})
			continue
		}
		d.Manifests = append(d.Manifests, manifestJSON{newNameJSON(m.Path), m.Algorithm, m.Lines, m.Dropped, m.SHA256})
	}
	return d
}

// knownRate returns bytes per second, nil if nothing was moved or the time is unknown.
func knownRate(bytes int64, elapsed time.Duration) *float64 {
	if bytes == 0 || elapsed <= 0 {
		return nil
	}
	return new(math.Round(rate(bytes, elapsed)))
}

// logged implements document.
func (c *copyOutcome) logged() []any {
	return []any{
		"verdict", c.Name, "files", c.Counts.Files, "bytes", c.Bytes, "skipped", c.Counts.Skipped, "conflicts", c.Counts.Conflicts,
		"mismatches", c.Counts.Mismatches, "errors", c.Counts.Errors, "elapsed", c.s.Elapsed,
	}
}

// summary implements document.
func (c *copyOutcome) summary() summary {
	s := c.copiedJSON.summary()
	s.elsewhere, s.more = listedElsewhere(c.s), c.onPage
	if c.Reserved.Count > 0 {
		s.rows.Add("not copied", outcomes.Plural(c.Reserved.Count, "leftover", "reserved.count").With(" of unfinished copies: "+quote.Join(quote.Names(c.s.ReservedAt), int(c.Reserved.Count))))
	}
	return s
}

// summary returns the part that copy, merge and run have.
func (c *copiedJSON) summary() summary {
	s := summary{verdict: &c.verdict, elapsed: c.s.Elapsed}
	rows, n, done, in := &s.rows, &c.Counts, "copied", " in "+duration(c.copying)
	if c.s.DryRun {
		done, in = "would copy", ""
	}
	rows.Add(done, outcomes.Plural(n.Files, "file", "counts.files"),
		outcomes.Plural(n.Directories, "directory", "counts.directories").Some(),
		outcomes.Plural(n.Links, "symbolic link", "counts.links").Some(),
		outcomes.Plural(n.HardLinks, "hard link", "counts.hard_links").Some(),
		outcomes.Plural(n.Specials, "special file", "counts.specials").Some())
	size := []outcomes.Value{outcomes.Size(c.Bytes, "bytes").With(in)}
	if !c.s.DryRun {
		size = append(size, outcomes.Rate(&c.Rate, "rate"))
	}
	rows.Add("size", size...)
	if c.Limit != nil {
		rows.Add("limited by", outcomes.Text(limited(&c.s.Limit, len(c.Destinations) > 1)))
	}
	rows.Add("continued", outcomes.Plural(c.ResumedFiles, "file", "resumed_files").Some(), outcomes.Size(c.ResumedBytes, "resumed_bytes").Some(), resumed(c))
	rows.Add("left out", outcomes.Plural(n.LeftOut, "entry", "counts.left_out").Some().With(", by filters"))
	rows.Problem("conflicts", outcomes.Number(n.Conflicts, "counts.conflicts").Some())
	rows.Problem("mismatches", outcomes.Number(n.Mismatches, "counts.mismatches").Some())
	rows.Add("warnings", outcomes.Number(n.Warnings, "counts.warnings").Some())
	rows.Problem("errors", outcomes.Number(n.Errors, "counts.errors").Some())
	for i := range c.Destinations {
		d := &c.Destinations[i]
		s.trees = append(s.trees, treeRows{quote.Name(d.t.Path), d.rows(c, fmt.Sprintf("destinations.%d.", i))})
	}
	return s
}

// resumed returns the end of the row with the work of an interrupted copy.
func resumed(c *copiedJSON) outcomes.Value {
	if c.ResumedFiles+c.ResumedBytes == 0 {
		return outcomes.Value{}
	}
	return outcomes.Text(" that an interrupted copy had done")
}

// rows returns the rows about a destination. path is its path in the JSON output.
func (d *destinationJSON) rows(c *copiedJSON, path string) (rows outcomes.Rows) {
	o, n, verifies := c.options, &d.DestinationCounts, c.options.Verify != engine.VerifyOff && !c.s.DryRun
	if d.Dropped != nil {
		rows.Problem("dropped", outcomes.Text(quote.Text(*d.Dropped)))
	}
	rows.AddTo(outcomes.TextOnly, "volume", outcomes.Text(d.volume)) // the page has more about it
	var entries []outcomes.Value
	for _, part := range []struct {
		n          int64
		what, path string
	}{
		{n.Counts.Created, " created", "created"}, {n.Counts.Replaced, " replaced", "replaced"},
		{n.Counts.Updated, " metadata updated", "metadata_updated"}, {n.Counts.UpToDate, " up to date", "up_to_date"},
		{n.Counts.Kept, " kept", "kept"},
	} {
		value := outcomes.Number(part.n, path+"counts."+part.path).Some().With(part.what)
		entries = append(entries, value)
	}
	rows.Add("entries", entries...)
	if len(c.Destinations) > 1 && !c.s.DryRun {
		rows.Add("written", outcomes.Size(n.Bytes, path+"bytes").Some(), outcomes.Rate(d.Rate, path+"rate"))
	}
	if d.PartialFiles > 0 {
		rows.Add("unfinished", outcomes.Plural(d.PartialFiles, "file", path+"partial_files"), outcomes.Size(d.PartialBytes, path+"partial_bytes").With(" kept for the next run"))
	}
	if d.Backup != nil && d.Backup.Files > 0 {
		kept := " kept in "
		if c.s.DryRun {
			kept = " to be kept in "
		}
		rows.Add("backup", outcomes.Plural(d.Backup.Files, "replaced file", path+"backup.files").With(kept+quote.Name(d.t.BackupDir)))
	}
	switch {
	case verifies && d.Dropped == nil:
		rows.Add("verified", outcomes.Plural(n.Verified, "file", path+"verified"), outcomes.Text(readBack(n)), outcomes.Rate(d.ReadBackRate, path+"read_back_rate"))
	case o.Verify == engine.VerifyOff && !c.s.DryRun && len(o.Hashes) == 0:
		rows.AddTo(outcomes.PageOnly, "verified", outcomes.Text("not read back, and no digest was computed"))
	case o.Verify == engine.VerifyOff && !c.s.DryRun:
		rows.AddTo(outcomes.PageOnly, "verified", outcomes.Text("not read back; the digests are those of the one read of the source"))
	}
	if d.Present > 0 { // otherwise the file there, if any, is not the one that was read
		for i, digest := range d.t.Digests {
			rows.Add(string(o.Hashes[i]), outcomes.Name(hex.EncodeToString(digest))) // these are the digests of the single file
		}
	}
	rows.Add("ignored", outcomes.Plural(n.Ignored, "file", path+"ignored").Some().With(" not in the history"))
	manifests, generations := 0, 0
	for _, m := range d.t.Manifests {
		name := outcomes.Name(quote.Name(m.Path))
		if m.Generation {
			rows.Add("generation", name, outcomes.Plural(int64(m.Lines), "file", fmt.Sprintf("%sgenerations.%d.files", path, generations)))
			generations++
			continue
		}
		manifests++
		if m.Algorithm == "" && m.Lines == 0 { // bagit.txt and bag-info.txt
			rows.Add("tag file", name)
			continue
		}
		addManifest(&rows, m, fmt.Sprintf("%smanifests.%d.lines", path, manifests-1))
		if m.SHA256 != "" && d.t.Digests == nil {
			rows.Add("its sha256", outcomes.Name(m.SHA256)) // the line has 76 columns
		}
	}
	return rows
}

// addManifest adds a row with a manifest and the number of its lines.
func addManifest(rows *outcomes.Rows, m record.Written, path string) {
	lines := outcomes.Plural(int64(m.Lines), "line", path)
	if m.Dropped > 0 {
		lines = lines.With(", " + grouped(int64(m.Dropped)) + " dropped (files that are gone or were replaced)")
	}
	rows.Add("manifest", outcomes.Name(quote.Name(m.Path)), lines)
}

// readBack says whether the verified files of a destination were read from the device.
func readBack(n *engine.DestinationCounts) string {
	switch {
	case n.Verified == 0:
		return ""
	case n.Cached == 0:
		return "read back from the device"
	case n.Cached < n.Verified:
		return grouped(n.Cached) + " of them verified through cache (no device to read)"
	}
	return "verified through cache (no device to read)"
}

// isComplete reports whether a destination has everything that was asked for. Failures that concern the
// source are those of all destinations.
func isComplete(s *engine.Summary, t *engine.TargetSummary, result outcome) bool {
	common := s.Errors + s.Mismatches
	for i := range s.Targets {
		common -= s.Targets[i].Failures
	}
	missing := s.Total < 0 || s.Total > t.Present+t.Left
	return t.Lost == nil && t.Failures+t.Conflicts+common <= 0 && (s.DryRun || !missing) && result.signal == nil
}

// copyWords are the words of a copy, which may be a dry run.
func copyWords(dryRun bool) verdict {
	if dryRun {
		return verdict{
			good: words{"would_be_complete", "dry run: nothing was written"},
			bad:  words{"would_not_be_complete", "dry run: nothing was written, and the copy would not be complete"},
		}
	}
	return verdict{good: words{"complete", "complete"}, bad: words{"not_complete", "NOT COMPLETE"}}
}

// copyVerdict is the first line of the summary of a copy.
func copyVerdict(o *engine.Options, s *engine.Summary, failures, mismatches int64, result outcome, again string) verdict {
	v := copyWords(s.DryRun)
	v.causes = s.Causes
	switch {
	case s.DryRun || s.Total < 0:
	case s.Total == 0 && s.LeftOut > 0:
		v.good.text = "complete: 0 of " + plural(s.LeftOut, "file") + " selected"
	default:
		v.good.text = "complete: " + plural(s.Total, "file") + " at " + destinations(s) + verified(o, s)
	}
	stopped := result.signal != nil || o.FailFast
	if s.DryRun {
		v.addOutcomes(mismatches, failures, s.Conflicts)
	} else if list, some := lacking(s, result, stopped); some {
		v.reasons = list
	} else if v.reasons = list; len(list) == 0 {
		v.addOutcomes(mismatches, failures, s.Conflicts)
	} else {
		v.addOutcomes(0, 0, s.Conflicts)
	}
	switch {
	case s.DryRun:
	case s.Errors+s.Mismatches+failures+mismatches > 0 || result.signal != nil:
		v.next = s.Causes.Next(again)
	case s.Conflicts > 0:
		v.next = "see the hint after each conflict"
	}
	return v
}

// destinations names the destination, or counts them.
func destinations(s *engine.Summary) string {
	if len(s.Targets) == 1 {
		return quote.Name(s.Targets[0].Path)
	}
	return plural(int64(len(s.Targets)), "destination")
}

// verified returns the end of the verdict of a complete copy: whether its files were read back,
// and through what.
func verified(o *engine.Options, s *engine.Summary) string {
	cached := false
	for _, t := range s.Targets {
		if o.Verify == engine.VerifyOff || t.Verified == 0 {
			return ""
		}
		cached = cached || t.Cached > 0
	}
	if cached {
		return ", verified through the cache"
	}
	return ", verified"
}

// lacking returns what each destination lacks: "143 of 158 files missing at 'dst'". If others are complete, it
// returns these first, and counts the failures at those that have all files.
func lacking(s *engine.Summary, result outcome, stopped bool) (list []string, some bool) {
	var good []string
	for i := range s.Targets {
		if isComplete(s, &s.Targets[i], result) {
			good = append(good, quote.Name(s.Targets[i].Path)+" is complete")
		}
	}
	some = 0 < len(good) && len(good) < len(s.Targets)
	for i := range s.Targets {
		t := &s.Targets[i]
		name := quote.Name(t.Path)
		switch text := missingAt(s, t, stopped); {
		case some && isComplete(s, t, result):
		case text != "":
			list = append(list, text+" at "+name)
		case t.Lost != nil:
			list = append(list, name+" was dropped")
		case some:
			var v verdict
			v.addOutcomes(0, t.Failures, t.Conflicts)
			list = append(list, strings.Join(v.reasons, ", ")+" at "+name)
		}
	}
	if some {
		list = append(good, list...)
	}
	return list, some
}

// missingAt returns how many files a destination lacks. It says "missing or not checked" if the run ended
// early and the destination existed before: files there may be up to date. If the source was not counted
// completely, it returns how many files are present. It returns "" if nothing is known to be missing.
func missingAt(s *engine.Summary, t *engine.TargetSummary, stopped bool) string {
	present := t.Present + t.Left
	switch lacks := s.Total - present; {
	case s.Total < 0 && present > 0:
		return "only " + plural(present, "file")
	case s.Total < 0 || lacks <= 0:
		return ""
	case !t.Created && (t.Lost != nil || stopped):
		return grouped(lacks) + " of " + plural(s.Total, "file") + " missing or not checked"
	default:
		return grouped(lacks) + " of " + plural(s.Total, "file") + " missing"
	}
}
