package report

import (
	"cmp"
	"crypto/sha256"
	_ "embed" // the parts of the page
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/seed65876f4f/sealift/internal/outfile"
	"github.com/seed65876f4f/sealift/internal/quote"
	"github.com/seed65876f4f/sealift/internal/units"
)

// Form recognizes a report, so that a later report may replace it.
var Form = outfile.Form{Name: "a report of Sealift", Mark: `<meta name="generator" content="Sealift report">`}

//go:embed page.html
var pageText string

//go:embed style.css
var styleText string

//go:embed filter.js
var scriptText string

// pageTemplate has the page in two parts, before and after the rows of the files. Rows are
// written without the template, because there may be many. Only a run that writes a report parses it.
var pageTemplate = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("page").Funcs(template.FuncMap{
		"grouped": units.Grouped,
		"size":    units.Size,
		"name":    quote.Name,
		"plain":   quote.Plain,
		"text":    quote.Text,
		"capital": capital,
		"count":   units.Plural,
	}).Parse(pageText))
})

// view is the data of the template.
type view struct {
	Page       *Page
	Title      string
	Begun      string
	Zone       string
	TreesTitle string
	Policy     string
	Style      template.CSS
	Script     template.JS
	Groups     []*Group
	Plots      []*plot
	Shares     []shareBar
	Shards     *shardsView
	Sizes      histogramView
	Ages       histogramView
	Entries    int64
	Listed     bool
	Reason     string // why the files are not listed
}

type shareBar struct{ Place, Text, Width string }

type histogramView struct {
	Caption, Class string
	Bars           []bar
}

// Write writes the page. The caller may call it again, for example without the files if
// they do not fit: see [Page.WithoutFiles].
func (p *Page) Write(w io.Writer) error {
	v := p.view()
	if err := pageTemplate().ExecuteTemplate(w, "head", v); err != nil {
		return err
	}
	if v.Listed {
		if err := p.writeRows(w); err != nil {
			return err
		}
	}
	return pageTemplate().ExecuteTemplate(w, "tail", v)
}

// WithoutFiles removes the list of files from the page and gives the reason.
func (p *Page) WithoutFiles(reason string) {
	p.Files.drop()
	p.withoutFiles = reason
}

func (p *Page) view() *view {
	style := styleText + pageFoot(p.Name)
	v := &view{
		Page:       p,
		Title:      cmp.Or(p.Title, capital(p.Verdict)) + " (Sealift " + p.Command + ")",
		Begun:      p.Begun.Format("2 January 2006, 15:04:05 MST"),
		Zone:       p.Begun.Format("MST (-07:00)"),
		TreesTitle: "Source and destinations",
		Style:      template.CSS(style),     //nolint:gosec // constant, but for a quoted name
		Script:     template.JS(scriptText), //nolint:gosec // constant
		Groups:     p.Problems.Groups(),
		Plots:      p.Samples.plots(),
		Shards:     p.Shards.view(p.Begun.Location()),
		Sizes:      histogramView{"Files by size", "size of a file", p.Files.Sizes.bars()},
		Ages:       histogramView{"Files by age: the time between the last change and this run", "age", p.Files.Ages.bars()},
		Entries:    p.Files.Count(),
		Listed:     p.Files.Listed() && p.Files.Count() > 0,
		Reason:     p.withoutFiles,
	}
	if p.Command != "copy" && p.Command != "merge" {
		v.TreesTitle = "Directories"
	}
	v.Policy = fmt.Sprintf("default-src 'none'; style-src '%s'; script-src '%s'; base-uri 'none'; form-action 'none'",
		sourceHash(style), sourceHash(scriptText))
	for _, s := range p.Shares {
		v.Shares = append(v.Shares, shareBar{s.Place, fmt.Sprintf("%.0f %%", 100*s.Part), percent(min(max(s.Part, 0), 1))})
	}
	switch {
	case v.Reason != "":
	case v.Entries == 0:
		v.Reason = "No file was processed."
	default:
		v.Reason = strings.TrimSpace(units.Plural(v.Entries, "entry") + " are too many for a page, which lists only the problems. " + p.Elsewhere)
	}
	return v
}

// capital returns a sentence with its first letter in upper case.
func capital(sentence string) string {
	if sentence == "" {
		return ""
	}
	return strings.ToUpper(sentence[:1]) + sentence[1:]
}

// sourceHash returns the name of a style sheet or a script in a content security policy.
func sourceHash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

// pageFoot returns the style sheet for paper, which puts the file's name at the foot of
// each page.
func pageFoot(name string) string {
	return `@page { margin: 15mm 14mm 18mm; ` +
		`@bottom-left { font: 8pt system-ui, sans-serif; content: ` + cssString(quote.Plain(name)) + `; } ` +
		`@bottom-right { font: 8pt system-ui, sans-serif; content: "page " counter(page) " of " counter(pages); } }` + "\n"
}

// cssString quotes a text for a style sheet within HTML. It escapes all characters except
// letters and digits by their numbers.
func cssString(text string) string {
	const longest = 120 // characters; more do not fit the paper
	var sb strings.Builder
	sb.WriteByte('"')
	count := 0
	for _, c := range text {
		if count++; count > longest {
			sb.WriteString("...")
			break
		}
		if c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' {
			sb.WriteRune(c)
		} else {
			fmt.Fprintf(&sb, `\%06x`, c)
		}
	}
	sb.WriteByte('"')
	return sb.String()
}

// writeRows writes the rows of all files.
func (p *Page) writeRows(w io.Writer) (err error) {
	zone := p.Begun.Location()
	var row []byte
	p.Files.each(func(e *entry) {
		if err != nil {
			return
		}
		row = p.appendRow(row[:0], e, zone)
		_, err = w.Write(row)
	})
	return err
}

func (p *Page) appendRow(b []byte, e *entry, zone *time.Location) []byte {
	b = append(b, `<tr><td class="path"><bdi>`...)
	b = append(b, escape(quote.Plain(e.Path))...)
	b = append(b, `</bdi></td><td class="number">`...)
	switch {
	case e.Kind != "":
		b = append(b, escaped(e.Kind)...)
	case e.Size >= 0:
		b = append(b, units.Grouped(e.Size)...)
	}
	b = append(b, `</td><td class="time">`...)
	if e.Mtime != 0 {
		b = time.Unix(e.Mtime, 0).In(zone).AppendFormat(b, time.DateTime)
	}
	b = append(b, `</td>`...)
	for i := range p.Digests {
		var digest []byte
		if i < len(e.Digests) && len(e.Digests[i]) > 0 {
			digest = p.AppendDigest(nil, i, e.Digests[i])
		}
		class := "digest"
		if len(digest) <= 64 && len(p.Digests) == 1 { // a column of that width fits on A4 beside the others
			class += " one-line"
		}
		b = append(b, `<td class="`+class+`">`...)
		b = append(b, digest...)
		b = append(b, `</td>`...)
	}
	b = append(b, `<td>`...)
	switch {
	case e.settled != "":
		b = append(b, escaped(e.settled)...)
	case len(e.marks) > 0:
		b = append(b, `<strong class="bad-text">`...)
		b = append(b, escaped(strings.Join(e.marks, ", "))...)
		b = append(b, `</strong>`...)
	default:
		b = append(b, escaped(resultText(p.states(e)))...)
	}
	return append(b, "</td></tr>\n"...)
}

// NotVerified ends the result of a file that the run does not read back, because no manifest lists it.
const NotVerified = " (not verified)"

// states returns the results of an entry at all destinations. If the run was asked to read files back, they
// say whether it has read this one.
func (p *Page) states(e *entry) []string {
	if e.Kind != "" || len(p.ReadBack) != len(e.Results) {
		return e.Results
	}
	states := make([]string, len(e.Results))
	for i, r := range e.Results {
		switch {
		case r == "conflict" || r == "not copied" || strings.HasSuffix(r, NotVerified):
			states[i] = r
		case p.ReadBack[i]:
			states[i] = r + " (verified)"
		default:
			states[i] = r + NotVerified
		}
	}
	return states
}

// resultText joins the results at all destinations. Equal results become one word.
func resultText(results []string) string {
	var parts []string
	equal := true
	for i, r := range results {
		equal = equal && r == results[0]
		if r != "" {
			parts = append(parts, strconv.Itoa(i+1)+": "+r)
		}
	}
	if equal && len(results) > 0 {
		return results[0]
	}
	return strings.Join(parts, ", ")
}

// escaped returns a text as HTML.
func escaped(text string) string { return escape(quote.Text(text)) }

// escape is [template.HTMLEscapeString] without its copy of texts that need no escape.
func escape(text string) string {
	if !strings.ContainsAny(text, "\000\"'&<>") {
		return text
	}
	return template.HTMLEscapeString(text)
}
