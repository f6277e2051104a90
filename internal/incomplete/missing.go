package incomplete

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/seed65876f4f/sealift/internal/quote"
)

// A marker lists the first maxListed paths in the order of bytes, so that equal copies
// list the same. These limits keep a Missing at about 50 MB.
const (
	maxListed  = 10_000
	maxPending = 500     // number of paths that were added since the list was last sorted
	maxPath    = 4 << 10 // bytes
	maxCause   = 500     // bytes
	maxRemarks = 100
)

// Missing collects the paths that a copy could not complete in one destination. The zero
// value means that the copy is complete.
type Missing struct {
	Cut     bool   // true if the copy ended before it had tried every file
	Planned bool   // true if a plan split the copy into shards
	Next    string // the next step, unless Planned

	remarks []string // failures of the destination or the source that concern no path
	list    []gap    // paths, sorted and without duplicates, except for those added since
	more    int64    // number of paths after the list
	seen    bool     // true if nothing was added since the last call of Changed
}

type gap struct{ path, cause string }

// Add adds a path that is missing or wrong. The first cause of a path is kept.
func (m *Missing) Add(path, cause string) {
	m.seen = false
	path = shorten(path, maxPath)
	if m.more > 0 && path > m.list[maxListed-1].path {
		m.more++
		return
	}
	m.list = append(m.list, gap{path, shorten(cause, maxCause)})
	if len(m.list) == maxListed+maxPending {
		m.sort()
	}
}

// Remark adds a failure that concerns no path.
func (m *Missing) Remark(text string) {
	m.seen = false
	if text = shorten(text, maxCause); len(m.remarks) < maxRemarks && !slices.Contains(m.remarks, text) {
		m.remarks = append(m.remarks, text)
	}
}

// Complete reports whether nothing is missing.
func (m *Missing) Complete() bool { return !m.Cut && len(m.remarks) == 0 && len(m.list) == 0 }

// Changed reports whether this is the first call, or something was added since the last.
func (m *Missing) Changed() bool {
	changed := !m.seen
	m.seen = true
	return changed
}

func (m *Missing) sort() {
	slices.SortStableFunc(m.list, func(a, b gap) int { return cmp.Compare(a.path, b.path) })
	m.list = slices.CompactFunc(m.list, func(a, b gap) bool { return a.path == b.path })
	if rest := len(m.list) - maxListed; rest > 0 {
		m.more += int64(rest)
		m.list = slices.Delete(m.list, maxListed, len(m.list))
	}
}

// write writes a marker. It sets head.Missing.
func (m *Missing) write(w io.Writer, head Head) error {
	m.sort()
	head.Missing = int64(len(m.list)) + m.more
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, "%sThe copy of this source into this directory ended with failures. The paths below are\n"+
		"missing here, or they are not what the source holds. A directory in the list stands\n"+
		"for everything in it that is not here.\n\n%s\n\n", head, m.advice())
	if m.Cut {
		fmt.Fprint(b, "The copy ended before it had tried every file, so more paths may be missing.\n\n")
	}
	for _, text := range m.remarks {
		fmt.Fprintln(b, quote.Text(text))
	}
	for _, gap := range m.list {
		fmt.Fprintf(b, "%s: %s\n", quote.Name(gap.path), quote.Text(gap.cause))
	}
	if m.more > 0 {
		fmt.Fprintf(b, "and %d more\n", m.more)
	}
	return b.Flush()
}

// advice says how to complete the copy.
func (m *Missing) advice() string {
	if m.Planned {
		return "To complete the copy, run the failed shards of its plan again, then merge the plan again;\n" +
			"\"sealift merge --dry-run PLAN\" lists these shards. This file is removed when the copy is\n" +
			"complete. If entries came after the plan was made, end it with \"sealift merge --abandon\n" +
			"PLAN\" and copy again."
	}
	return "To complete the copy: " + m.Next + ".\n" +
		"That copies what is missing, and removes this file when the copy is complete."
}

// shorten returns a copy of s, so that no longer string stays in memory.
func shorten(s string, size int) string {
	if len(s) <= size {
		return strings.Clone(s)
	}
	return s[:size] + "..."
}
