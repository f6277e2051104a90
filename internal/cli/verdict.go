package cli

import (
	"io"
	"os"
	"strings"
)

// verdict is the first line of a summary: "complete: 158 files at 'dst'", or "NOT
// COMPLETE: " with the reasons and the next step. A script may rely on its first word.
type verdict struct {
	good    string   // printed if there is no reason against it
	bad     string   // printed before the reasons
	reasons []string // why it is bad, quoted
	next    string   // what the user can do then
}

func (v *verdict) add(reason string) { v.reasons = append(v.reasons, reason) }

// addCount adds a reason if there is something to count: "2 mismatches".
func (v *verdict) addCount(n int64, noun string) {
	if n > 0 {
		v.add(plural(n, noun))
	}
}

// close adds that a signal has stopped the run, and a reason for any other failed outcome
// that has none yet: a log that could not be written, for example.
func (v *verdict) close(result outcome) {
	switch {
	case result.signal != nil:
		v.add("stopped by " + signalName(result.signal))
	case result.code() != 0 && len(v.reasons) == 0:
		v.add("see the messages above")
	}
}

func (v *verdict) text() string {
	if len(v.reasons) == 0 {
		return v.good
	}
	text := v.bad + ": " + strings.Join(v.reasons, ", ")
	if v.next != "" {
		text += "; " + v.next
	}
	return text
}

// print writes the verdict, on a terminal in colour. A failed write shows in the writer,
// see [checkedWriter].
func (v *verdict) print(w io.Writer) {
	style := styleGood
	if len(v.reasons) > 0 {
		style = styleBad
	}
	_, _ = io.WriteString(w, styled(coloured(w), style, v.text())+"\n")
}

// SGR sequences; terminals without colours are sent none.
const (
	styleHeader = "\x1b[1m"    // bold
	styleBar    = "\x1b[36m"   // cyan
	styleGood   = "\x1b[1;32m" // bold green
	styleBad    = "\x1b[1;31m" // bold red
	styleOff    = "\x1b[m"
)

func styled(colour bool, style, text string) string {
	if !colour || text == "" {
		return text
	}
	return style + text + styleOff
}

// coloured reports whether w is a terminal that the user wants colours on.
func coloured(w io.Writer) bool {
	_, redraws := terminal(w)
	return redraws && os.Getenv("NO_COLOR") == ""
}
