//go:build linux

package engine_test

import (
	"fmt"
	"strings"

	"github.com/seed65876f4f/sealift/internal/engine"
)

// afterInterruption returns what an interrupted run must not leave. It may leave old or new content
// under the names that it copies, and its manifests, which may be moved aside. If exact is false,
// the run went on after failures, and its manifest lists only what it could copy.
func afterInterruption(before snapshot, c command, f *forecast, after snapshot, exact bool, origin provenance) (broken []string) {
	report := func(format string, args ...any) { broken = append(broken, fmt.Sprintf(format, args...)) }
	for _, d := range append(after.source.diff(before.source), after.single.diff(before.single)...) {
		report("source changed: %s", d)
	}
	for i, now := range after.places {
		old := before.places[i]
		where := fmt.Sprintf("destination %d: ", i)
		if i >= c.Places {
			for _, d := range now.tree.diff(old.tree) {
				report(where+"%s", d)
			}
			continue
		}
		for _, d := range untouchable(before, c, old, now) {
			report(where+"changed what is not its own: %s", d)
		}
		if f.unsure != "" {
			continue
		}
		all := now.tree.visible()
		for p := range old.tree.visible() {
			all[p] = now.tree[p]
		}
		for _, p := range all.paths() {
			got, was, will := now.tree[p], old.tree[p], f.after.places[i].tree[p]
			a, isName := c.isManifestName(p)
			aside := now.tree[asideName(p)]
			switch {
			case got == was, got.matches(will), got.kind == directory && will.kind == directory:
			case got.kind == symlink && will.kind == symlink && got.data == will.data: // a link gets its name before its mtime
			case !exact && isName && got.kind == absent:
			case !exact && c.isTarget(before, p) && got == c.files(before)[p]: // what could not be read was not checked
			case !exact && isName && was != got && isOwnForm(a, got):
				m := reported{path: p, algorithm: a, lines: noCount, dropped: noCount}
				for _, d := range falseManifest(c, now, m, []reported{m}, origin[i]) {
					report(where+"manifest %q: %s", p, d)
				}
			case c.Policy == engine.PolicyAlways && was.kind == symlink && got.kind == absent && will.kind == directory:
			case got.kind == absent && isName && isOwnForm(a, was) && aside.data == was.data && aside.kind == file:
			case got.kind == absent && isName && will.kind == absent:
			default:
				report(where+"%q is %s, neither %s as before nor %s as it should become", p, got, was, will)
			}
		}
	}
	return broken
}

// repaired returns the differences between the tree after an interrupted and a repeated run, and
// the tree that one run makes from the first snapshot.
func (f *forecast) repaired(o observation) (broken []string) {
	for i := range f.results { // the command does not copy to the other destinations
		if found := o.after.places[i].tree.leftovers(); o.exit() == 0 && len(found) > 0 {
			broken = append(broken, fmt.Sprintf("after the repetition with exit 0, destination %d, left over: %q", i, found))
		}
	}
	for i := range f.after.places {
		want := f.after.places[i].clone()
		for p, n := range want.tree { // a manifest that is written again has a new time
			if _, isName := recognized(p); isName || strings.HasSuffix(p, ".sums") {
				n.mtime, n.mode = anyTime, anyMode
				want.tree[p] = n
			}
		}
		for _, d := range o.after.places[i].tree.visible().diff(want.tree.visible()) {
			broken = append(broken, fmt.Sprintf("after the repetition, destination %d: %s", i, d))
		}
	}
	if o.exit() != f.exit() {
		broken = append(broken, fmt.Sprintf("after the repetition, exit code: got %d, want %d", o.exit(), f.exit()))
	}
	return broken
}
