package shard

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/seed65876f4f/sealift/internal/filter"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
)

const (
	formatName    = "sealift-plan"
	formatVersion = 1

	// MaxShards is the largest number of shards of a plan: an indexed job of Kubernetes has
	// at most 100,000 tasks.
	MaxShards = 100_000

	maxPlanSize = 64 << 20 // bytes of plan.json; 100,000 shards need less than 20 MB
)

// Plan is the content of plan.json.
type Plan struct {
	Format  string    `json:"format"`
	Version int       `json:"version"`
	ID      string    `json:"id"`   // 32 hexadecimal digits
	Kind    string    `json:"kind"` // KindCopy or KindVerify
	Created time.Time `json:"created"`
	Sealift string    `json:"sealift"` // the version of the program

	Options Options  `json:"options"`
	Source  Root     `json:"source"`
	Sample  []Sample `json:"sample"` // of the source
	Targets []Target `json:"targets"`
	Lists   []List   `json:"lists"`            // manifests in the source
	Late    []Text   `json:"late"`             // files of the source that have names of manifests; no shard has them
	Checks  *Checks  `json:"checks,omitempty"` // of a verification, whose directories are Targets

	Totals  Totals `json:"totals"`
	Shards  []File `json:"shards"`
	Dirs    File   `json:"dirs"`
	Missing File   `json:"missing"`
}

// The kinds of plans.
const (
	KindCopy   = "copy"
	KindVerify = "verify"
)

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
	Rules          []Rule           `json:"rules"`      // of the filters, in the order in which they are tried
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

// Root is the source or a destination. On another node its device number may differ; the
// inode number does not.
type Root struct {
	Path Text   `json:"path"`
	Dev  uint64 `json:"dev"`
	Ino  uint64 `json:"ino"`
}

// Target is a destination.
type Target struct {
	Root
}

// Sample is an entry of the source. A task recognises the source by its samples.
type Sample struct {
	Path Text   `json:"path"`
	Ino  uint64 `json:"ino"`
}

// maxSample limits the entries of the source in Plan.Sample.
const maxSample = 16

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
	Bytes       int64 `json:"bytes"` // of regular files; files with several names count once
	LinkGroups  int64 `json:"link_groups"`
	LeftOut     int64 `json:"left_out,omitempty"` // entries or lines that the filters leave out
}

// File describes a file of the plan.
type File struct {
	Entries int64  `json:"entries"`
	Bytes   int64  `json:"bytes"` // that are copied
	Cost    int64  `json:"cost"`  // nanoseconds
	Size    int64  `json:"size"`  // of the file itself, bytes
	SHA256  string `json:"sha256"`
}

// Text is a path or pattern. In JSON, bytes that are not UTF-8 are written as \xHH, and a
// backslash as \\.
type Text string

// MarshalText implements encoding.TextMarshaler.
func (t Text) MarshalText() ([]byte, error) {
	var out []byte
	for rest := string(t); rest != ""; {
		r, size := utf8.DecodeRuneInString(rest)
		switch {
		case r == utf8.RuneError && size == 1:
			out = fmt.Appendf(out, `\x%02x`, rest[0])
		case r == '\\':
			out = append(out, `\\`...)
		default:
			out = append(out, rest[:size]...)
		}
		rest = rest[size:]
	}
	return out, nil
}

// UnmarshalText implements encoding.TextUnmarshaler. It accepts only what MarshalText writes.
func (t *Text) UnmarshalText(text []byte) error {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' {
			b.WriteByte(text[i])
			continue
		}
		rest := text[i+1:]
		switch {
		case len(rest) >= 1 && rest[0] == '\\':
			b.WriteByte('\\')
			i++
		case len(rest) >= 3 && rest[0] == 'x':
			n, err := strconv.ParseUint(string(rest[1:3]), 16, 8)
			if err != nil {
				return errEscape
			}
			b.WriteByte(byte(n))
			i += 3
		default:
			return errEscape
		}
	}
	*t = Text(b.String())
	if again, _ := t.MarshalText(); !bytes.Equal(again, text) {
		return errEscape
	}
	return nil
}

var errEscape = errors.New("malformed escape")

// A VersionError says that a plan has a format that this version does not read.
type VersionError struct{ Version int }

func (e *VersionError) Error() string {
	return fmt.Sprintf("the plan has format %d, and this version of sealift reads format %d; use the version that made the plan", e.Version, formatVersion)
}

// parsePlan reads plan.json strictly: unknown fields and values out of range are errors.
func parsePlan(text []byte) (*Plan, error) {
	if len(text) > maxPlanSize {
		return nil, errors.New("it is longer than 64 MiB")
	}
	var head struct {
		Format  string `json:"format"`
		Version int    `json:"version"`
	}
	if err := json.Unmarshal(text, &head); err != nil {
		return nil, err
	}
	if head.Format != formatName {
		return nil, errors.New("it is not a plan of sealift")
	}
	if head.Version != formatVersion {
		return nil, &VersionError{head.Version}
	}
	p := &Plan{}
	if err := decodeStrict(text, p, p.encode); err != nil {
		return nil, err
	}
	return p, p.validate()
}

// decodeStrict reads JSON. The text must be the one that encode returns afterwards.
func decodeStrict(text []byte, into any, encode func() ([]byte, error)) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if again, err := encode(); err != nil || !bytes.Equal(again, text) {
		return errors.New("it is not written as sealift writes it")
	}
	return nil
}

// encode returns the text of plan.json. A plan has only one valid text.
func (p *Plan) encode() ([]byte, error) {
	p.Sample, p.Lists, p.Late = notNil(p.Sample), notNil(p.Lists), notNil(p.Late)
	text, err := json.MarshalIndent(p, "", " ")
	return append(text, '\n'), err
}

// notNil returns list, or an empty list instead of nil, which JSON would write as null.
func notNil[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

func (p *Plan) validate() error {
	switch {
	case !isHex(p.ID, 16):
		return errors.New("its id is malformed")
	case len(p.Shards) == 0 || len(p.Shards) > MaxShards:
		return fmt.Errorf("it has %d shards", len(p.Shards))
	case len(p.Targets) == 0:
		return errors.New("it has no destination")
	case len(p.Sample) > maxSample:
		return errors.New("its sample of the source is too large")
	case p.Kind != KindCopy && p.Kind != KindVerify:
		return fmt.Errorf("its kind is unknown: %q", p.Kind)
	case p.Totals.Entries < 0 || p.Totals.Directories < 0 || p.Totals.Bytes < 0 || p.Totals.LinkGroups < 0 || p.Totals.LeftOut < 0:
		return errors.New("a total is negative")
	}
	if (p.Kind == KindVerify) != (p.Checks != nil) {
		return errors.New("it is of another kind")
	}
	if p.Checks != nil {
		if err := p.Checks.validate(len(p.Targets)); err != nil {
			return err
		}
	}
	for i, a := range p.Options.Hashes {
		if !a.Known() || slices.Contains(p.Options.Hashes[:i], a) {
			return fmt.Errorf("unknown or repeated hash %q", a)
		}
	}
	for _, l := range p.Lists {
		if !l.Hash.Known() || l.Name != "" && !IsPath(string(l.Name)) {
			return fmt.Errorf("malformed manifest %q of the source", l.Name)
		}
	}
	for _, s := range p.Sample {
		if !IsPath(string(s.Path)) {
			return fmt.Errorf("malformed path %q of the sample", s.Path)
		}
	}
	for _, path := range p.Late {
		if !IsPath(string(path)) {
			return fmt.Errorf("malformed path %q of a late entry", path)
		}
	}
	var entries int64
	for _, f := range append(slices.Clone(p.Shards), p.Dirs, p.Missing) {
		if f.Entries < 0 || f.Bytes < 0 || f.Cost < 0 || f.Size <= 0 || !isHex(f.SHA256, 32) {
			return errors.New("it describes a file that cannot be")
		}
		entries += f.Entries
	}
	if entries != p.Totals.Entries+p.Totals.Directories+p.Missing.Entries {
		return errors.New("its totals are not those of its shards")
	}
	return nil
}

// isHex reports whether text is size bytes in lower-case hexadecimal.
func isHex(text string, size int) bool {
	return len(text) == 2*size && strings.Trim(text, "0123456789abcdef") == ""
}

// An OptionsError says that a plan was made with other options.
type OptionsError struct{ Names []string } // in plan.json

func (e *OptionsError) Error() string {
	return "the plan was made with other values of " + strings.Join(e.Names, ", ") + "; make a new plan to change them"
}

// Check returns an *OptionsError if a run with these options would have another result than
// the plan.
func (p *Plan) Check(o Options) error {
	have, err := fieldsOf(p.Options)
	if err != nil {
		return err
	}
	want, err := fieldsOf(o)
	if err != nil {
		return err
	}
	var names []string
	for name, value := range want {
		if !bytes.Equal(value, have[name]) {
			names = append(names, name)
		}
	}
	if names == nil {
		return nil
	}
	slices.Sort(names)
	return &OptionsError{names}
}

// fieldsOf returns the options by their names in plan.json. Lists without elements are equal.
func fieldsOf(o Options) (map[string]json.RawMessage, error) {
	o.Hashes, o.Preserve, o.Rules = notNil(o.Hashes), notNil(o.Preserve), notNil(o.Rules)
	text, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	m := map[string]json.RawMessage{}
	return m, json.Unmarshal(text, &m)
}

// The names in the directory of a plan.
const (
	planName    = "plan.json"
	shardsName  = "shards"
	dirsName    = "dirs"
	missingName = "missing"

	planningName = "planning" // the id of a plan that is not complete
	planLockName = "lock"     // of the planner
	workName     = "work"
)

// shardName returns the name of a shard in the directories "shards" and "work".
func shardName(i int) string { return fmt.Sprintf("%05d", i) }

// RootOf describes an open root that the user named path.
func RootOf(path string, info fsys.Info) Root {
	return Root{Path: Text(path), Dev: info.ID.Dev, Ino: info.ID.Ino}
}
