// Package outcome says how a command ended, and what the user can do next. The summary, the HTML
// report and the marker of an incomplete copy have the same text.
package outcome

import (
	"errors"
	"slices"
	"strings"

	"github.com/seed65876f4f/sealift/internal/event"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/quote"
)

// Causes collects the reasons why a copy is not complete that decide the next step. The zero value has
// none. The lists have each destination once.
type Causes struct {
	Full      []string // destinations without space, as the user named them
	Lost      []string // destinations that were dropped for another reason
	Differs   []string // destinations that returned other data when they were read back
	Changed   bool     // the source does not match its own manifest, history or bag
	Partial   bool     // the source is itself an unfinished copy
	Forbidden bool     // the user may not read a file of the source
	Damaged   bool     // the device of the source could not read a file
}

// Add adds the cause of an event, if it is a failure.
func (c *Causes) Add(e event.Event) {
	stage := failure.Stage("")
	if f, ok := errors.AsType[*failure.FileError](e.Err); ok {
		stage = f.Stage
	}
	switch {
	case e.Kind == event.DestinationLost && fsys.NoSpace(e.Err):
		addOnce(&c.Full, e.Target)
	case e.Kind == event.DestinationLost:
		addOnce(&c.Lost, e.Target)
	case e.Kind == event.Mismatch && stage == failure.StageCheck:
		c.Partial = true
	case e.Kind == event.Mismatch && e.Target == "":
		c.Changed = true
	case e.Kind == event.Mismatch:
		addOnce(&c.Differs, e.Target)
	case e.Kind == event.Failed && e.Target == "":
		c.Forbidden = c.Forbidden || fsys.NotPermitted(e.Err)
		c.Damaged = c.Damaged || fsys.DeviceFailed(e.Err)
	}
}

func addOnce(names *[]string, name string) {
	if !slices.Contains(*names, name) {
		*names = append(*names, name)
	}
}

// Next returns the next step: what removes the causes, and then again, the command that completes
// the copy.
func (c *Causes) Next(again string) string {
	var steps []string
	add := func(step string, names ...string) {
		steps = append(steps, step+strings.Join(quote.Names(names), ", "))
	}
	if len(c.Full) > 0 {
		add("make space at ", c.Full...)
	}
	if len(c.Lost) > 0 {
		add("reconnect ", c.Lost...)
		if len(c.Lost) == 1 {
			add("check that it is mounted")
		} else {
			add("check that they are mounted")
		}
	}
	if len(c.Differs) > 0 {
		add("check the disk and the cable of ", c.Differs...)
	}
	if c.Partial {
		add("complete the source")
	}
	if c.Changed {
		add("restore the files that do not match (or add --source-manifest=ignore)")
	}
	if c.Forbidden {
		add("make the files of the source readable")
	}
	if c.Damaged {
		add("check the disk and the cable of the source")
	}
	if len(steps) == 0 {
		return again
	}
	return strings.Join(steps, ", ") + ", then " + again
}
