// Package report writes the HTML report of a run: one page that needs no other file, no
// network and no script, for people to read, print and sign.
//
// The caller fills a [Page] and calls [Page.Write]. During the run, [Files], [Problems] and
// [Samples] collect the content of the page, each within a fixed amount of memory. [outfile.Open]
// finds the place of the page before the run, and [outfile.Place.Write] writes it there afterwards.
//
// The caller passes names and other texts unchanged. The page quotes and escapes them.
package report

import (
	"time"

	"github.com/seed65876f4f/sealift/internal/outcome"
)

// Page is the content of a report.
type Page struct {
	Command string    // "copy" or "merge", for example
	Name    string    // name of the report's file, for the foot of each sheet of paper
	Begun   time.Time // time of the start; its zone is that of all times on the page
	Title   string    // title that the user has given; "" for none
	Verdict string    // one sentence; names in it are quoted
	Good    bool      // true if the verdict is good
	Job     outcome.Rows
	Totals  outcome.Rows
	Trees   []Tree // trees, the source first
	Samples *Samples
	Shares  []Share // the places that the run waited for, the largest share first
	Shards  *Shards // shards of a merge; nil otherwise
	Files   *Files
	// ReadBack says for each destination whether the run has read all of its files back; nil if the run
	// was not asked to.
	ReadBack []bool
	// Problems come in the order of their first reports.
	Problems *Problems

	// Digests are the names of the files' digests, in the order of [File.Digests].
	Digests []string
	// AppendDigest appends a digest in the form of a manifest.
	AppendDigest func(b []byte, index int, digest []byte) []byte
	// Elsewhere is a sentence that says where the files are listed if the page does not list them; it may be "".
	Elsewhere string

	withoutFiles string // why the page has no list of files; "" if it has one unless there are too many
}

// Tree is the source or a destination.
type Tree struct {
	Role  string // a title: "Source"
	Path  string
	Facts outcome.Rows
}

// Share is the part of the time of a run in which it has waited for a place.
type Share struct {
	Place string
	Part  float64 // a fraction from 0 to 1
}
