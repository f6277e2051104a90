// Package outcome has what all commands report when they end: causes, which decide the next step, and
// rows of counts and facts. The summary, the JSON output, the HTML report and the marker of an incomplete
// copy are made from them.
package outcome

import (
	"errors"
	"slices"
	"strings"

	"github.com/seed65876f4f/sealift/internal/event"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/quote"
	"github.com/seed65876f4f/sealift/internal/units"
)

// The causes, as the JSON output has them.
const (
	Full        = "full"        // a destination has no space
	Lost        = "lost"        // a destination was dropped for another reason
	Differs     = "differs"     // content differs: of a destination that was read back, of a tree that was checked
	Missing     = "missing"     // a file that is listed does not exist
	Changed     = "changed"     // the source does not match its own manifest, history or bag
	Partial     = "partial"     // the source, or a tree that was checked, is itself an unfinished copy
	Forbidden   = "forbidden"   // the user may not read a file of the source
	Damaged     = "damaged"     // the device of the source could not read a file
	Failed      = "failed"      // another failure; its text says more
	Conflicts   = "conflicts"   // existing entries were left alone
	Unfinished  = "unfinished"  // shards of a plan are not finished
	Interrupted = "interrupted" // a signal stopped the command
)

// Cause is a reason why a command did not do everything.
type Cause struct {
	Name  string
	Where string // the destination or directory that it concerns; "" for the source, or for all
	Lacks int64  // bytes that a Full destination lacks; 0 if that is unknown
}

// Causes has each cause once, in the order in which they were added.
type Causes []Cause

// Add adds a cause.
func (c *Causes) Add(name, where string) { c.Append(Cause{Name: name, Where: where}) }

// Append adds a cause with its details.
func (c *Causes) Append(cause Cause) {
	if !slices.Contains(*c, cause) {
		*c = append(*c, cause)
	}
}

// AddEvent adds the cause of an event, if it has one.
func (c *Causes) AddEvent(e event.Event) {
	cause := Cause{Name: CauseOf(e), Where: e.Target}
	if full, ok := errors.AsType[*failure.FullError](e.Err); ok && cause.Name == Full {
		cause.Lacks = max(full.Needed-full.Free, 0)
	}
	if cause.Name != "" {
		c.Append(cause)
	}
}

// CauseOf returns the cause of an event, "" if it has none.
func CauseOf(e event.Event) string {
	stage := failure.Stage("")
	if f, ok := errors.AsType[*failure.FileError](e.Err); ok {
		stage = f.Stage
	}
	switch {
	case e.Cause != "":
		return e.Cause
	case e.Kind == event.Conflict:
		return Conflicts
	case e.Kind == event.DestinationLost && fsys.NoSpace(e.Err):
		return Full
	case e.Kind == event.DestinationLost:
		return Lost
	case e.Kind == event.Mismatch && stage == failure.StageCheck:
		return Partial
	case e.Kind == event.Mismatch && e.Target == "":
		return Changed
	case e.Kind == event.Mismatch:
		return Differs
	case e.Kind == event.Failed && e.Target == "" && fsys.NotPermitted(e.Err):
		return Forbidden
	case e.Kind == event.Failed && e.Target == "" && fsys.DeviceFailed(e.Err):
		return Damaged
	case e.Kind == event.Failed:
		return Failed
	}
	return ""
}

// of returns the quoted destinations of a cause.
func (c *Causes) of(name string) (quoted []string) {
	for _, cause := range *c {
		if cause.Name == name {
			quoted = append(quoted, quote.Name(cause.Where))
		}
	}
	return quoted
}

// Next returns the next step: what removes the causes, and then again, the command that completes
// the copy.
func (c *Causes) Next(again string) string {
	var steps []string
	for _, cause := range *c {
		switch {
		case cause.Name == Full && cause.Lacks > 0: // rounded up, so that it is enough
			steps = append(steps, "free "+units.Size(cause.Lacks+cause.Lacks/100)+" at "+quote.Name(cause.Where))
		case cause.Name == Full:
			steps = append(steps, "make space at "+quote.Name(cause.Where))
		}
	}
	for _, s := range []struct{ cause, step, mounted string }{
		{Lost, "reconnect ", ", check that it is mounted"},
		{Differs, "check the disk and the cable of ", ""},
	} {
		if names := c.of(s.cause); len(names) > 0 {
			if len(names) > 1 {
				s.mounted = strings.Replace(s.mounted, "it is", "they are", 1)
			}
			steps = append(steps, s.step+strings.Join(names, ", ")+s.mounted)
		}
	}
	for _, s := range []struct{ cause, step string }{
		{Partial, "complete the source"},
		{Changed, "restore the files that do not match (or add --source-manifest=ignore)"},
		{Forbidden, "make the files of the source readable"},
		{Damaged, "check the disk and the cable of the source"},
	} {
		if len(c.of(s.cause)) > 0 {
			steps = append(steps, s.step)
		}
	}
	if len(steps) == 0 {
		return again
	}
	return strings.Join(steps, ", ") + ", then " + again
}
