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
	f := &report.File{Path: e.Path, Kind: kindName(e.Kind), Size: e.Size, Mtime: e.Mtime.Sec, Results: []string{"equal"}}
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

// complete adds what only the page of a comparison has, after its end.
func (c *comparer) complete() {
	if c.page == nil {
		return
	}
	c.page.more = func(page *report.Page) {
		page.Elsewhere = plural(page.Files.Count(), "entry") + " are too many for a page, which lists only the differences."
	}
}
