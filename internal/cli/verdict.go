package cli

import (
	"io"
	"os"
	"strings"

	outcomes "github.com/seed65876f4f/sealift/internal/outcome"
)

// verdict is the first line of a summary: "complete: 158 files at 'dst'", or "NOT
// COMPLETE: " with the reasons and the next step. Scripts may rely on the first word.
type verdict struct {
	Name   string      `json:"verdict"` // The first words of the summary, as one word. Values may be added.
	Causes []causeJSON `json:"causes"`  // Why the verdict is bad, each cause once; empty if it is good.
	Next   *string     `json:"next"`    // The next step, as text for people; null if the verdict is good or there is none.

	good    words    // words if there are no reasons
	bad     words    // words before the reasons
	reasons []string // reasons, quoted by the caller
	next    string   // the next step after a bad verdict; may be ""
	causes  outcomes.Causes
}

// words are a verdict for programs and for people.
type words struct{ name, text string }

// causeJSON is a cause of a bad verdict.
type causeJSON struct {
	// Its name. Values may be added. full: a destination has no space. lost: a destination was dropped for
	// another reason. differs: content differs from its digest, or from that of another tree. missing: a
	// listed file does not exist. changed: the source does not match its own manifest, history or bag.
	// partial: the source, or a tree that was checked, is an unfinished copy. forbidden: the user may not
	// read a file of the source. damaged: the device of the source could not read a file. failed: another
	// failure, which the list failures has. conflicts: existing entries were left alone. unfinished:
	// shards are not finished. interrupted: a signal stopped the command.
	Cause string `json:"cause"`
	whereJSON
}

func (v *verdict) add(reason string) { v.reasons = append(v.reasons, reason) }

// addCount adds a reason such as "2 mismatches", unless n is 0.
func (v *verdict) addCount(n int64, noun string) { v.addCountOf(n, noun, "") }

// addCountOf adds a reason such as "2 files missing", unless n is 0. rest follows the noun.
func (v *verdict) addCountOf(n int64, noun, rest string) {
	if n > 0 {
		v.add(plural(n, noun) + rest)
	}
}

// addOutcomes adds the bad outcomes of a shard.
func (v *verdict) addOutcomes(mismatches, failures, conflicts int64) {
	v.addCount(mismatches, "mismatch")
	v.addCount(failures, "error")
	v.addCountOf(conflicts, "conflict", " left alone")
}

// close completes the verdict. It adds the signal that stopped the run, if any, as a reason. If the exit
// code is not 0 and there is no reason yet, for example because the log could not be written, it adds a
// general one. where is that of the reporter.
func (v *verdict) close(result outcome, where func(string) whereJSON) {
	if result.signal != nil {
		v.add("stopped by " + signalName(result.signal))
		v.causes = append(v.causes[:len(v.causes):len(v.causes)], outcomes.Cause{Name: outcomes.Interrupted})
	} else if result.code() != 0 && v.isGood() {
		v.add("see the messages above")
	}
	v.Name, v.Causes = v.words().name, []causeJSON{}
	if v.isGood() {
		return
	}
	if len(v.causes) == 0 {
		v.causes.Add(outcomes.Failed, "")
	}
	for _, c := range v.causes {
		v.Causes = append(v.Causes, causeJSON{c.Name, where(c.Where)})
	}
	if v.next != "" {
		v.Next = &v.next
	}
}

func (v *verdict) isGood() bool { return len(v.reasons) == 0 }

func (v *verdict) words() words {
	if v.isGood() {
		return v.good
	}
	return v.bad
}

func (v *verdict) text() string {
	text := v.words().text
	if v.isGood() {
		return text
	}
	text += ": " + strings.Join(v.reasons, ", ")
	if v.next != "" {
		text += "; " + v.next
	}
	return text
}

// print prints the verdict, in colour on a terminal. The [checkedWriter] of the command keeps a
// write error.
func (v *verdict) print(w io.Writer) {
	style := styleGood
	if !v.isGood() {
		style = styleBad
	}
	_, _ = io.WriteString(w, styled(coloured(w), style, v.text())+"\n")
}

// SGR sequences, which are printed only if [coloured] returns true.
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

// coloured reports whether w is a terminal with escape sequences and NO_COLOR is not set.
func coloured(w io.Writer) bool {
	_, redraws := terminal(w)
	return redraws && os.Getenv("NO_COLOR") == ""
}
