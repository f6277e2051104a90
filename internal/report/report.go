// Package report writes the HTML report of a run: one page that needs no other file, no
// network and no script, for people to read, print and sign.
//
// The caller fills a [Page] and calls [Page.Write]. While the run is under way, [Files],
// [Problems] and [Samples] collect what the page shows, each within a fixed amount of
// memory. [Open] finds the place of the page before the run, and [Place.Write] puts it
// there afterwards.
//
// Names and texts from elsewhere are given as they are. The page quotes and escapes them.
package report

import (
	"time"
)

// Page is the content of a report.
type Page struct {
	Command string    // "copy"
	Name    string    // of the report's file, for the foot of each sheet of paper
	Begun   time.Time // its zone is that of all times on the page
	Verdict string    // one sentence; names in it are quoted
	Good    bool      // the verdict is good
	Job     []Fact
	Totals  []Fact
	Trees   []Tree // the source first
	Samples *Samples
	Shares  []Share // what the run has waited for, the largest first
	Stages  []Stage
	Files   *Files
	// Problems come in the order of their first reports.
	Problems *Problems

	// Digests are the names of those that the files have, in the order of [File.Digests].
	Digests []string
	// AppendDigest appends a digest as it is written in a manifest.
	AppendDigest func(b []byte, index int, digest []byte) []byte
	// Elsewhere says where the files are listed if the page does not list them.
	Elsewhere string
}

// Fact is one row of a list: a label, and a text. Key and Value let programs compare a
// number with the JSON output: Key is its path there, and Value is what it has there.
type Fact struct {
	Label, Text string
	Key, Value  string   // both empty, or neither
	Name        bool     // the text is a name or a digest
	Words       []string // of a command line, instead of Text; lines break between them
	Bad         bool     // the text is bad news
}

// Tree is the source or a destination.
type Tree struct {
	Role  string // "Source"
	Path  string
	Facts []Fact
}

// Share is the part of the time of a run in which it has waited for a place.
type Share struct {
	Place string
	Part  float64 // from 0 to 1
}

// Stage is what a run has spent with one thing at one place.
type Stage struct {
	Stage, Place, Time, Size, Rate, Operations string
}
