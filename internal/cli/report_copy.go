package cli

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/seed65876f4f/sealift/internal/bag"
	"github.com/seed65876f4f/sealift/internal/engine"
	"github.com/seed65876f4f/sealift/internal/event"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/outfile"
	"github.com/seed65876f4f/sealift/internal/quote"
	"github.com/seed65876f4f/sealift/internal/report"
)

// copiedOver reports whether a place is in a destination, and the source has an entry of this name.
// If the source is a file, it reports whether the place is that of its copy.
func copiedOver(place *outfile.Place, o *engine.Options) bool {
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
		copied: func(p *outfile.Place) bool { return copiedOver(p, o) },
		read:   []string{o.Source}, written: o.Targets,
		shown: []reportTree{{role: "Source", path: o.Source}}, fs: o.FS,
	}
	for i, t := range o.Targets {
		role := "Destination"
		if len(o.Targets) > 1 {
			role = fmt.Sprintf("Destination %d", i+1)
		}
		used.shown = append(used.shown, reportTree{role: role, path: t})
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
func (r *copyReporter) each(e *event.Entry) {
	o := &r.flags.options
	readsBack := o.Verify != engine.VerifyOff && !o.DryRun
	if e.Kind == fsys.Directory {
		return
	}
	f := &report.File{Path: e.Path, Kind: kindName(e.Kind), Size: e.Size, Mtime: e.Mtime.Sec}
	for _, d := range e.Digests {
		f.Digests = append(f.Digests, d)
	}
	for i, outcome := range e.Outcomes {
		result := cmp.Or(outcome, "not copied")
		if readsBack && e.Kind == fsys.Regular && outcome != "" && outcome != "conflict" && !e.Listed[i] {
			result += report.NotVerified
		}
		f.Results = append(f.Results, result)
	}
	r.page.file(f)
}

// markEntry adds a result to the row of an entry.
func (r *copyReporter) markEntry(e event.Event, result string) {
	targets := r.flags.options.Targets
	if i := slices.Index(targets, e.Target); i >= 0 && len(targets) > 1 {
		result += fmt.Sprintf(" at destination %d", i+1)
	}
	r.page.mark(e.Path, result)
}

// onPage adds what only the page of a copy has.
func (c *copyOutcome) onPage(page *report.Page) {
	if c.options.Verify != engine.VerifyOff && !c.DryRun {
		cut := c.options.FailFast && c.s.Errors+c.s.Mismatches > 0
		for _, t := range c.s.Targets {
			page.ReadBack = append(page.ReadBack, t.Lost == nil && t.Verified > 0 && !cut && !c.stopped)
		}
	}
	if c.Limit != nil {
		page.Shares = reportShares(c.s, len(c.s.Targets) > 1)
	}
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
	return "All files are listed in " + strings.Join(names, ", ") + "."
}

// reportShares returns the places that the run has waited for, the largest share first.
func reportShares(s *engine.Summary, several bool) (list []report.Share) {
	for _, share := range s.Shares {
		list = append(list, report.Share{Place: briefly(share.Place, share.Target, several), Part: share.Share})
	}
	slices.SortStableFunc(list, func(a, b report.Share) int { return cmp.Compare(b.Part, a.Part) })
	return list
}
