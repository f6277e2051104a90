package cli

import (
	"github.com/seed65876f4f/sealift/internal/compare"
)

// compareReportJSON is the JSON output of compare.
type compareReportJSON struct {
	headJSON
	Equal    bool              `json:"equal"` // true if everything was compared, and nothing differs
	Trees    []compareTreeJSON `json:"trees"`
	OneWay   bool              `json:"one_way"`
	Quick    bool              `json:"quick"`
	Metadata bool              `json:"metadata"`
	Counts   compareCountsJSON `json:"counts"`
	amountJSON
	Differences []differenceJSON `json:"differences"`
	Failures    []failureJSON    `json:"failures"`
	Warnings    []warningJSON    `json:"warnings"`
	ExitCode    int              `json:"exit_code"`
}

type compareTreeJSON struct {
	Tree string `json:"tree"` // A, B, ...
	nameJSON
}

type compareCountsJSON struct {
	compare.Counts
	Only []onlyJSON `json:"only_in"`
}

type onlyJSON struct {
	Trees  []string `json:"trees"`
	Files  int64    `json:"files"`
	Bytes  int64    `json:"bytes"`
	Others int64    `json:"others"`
}

type differenceJSON struct {
	nameJSON
	Verdict string   `json:"event"` // the event of the log
	Trees   []string `json:"trees"`
	Reason  string   `json:"reason,omitempty"`
	Files   *int64   `json:"files,omitempty"` // number of regular files in a directory
	Bytes   *int64   `json:"bytes,omitempty"`
}

func letterList(trees []int) (list []string) {
	for _, i := range trees {
		list = append(list, compare.Letter(i))
	}
	return list
}

func newDifference(e compare.Event) differenceJSON {
	d := differenceJSON{nameJSON: newNameJSON(e.Path), Trees: letterList(e.Trees), Reason: e.Reason}
	switch e.Verdict {
	case compare.Differs:
		d.Verdict = "differs"
	case compare.TypeDiffers:
		d.Verdict = "type_differs"
	case compare.MetadataDiffers:
		d.Verdict = "metadata_differs"
	default:
		d.Verdict = "only_in"
		d.Bytes = &e.Bytes
		if e.Whole {
			d.Files = &e.Files
		}
	}
	return d
}

func (c *comparer) newJSON(s *compare.Summary, result outcome) compareReportJSON {
	c.mu.Lock()
	defer c.mu.Unlock()
	o := c.options
	report := compareReportJSON{
		headJSON:    c.head(),
		Equal:       result.code() == 0,
		OneWay:      o.OneWay,
		Quick:       o.Quick,
		Metadata:    o.Metadata,
		Counts:      compareCountsJSON{s.Counts, []onlyJSON{}}, // JSON needs [] and not null
		amountJSON:  newAmountJSON(s.Bytes, s.Elapsed),
		Differences: list(c.differences),
		Failures:    list(c.mu.failures),
		Warnings:    list(c.mu.warnings),
		ExitCode:    result.code(),
	}
	for i, tree := range o.Trees {
		report.Trees = append(report.Trees, compareTreeJSON{compare.Letter(i), newNameJSON(tree)})
	}
	for _, only := range s.Only {
		report.Counts.Only = append(report.Counts.Only, onlyJSON{letterList(only.Trees), only.Files, only.Bytes, only.Others})
	}
	return report
}
