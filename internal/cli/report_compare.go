package cli

import (
	"github.com/spf13/cobra"

	"github.com/seed65876f4f/sealift/internal/compare"
	"github.com/seed65876f4f/sealift/internal/report"
)

// openCompareReport opens the report of a comparison.
func openCompareReport(cmd *cobra.Command, o *compare.Options, file string) (*htmlReport, error) {
	var trees []reportTree
	for i, tree := range o.Trees {
		trees = append(trees, reportTree{role: compare.Letter(i), path: tree})
	}
	return openReport(cmd, o.FS, file, trees)
}

// compared is compare.Options.Each.
func (c *comparer) compared(e *compare.Entry) {
	f := &report.File{Path: e.Path, Kind: kindName(e.Kind), Size: e.Size, Mtime: mtime(e.Mtime), Results: []string{"equal"}}
	for _, event := range e.Events {
		switch event.Verdict {
		case compare.Equal:
		case compare.Unreadable:
			c.page.mark(e.Path, "unreadable in "+letters(event.Trees))
		default:
			verdict, _ := verdictText(event)
			if event.Verdict != compare.OnlyIn && len(c.options.Trees) > 2 {
				verdict += " in " + letters(event.Trees)
			}
			c.page.mark(e.Path, verdict)
		}
	}
	c.page.file(f)
}

// reportDifference adds a difference to the report.
func (c *comparer) reportDifference(e compare.Event) {
	if e.Verdict == compare.Equal {
		return
	}
	verdict, reason := verdictText(e)
	c.page.problem(report.Problem{Kind: "difference", Path: e.Path, Cause: verdict, Note: reason})
}

// writeReport writes the report of a comparison that has ended.
func (c *comparer) writeReport(s *compare.Summary, result outcome) outcome {
	return c.page.write(c.reporter, result, s.Elapsed, func(page *report.Page) {
		v := c.verdict(s)
		page.Command, page.Verdict = "compare", v.text()
		page.Good = page.Good && len(v.reasons) == 0
		page.Totals = some(1,
			number("files compared", s.Files, "counts.files"),
			number("directories", s.Directories, "counts.directories"),
			number("other entries", s.Others, "counts.others"))
		if c.options.Quick {
			page.Totals = append(page.Totals, report.Fact{Label: "content", Text: "not read, because of --quick"})
		} else {
			page.Totals = append(page.Totals, bytesFacts("size", s.Bytes, s.Elapsed)...)
		}
		page.Totals = append(page.Totals, some(1,
			problemCount("differ", s.Differ, "counts.differ"),
			problemCount("types differ", s.TypeDiffers, "counts.type_differs"),
			problemCount("metadata differs", s.MetadataDiffers, "counts.metadata_differs"),
			problemCount("unreadable", s.Unreadable, "counts.unreadable"),
			problemCount("incomplete copies", s.Incomplete, "counts.incomplete"))...)
		for _, only := range s.Only {
			page.Totals = append(page.Totals, report.Fact{Label: "only in " + letters(only.Trees), Text: onlyText(only), Bad: true})
		}
		page.Totals = append(page.Totals, some(0,
			number("left out by filters", s.LeftOut, "counts.left_out"),
			number("manifests, journals, markers and temporaries of Sealift", s.Own, "counts.own"),
			number("perhaps read from memory", s.Cached, "counts.compared_through_cache"))...)
		page.Elsewhere = plural(page.Files.Count(), "entry") + " are too many for a page, which lists only the differences."
	})
}
