package outcome

import (
	"cmp"
	"math"
	"strconv"
	"strings"

	"github.com/seed65876f4f/sealift/internal/units"
)

// Row is one line of a summary and one fact of a report: a label with its values.
type Row struct {
	Label  string
	Values []Value
	Bad    bool // true if the row reports a problem
	Shown  Shown
}

// Shown says where a row is shown.
type Shown uint8

// The places of a row.
const (
	Everywhere Shown = iota
	TextOnly         // not on the page, which has it elsewhere
	PageOnly         // not in the summary, which is short
)

// Value is a part of a row. Programs can compare a number on the page with the JSON output by its
// path and value there.
type Value struct {
	Text       string
	Long       string // text for the page; "" if it is Text
	Name       bool   // the text is a name or a digest
	Path, JSON string // both "" if the value is no number of the JSON output
}

// Text returns the values for a summary.
func (r *Row) Text() string {
	var sb strings.Builder
	for i, v := range r.Values {
		sb.WriteString(v.Separator(i) + v.Text)
	}
	return sb.String()
}

// OnPage reports whether the page shows the row.
func (r Row) OnPage() bool { return r.Shown != TextOnly }

// OnPage returns the text for the page.
func (v Value) OnPage() string { return cmp.Or(v.Long, v.Text) }

// Separator returns the text between value i-1 of a row and this value i.
func (v Value) Separator(i int) string {
	if i == 0 || strings.HasPrefix(v.Text, " ") {
		return ""
	}
	return ", "
}

// Before returns the values with a text before the first one that is not empty.
func Before(text string, values ...Value) []Value {
	for i := range values {
		if v := &values[i]; v.Text != "" {
			v.Text = text + v.Text
			if v.Long != "" {
				v.Long = text + v.Long
			}
			break
		}
	}
	return values
}

// Rows are the rows of a summary.
type Rows []Row

// Add adds a row with the values that are not empty, and no row if there are none.
func (r *Rows) Add(label string, values ...Value) { r.add(Row{Label: label}, values) }

// Problem adds a row that reports a problem.
func (r *Rows) Problem(label string, values ...Value) { r.add(Row{Label: label, Bad: true}, values) }

// AddTo adds a row that is shown in one place.
func (r *Rows) AddTo(shown Shown, label string, values ...Value) {
	r.add(Row{Label: label, Shown: shown}, values)
}

func (r *Rows) add(row Row, values []Value) {
	for _, v := range values {
		if v.Text != "" {
			row.Values = append(row.Values, v)
		}
	}
	if len(row.Values) > 0 {
		*r = append(*r, row)
	}
}

// Text returns a text without a number. The caller has quoted names in it.
func Text(text string) Value { return Value{Text: text} }

// Name returns a name or a digest. The caller has quoted it.
func Name(text string) Value { return Value{Text: text, Name: true} }

// Number returns a number.
func Number(n int64, path string) Value {
	return Value{Text: units.Grouped(n), Path: path, JSON: strconv.FormatInt(n, 10)}
}

// Plural returns a number of things, such as "2 files".
func Plural(n int64, noun, path string) Value {
	v := Number(n, path)
	v.Text = units.Plural(n, noun)
	return v
}

// Size returns a number of bytes.
func Size(n int64, path string) Value {
	v := Number(n, path)
	v.Text, v.Long = units.Size(n), units.Size(n)+" ("+v.Text+" bytes)"
	return v
}

// Rate returns a number of bytes per second, which JSON has without decimals. It is empty if nil or 0.
func Rate(bytesPerSecond *float64, path string) Value {
	if bytesPerSecond == nil || *bytesPerSecond == 0 {
		return Value{}
	}
	return Value{Text: units.Rate(*bytesPerSecond), Path: path, JSON: strconv.FormatFloat(math.Round(*bytesPerSecond), 'f', 0, 64)}
}

// Some returns the value, which is empty if it is the number 0.
func (v Value) Some() Value {
	if v.JSON == "0" {
		return Value{}
	}
	return v
}

// With returns the value with more text after it.
func (v Value) With(more string) Value {
	if v.Long != "" {
		v.Long += more
	}
	if v.Text != "" {
		v.Text += more
	}
	return v
}
