package shard

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed65876f4f/sealift/internal/filter"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
)

const (
	formatName    = "sealift-plan"
	formatVersion = 2

	// MaxShards is the largest number of shards of a plan: an indexed job of Kubernetes has
	// at most 100,000 tasks.
	MaxShards = 100_000

	maxPlanSize = 64 << 20 // bytes of plan.json; 100,000 shards need less than 20 MB
)

// Plan is the content of plan.json.
type Plan struct {
	Format  string    `json:"format"`
	Version int       `json:"version"`
	ID      string    `json:"id"` // 32 hexadecimal digits
	Created time.Time `json:"created"`
	Sealift string    `json:"sealift"` // the version of the program

	Options Options `json:"options"`
	Source  Root    `json:"source"`
	Targets []Root  `json:"targets"`
	Lists   []List  `json:"lists"` // manifests in the source

	Totals Totals `json:"totals"`
	Shards []File `json:"shards"`
	Dirs   File   `json:"dirs"`
}

// Options are those options of a copy that can change its result. Options that depend on the
// machine, such as the number of workers, belong to each task. The values are those of the flags.
type Options struct {
	Hashes         []hash.Algorithm `json:"hashes"`
	Manifest       Text             `json:"manifest"` // "" for the usual name
	Policy         string           `json:"overwrite_policy"`
	BackupDir      Text             `json:"backup_dir"`
	Preserve       []string         `json:"preserve"`
	Sync           string           `json:"sync"`
	Sparse         string           `json:"sparse"`
	Reflink        string           `json:"reflink"`
	Verify         string           `json:"verify"`
	SourceManifest string           `json:"source_manifest"`
	Rules          []Rule           `json:"rules"`      // filter rules, in the order in which they are tried
	FilesFrom      string           `json:"files_from"` // fingerprint of its paths in hexadecimal; "" without
	OneFileSystem  bool             `json:"one_file_system"`
	AllowUnmounted bool             `json:"allow_unmounted,omitempty"`
}

// Rule is a filter rule.
type Rule struct {
	Exclude bool `json:"exclude"`
	Pattern Text `json:"pattern"`
	File    int  `json:"file,omitempty"` // see filter.Rule
}

// RulesOf returns the rules of a list, in the order in which they are tried.
func RulesOf(l *filter.List) (rules []Rule) {
	for _, r := range l.Rules() {
		rules = append(rules, Rule{!r.Include, Text(r.Pattern), r.File})
	}
	return rules
}

// AddRules adds the rules of a plan to a list.
func (o *Options) AddRules(l *filter.List) error {
	rules := make([]filter.Rule, len(o.Rules))
	for i, r := range o.Rules {
		rules[i] = filter.Rule{Include: !r.Exclude, Pattern: string(r.Pattern), File: r.File}
	}
	return l.Add(rules...)
}

// Root is the source or a destination. The inode number is the same on all nodes.
type Root struct {
	Path Text   `json:"path"`
	Ino  uint64 `json:"ino"`
}

// List is a manifest in the source. All NAME.sha256 files, which list only the file NAME beside
// them, share one List with an empty name; the same holds for each other hash.
type List struct {
	Name Text           `json:"name"`
	Hash hash.Algorithm `json:"hash"`
}

// Totals describe the source.
type Totals struct {
	Entries     int64 `json:"entries"`
	Directories int64 `json:"directories"`
	Bytes       int64 `json:"bytes"` // size of all regular files; files with several names count once
	LinkGroups  int64 `json:"link_groups"`
	Missing     int64 `json:"missing"`            // paths that manifests of the source list and the source lacks
	LeftOut     int64 `json:"left_out,omitempty"` // entries or lines that the filters leave out
}

// File describes a file of the plan.
type File struct {
	Entries int64  `json:"entries"`
	Files   int64  `json:"files"` // regular ones of Entries
	Bytes   int64  `json:"bytes"` // that are copied
	Cost    int64  `json:"cost"`  // nanoseconds
	Size    int64  `json:"size"`  // size of the file of the plan, in bytes
	SHA256  string `json:"sha256"`
}

// Text is a path or pattern. In JSON it has the escapes of a Go string: bytes that are not UTF-8 are
// written as \xHH, for instance, and a backslash as \\.
type Text string

// MarshalText implements encoding.TextMarshaler.
func (t Text) MarshalText() ([]byte, error) {
	quoted := strconv.Quote(string(t))
	return []byte(quoted[1 : len(quoted)-1]), nil
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (t *Text) UnmarshalText(text []byte) error {
	unquoted, err := strconv.Unquote(`"` + string(text) + `"`)
	*t = Text(unquoted)
	return err
}

// parsePlan reads plan.json. The digests of the other files are in it, so that they need no other
// checks.
func parsePlan(text []byte) (*Plan, error) {
	p := &Plan{}
	if err := json.Unmarshal(text, p); err != nil {
		return nil, err
	}
	switch {
	case p.Format != formatName:
		return nil, errors.New("it is not a plan of sealift")
	case p.Version != formatVersion:
		return nil, fmt.Errorf("the plan has format %d, and this version of sealift reads format %d; use the version that made the plan", p.Version, formatVersion)
	case !isHex(p.ID, 16):
		return nil, errors.New("its id is malformed")
	case len(p.Shards) == 0 || len(p.Shards) > MaxShards || len(p.Targets) == 0:
		return nil, fmt.Errorf("it has %d shards and %d destinations", len(p.Shards), len(p.Targets))
	}
	for i, a := range p.Options.Hashes {
		if !a.Known() || slices.Contains(p.Options.Hashes[:i], a) {
			return nil, fmt.Errorf("unknown or repeated hash %q", a)
		}
	}
	for _, l := range p.Lists {
		if !l.Hash.Known() {
			return nil, fmt.Errorf("unknown hash %q", l.Hash)
		}
	}
	return p, nil
}

// isHex reports whether text is size bytes in lower-case hexadecimal.
func isHex(text string, size int) bool {
	return len(text) == 2*size && strings.Trim(text, "0123456789abcdef") == ""
}

// The names in the directory of a plan.
const (
	planName   = "plan.json"
	shardsName = "shards"
	dirsName   = "dirs"
	workName   = "work"   // a directory for each shard, with its attempts and finish records
	endName    = "end"    // how the plan has ended; see End
	closedName = "closed" // no destination has the mark of the merged plan any more
)

// shardName returns the name of a shard in the directories "shards" and "work".
func shardName(i int) string { return fmt.Sprintf("%05d", i) }

// RootOf describes an open root that the user named path.
func RootOf(path string, info fsys.Info) Root {
	return Root{Path: Text(path), Ino: info.ID.Ino}
}
