// Package policy decides what a copy does with an entry that exists at a destination. A decision is a
// function of the observation alone, so a table of tests covers every combination.
package policy

import "github.com/seed65876f4f/sealift/internal/choice"

// Policy says what a run does with a name that exists at the destination.
type Policy uint8

// The overwrite policies.
const (
	Default  Policy = iota // replace older files, leave conflicts alone
	Never                  // change no existing entry
	Protect                // like Default, but replace no content
	Always                 // replace every file
	Update                 // replace files whose size or modification time differs
	Checksum               // replace files whose content differs
)

// All are the values of --overwrite-policy.
var All = choice.Table[Policy]{What: "overwrite policy", Names: []string{
	Default:  "default",
	Never:    "never",
	Protect:  "protect",
	Always:   "always",
	Update:   "update",
	Checksum: "checksum",
}}

func (p Policy) String() string { return All.Name(p) }
