package cli

import (
	"fmt"
	"log/slog"
	"slices"

	"github.com/seed65876f4f/sealift/internal/event"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/quote"
)

// list adds the outcome of an entry to the listing: changes with -v, all outcomes with -vv.
func (r *copyReporter) list(e event.Event) {
	if r.flags.verbose == 0 {
		return
	}
	var verb string
	reason, changes := e.Reason, false
	switch e.Kind {
	case event.Copied, event.Skipped:
		verb, changes = r.verb(e.Action)
	case event.Conflict:
		verb, reason = "conflict", errorText(e.Err)
	case event.Failed, event.Mismatch:
		verb = "failed" // the message has the cause
	default:
		return
	}
	if !changes && r.flags.verbose == 1 {
		return
	}
	line := verb + " " + quote.Name(pathOrDot(e.Path))
	if len(r.flags.options.Targets) > 1 && e.Target != "" {
		line += " (in " + quote.Name(e.Target) + ")"
	}
	if reason != "" {
		line += ": " + quote.Text(reason)
	}
	key := e.Path
	if e.Entry == fsys.Directory {
		key += "/" // this is the order of the manifest
	}
	// The key ends with the number of the destination. Paths have no NUL bytes, so that a path
	// sorts before longer paths that begin with it.
	at := slices.Index(r.flags.options.Targets, e.Target)
	r.listing.add(fmt.Sprintf("%s\x00%04d", key, at+1), line)
}

// verb returns the words for an action, in a dry run "would create" and so on. changes is true
// if the action changes the destination.
func (r *copyReporter) verb(action string) (verb string, changes bool) {
	would, changes := changeWords[action]
	if changes && r.flags.options.DryRun {
		return would, true
	}
	return action, changes
}

// changeWords has the actions that change the destination, with their words in a dry run.
var changeWords = map[string]string{
	"created": "would create", "replaced": "would replace", "linked": "would link",
	"metadata updated": "would update metadata of",
}

// logAction logs the action for an entry at a destination if it changes something, with -v in each case.
func (r *copyReporter) logAction(e event.Event) {
	if _, changes := changeWords[e.Action]; r.log == nil || !changes && r.flags.verbose == 0 {
		return
	}
	attrs := []any{"bytes", e.Bytes}
	if e.Reason != "" {
		attrs = append(attrs, "reason", loggedText(e.Reason))
	}
	if e.Entry == fsys.Regular && len(e.Digests) > 0 {
		attrs = append(attrs, "digests", digestsJSON(r.flags.options.Hashes, e.Digests))
	}
	r.log.line(slog.LevelInfo, e.Action, e.Path, e.Target, attrs...)
}

// digestsJSON returns the digests of one file for JSON.
func digestsJSON(hashes []hash.Algorithm, digests hash.Digests) []digestJSON {
	list := []digestJSON{}
	for i, a := range hashes {
		if i < len(digests) && digests[i] != nil {
			list = append(list, digestJSON{string(a), a.Text(digests[i])})
		}
	}
	return list
}
