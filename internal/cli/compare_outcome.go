package cli

import (
	"fmt"
	"strings"

	"github.com/seed65876f4f/sealift/internal/compare"
	outcomes "github.com/seed65876f4f/sealift/internal/outcome"
	"github.com/seed65876f4f/sealift/internal/pipe"
	"github.com/seed65876f4f/sealift/internal/quote"
)

// compareOutcome is the outcome of compare.
type compareOutcome struct {
	headJSON
	verdict
	Equal    bool              `json:"equal"` // true if everything was compared, and nothing differs
	Trees    []compareTreeJSON `json:"trees"`
	OneWay   bool              `json:"one_way"`
	Quick    bool              `json:"quick"`
	Metadata bool              `json:"metadata"`
	Counts   compareCountsJSON `json:"counts"`
	amountJSON
	Differences []differenceJSON `json:"differences"`
	endJSON

	c *comparer
	s *compare.Summary
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

func (c *comparer) newOutcome(s *compare.Summary, result outcome) *compareOutcome {
	o := c.options
	d := &compareOutcome{
		headJSON: c.head(), Equal: result.code() == 0, OneWay: o.OneWay, Quick: o.Quick, Metadata: o.Metadata,
		Counts:     compareCountsJSON{s.Counts, []onlyJSON{}}, // JSON needs [] and not null
		amountJSON: newAmountJSON(s.Bytes, s.Elapsed), endJSON: c.ending(result), c: c, s: s,
	}
	c.keep(func() { d.Differences = list(c.differences) })
	for i, tree := range o.Trees {
		d.Trees = append(d.Trees, compareTreeJSON{compare.Letter(i), newNameJSON(tree)})
	}
	for _, only := range s.Only {
		d.Counts.Only = append(d.Counts.Only, onlyJSON{letterList(only.Trees), only.Files, only.Bytes, only.Others})
	}
	d.verdict = c.compareVerdict(s, result)
	d.close(result, c.where)
	return d
}

// logged implements document.
func (d *compareOutcome) logged() []any {
	failures, _ := d.c.counts()
	return []any{"verdict", d.Name, "files", d.Counts.Files, "bytes", d.Bytes, "differences", d.s.Differences(), "errors", failures, "elapsed", d.s.Elapsed}
}

// summary implements document.
func (d *compareOutcome) summary() summary {
	s, n, o := summary{verdict: &d.verdict, elapsed: d.s.Elapsed}, &d.Counts, d.c.options
	s.gap = o.Verbose || d.s.Differences() > 0
	rows := &s.rows
	for i, tree := range o.Trees {
		rows.AddTo(outcomes.TextOnly, compare.Letter(i), outcomes.Name(quote.Name(tree)))
	}
	rows.Add("compared", outcomes.Plural(n.Files, "file", "counts.files"),
		outcomes.Plural(n.Directories, "directory", "counts.directories").Some(),
		outcomes.Plural(n.Others, "other entry", "counts.others").Some())
	if d.Quick {
		rows.Add("content", outcomes.Text("not read, because of --quick"))
		rows.AddTo(outcomes.TextOnly, "time", outcomes.Text(duration(d.s.Elapsed)))
	} else {
		rows.Add("size", d.amount()...)
	}
	rows.Problem("differ", outcomes.Number(n.Differ, "counts.differ").Some())
	rows.Problem("types", outcomes.Number(n.TypeDiffers, "counts.type_differs").Some())
	rows.Problem("metadata", outcomes.Number(n.MetadataDiffers, "counts.metadata_differs").Some())
	for i, only := range n.Only {
		label, letters, path := "only in", strings.Join(only.Trees, ", "), fmt.Sprintf("counts.only_in.%d.", i)
		values := []outcomes.Value{
			outcomes.Plural(only.Files, "file", path+"files").Some(), outcomes.Size(only.Bytes, path+"bytes").Some(),
			outcomes.Plural(only.Others, "other entry", path+"others").Some(),
		}
		if len(o.Trees) == 2 {
			label += " " + letters
		} else {
			values = outcomes.Before(letters+": ", values...)
		}
		rows.Problem(label, values...)
	}
	rows.Problem("unreadable", outcomes.Number(n.Unreadable, "counts.unreadable").Some())
	rows.Problem("incomplete", outcomes.Number(n.Incomplete, "counts.incomplete").Some())
	rows.Add("left out", outcomes.Plural(n.LeftOut, "entry", "counts.left_out").Some().With(" of A, by filters"))
	rows.Add("skipped", outcomes.Plural(n.Own, "entry", "counts.own").Some().With(": manifests, journals, markers and temporaries of Sealift"))
	if o.Cache != pipe.CacheKeep {
		rows.Add("cached", outcomes.Plural(n.Cached, "file", "counts.compared_through_cache").Some().With(", perhaps read from memory and not from the device"))
	}
	return s
}
