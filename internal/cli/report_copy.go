package cli

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed65876f4f/sealift/internal/bag"
	"github.com/seed65876f4f/sealift/internal/engine"
	"github.com/seed65876f4f/sealift/internal/event"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/quote"
	"github.com/seed65876f4f/sealift/internal/report"
	"github.com/seed65876f4f/sealift/internal/units"
)

// copyPage is the report of a copy.
type copyPage struct {
	*htmlReport
	options *engine.Options
	bytes   []int64 // size of the files written at each destination
}

// openCopyReport opens the report of a copy, and sets o.Each so that the copy fills it.
func openCopyReport(cmd *cobra.Command, o *engine.Options, file string) (*copyPage, error) {
	trees := []reportTree{{role: "Source", path: o.Source}}
	for i, t := range o.Targets {
		role := "Destination"
		if len(o.Targets) > 1 {
			role = fmt.Sprintf("Destination %d", i+1)
		}
		trees = append(trees, reportTree{role: role, path: t})
	}
	page, err := openReport(cmd, o.FS, file, trees)
	p := &copyPage{page, o, make([]int64, len(o.Targets))}
	if err != nil || page == nil {
		return p, err
	}
	page.algorithms = o.Hashes
	o.Each = p.each
	return p, nil
}

// copiedOver reports whether a place is in a destination, and the source has an entry of this name.
// If the source is a file, it reports whether the place is that of its copy.
func copiedOver(place *report.Place, o *engine.Options) bool {
	source, err := os.Stat(o.Source)
	single := err == nil && !source.IsDir()
	for _, t := range o.Targets {
		if single {
			dir, name := copyOfFile(o.Source, t)
			if place.Below(dir) == name {
				return true
			}
			continue
		}
		if o.Bag != nil {
			t = filepath.Join(t, bag.PayloadName)
		}
		if below := place.Below(t); below != "" {
			if _, err := os.Lstat(filepath.Join(o.Source, below)); err == nil {
				return true
			}
		}
	}
	return false
}

// copyOfFile returns the directory and the name of the copy of a file at a destination.
func copyOfFile(source, target string) (dir, name string) {
	dir, name = filepath.Split(target)
	if info, err := os.Stat(target); name == "" || err == nil && info.IsDir() {
		return target, filepath.Base(source)
	}
	return cmp.Or(dir, "."), name
}

// usedFiles are the files of a copy.
func (f *copyFlags) usedFiles(o *engine.Options) usedFiles {
	used := usedFiles{
		files:  f.selection.files(),
		trees:  []usedFile{{what: "the source" + readOnly, path: o.Source}},
		copied: func(p *report.Place) bool { return copiedOver(p, o) },
	}
	if f.plan != "" {
		used.trees = append(used.trees, usedFile{what: ofPlan, path: f.plan})
	}
	if o.Manifest != "" {
		for _, t := range o.Targets {
			if info, err := os.Stat(o.Source); err == nil && !info.IsDir() {
				t, _ = copyOfFile(o.Source, t)
			}
			if filepath.IsAbs(o.Manifest) {
				t = ""
			}
			used.files = append(used.files, usedFile{what: "the manifest", path: filepath.Join(t, o.Manifest)})
		}
	}
	return used
}

// each is engine.Options.Each.
func (p *copyPage) each(e *event.Entry) {
	if e.Kind == fsys.Directory {
		return
	}
	f := &report.File{Path: e.Path, Kind: kindName(e.Kind), Size: e.Size, Mtime: mtime(e.Mtime)}
	for _, d := range e.Digests {
		f.Digests = append(f.Digests, d)
	}
	for i, outcome := range e.Outcomes {
		f.Results = append(f.Results, cmp.Or(outcome, "not copied"))
		if e.Kind == fsys.Regular && (outcome == "created" || outcome == "replaced") {
			p.bytes[i] += e.Size
		}
	}
	p.file(f)
}

// event adds a failure or mismatch to the row of its entry.
func (p *copyPage) event(e event.Event) {
	if e.Kind != event.Failed && e.Kind != event.Mismatch {
		return
	}
	result := "failed"
	if e.Kind == event.Mismatch {
		result = "mismatch"
	}
	if i := slices.Index(p.options.Targets, e.Target); i >= 0 && len(p.options.Targets) > 1 {
		result += fmt.Sprintf(" at destination %d", i+1)
	}
	p.mark(e.Path, result)
}

// write writes the report of a copy that has ended.
func (p *copyPage) write(r *copyReporter, s *engine.Summary, result outcome) outcome {
	return p.htmlReport.write(r.reporter, result, s.Elapsed, func(page *report.Page) { p.fill(page, r, s, result) })
}

// fill adds the data of a copy to the page.
func (p *copyPage) fill(page *report.Page, r *copyReporter, s *engine.Summary, result outcome) {
	failures, mismatches := r.counts()
	verdict := copyVerdict(p.options, s, failures, mismatches, result, r.again)
	page.Command, page.Verdict = "copy", verdict.text()
	page.Good = page.Good && len(verdict.reasons) == 0
	page.Totals = copyTotals(s, failures, mismatches)
	for i := range s.Targets {
		if i+1 < len(page.Trees) {
			page.Trees[i+1].Facts = append(p.targetFacts(i, &s.Targets[i], s), page.Trees[i+1].Facts...)
		}
	}
	if limitOf(s) != nil {
		page.Shares = reportShares(s, len(s.Targets) > 1)
	}
	page.Elsewhere = plural(page.Files.Count(), "entry") + " are too many for a page, which lists only the problems." + listedElsewhere(s)
}

// copyTotals are the counts of a copy.
func copyTotals(s *engine.Summary, failures, mismatches int64) []report.Fact {
	done := "files copied"
	if s.DryRun {
		done = "files that would be copied"
	}
	facts := some(1,
		number(done, s.Files, "counts.files"),
		number("directories", s.Directories, "counts.directories"),
		number("symbolic links", s.Links, "counts.links"),
		number("hard links", s.HardLinks, "counts.hard_links"),
		number("special files", s.Specials, "counts.specials"))
	facts = append(facts, bytesFacts("size", s.Bytes, s.Elapsed)...)
	facts = append(facts, entryFacts(s.Counts, "counts.")...)
	facts = append(facts, some(0, number("continued from an interrupted run", s.ResumedFiles, "resumed_files"),
		number("left out by filters", s.LeftOut, "counts.left_out"))...)
	return append(facts, some(1,
		problemCount("errors", failures, "counts.errors"),
		problemCount("mismatches", mismatches, "counts.mismatches"),
		problemCount("conflicts", s.Conflicts, "counts.conflicts"),
		number("warnings", s.Warnings, "counts.warnings"))...)
}

// entryFacts count the entries of the source by their outcome. key is the path of the counts in
// the JSON output.
func entryFacts(c engine.Counts, key string) []report.Fact {
	return some(0,
		number("entries created", c.Created, key+"created"),
		number("entries replaced", c.Replaced, key+"replaced"),
		number("metadata updated", c.Updated, key+"metadata_updated"),
		number("up to date", c.UpToDate, key+"up_to_date"),
		number("kept", c.Kept, key+"kept"))
}

// targetFacts describe the result at one destination.
func (p *copyPage) targetFacts(i int, t *engine.TargetSummary, s *engine.Summary) (facts []report.Fact) {
	if t.Lost != nil {
		facts = append(facts, report.Fact{Label: "dropped", Text: t.Lost.Error(), Bad: true})
	}
	facts = append(facts, report.Fact{Label: "verification", Text: verification(p.options, t, s)})
	if !s.DryRun {
		written := p.bytes[i]
		if p.samples == nil { // tasks have written the files of a merge
			written = t.Copied.Bytes
		}
		facts = append(facts, report.Fact{Label: "written", Text: units.Size(written) + " (" + grouped(written) + " bytes)"})
		if speed, ok := p.samples.Speed(i); ok {
			facts = append(facts, report.Fact{Label: "rate", Text: speed.String()})
		}
	}
	facts = append(facts, entryFacts(t.Counts, fmt.Sprintf("destinations.%d.counts.", i))...)
	generations := 0
	for k, m := range t.Manifests { // generations are at the end of the list
		fact := report.Fact{
			Label: "manifest", Text: quote.Name(m.Path) + ", " + lines(m),
			Key: fmt.Sprintf("destinations.%d.manifests.%d.lines", i, k), Value: fmt.Sprint(m.Lines),
		}
		if m.Generation {
			fact.Label, fact.Text = "generation", quote.Name(m.Path)+", "+plural(int64(m.Lines), "file")
			fact.Key = fmt.Sprintf("destinations.%d.generations.%d.files", i, generations)
			generations++
		}
		facts = append(facts, fact)
		if m.SHA256 != "" {
			facts = append(facts, report.Fact{Label: "its sha256", Text: m.SHA256, Name: true})
		}
	}
	return facts
}

// verification describes how a destination was verified.
func verification(o *engine.Options, t *engine.TargetSummary, s *engine.Summary) string {
	switch {
	case s.DryRun:
		return "nothing was written"
	case o.Verify == engine.VerifyOff && len(o.Hashes) == 0:
		return "not read back, and no digest was computed"
	case o.Verify == engine.VerifyOff:
		return "not read back; the digests are those of the one read of the source"
	case t.Verified == 0:
		return "nothing was read back"
	}
	return readBack(t)
}

// listedElsewhere returns a sentence with the manifests that list the files if the page does not;
// "" if there are none.
func listedElsewhere(s *engine.Summary) string {
	var names []string
	for _, t := range s.Targets {
		for _, m := range t.Manifests {
			if m.SHA256 != "" {
				names = append(names, quote.Name(m.Path)+" (sha256 "+m.SHA256+")")
			}
		}
	}
	if len(names) == 0 {
		return ""
	}
	return " All files are listed in " + strings.Join(names, ", ") + "."
}

// reportShares returns the places that the run has waited for, the largest share first.
func reportShares(s *engine.Summary, several bool) (list []report.Share) {
	for _, share := range s.Shares {
		list = append(list, report.Share{Place: briefly(share.Place, share.Target, several), Part: share.Share})
	}
	slices.SortStableFunc(list, func(a, b report.Share) int { return cmp.Compare(b.Part, a.Part) })
	return list
}
