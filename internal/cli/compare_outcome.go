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
	// Whether all was compared that was asked for, and nothing differs: exit_code is 0. With quick, no
	// content was read.
	Equal    bool              `json:"equal"`
	Trees    []compareTreeJSON `json:"trees"`    // The directories, in the order of the command line.
	OneWay   bool              `json:"one_way"`  // Whether entries that A lacks are no differences.
	Quick    bool              `json:"quick"`    // Whether size and modification time were compared, and no content.
	Metadata bool              `json:"metadata"` // Whether metadata was compared.
	Counts   compareCountsJSON `json:"counts"`   // How many there are of each kind.
	// The content of A that was compared, in bytes.
	amountJSON
	Differences []differenceJSON `json:"differences"` // The differences, in the order of the paths.
	// Markers and journals of unfinished copies first; then entries that could not be compared, in the
	// order of the paths.
	endJSON

	c *comparer
	s *compare.Summary
}

type compareTreeJSON struct {
	Tree string `json:"tree"` // Its letter: A, B and so on.
	// The directory, as it was given.
	nameJSON
}

type compareCountsJSON struct {
	compare.Counts
	Only []onlyJSON `json:"only_in"` // The entries that some trees have and others lack, by the trees that have them.
}

type onlyJSON struct {
	Trees  []string `json:"trees"`  // The trees that have them.
	Files  int64    `json:"files"`  // Regular files.
	Bytes  int64    `json:"bytes"`  // The size of those files, in bytes.
	Others int64    `json:"others"` // Directories, symbolic links and special files.
}

type differenceJSON struct {
	// The entry, relative to the trees, with slashes; a directory ends in a slash.
	nameJSON
	Verdict string   `json:"event"`            // The event, as in the log: how the trees differ.
	Trees   []string `json:"trees"`            // For only_in, the trees that have the entry; else the tree that differs from A.
	Reason  string   `json:"reason,omitempty"` // The difference, in English, for people. The text may change.
	Files   *int64   `json:"files,omitempty"`  // The number of regular files below a directory that represents all its contents.
	Bytes   *int64   `json:"bytes,omitempty"`  // For only_in: the size of the file, or of the files in the directory, in bytes.
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
