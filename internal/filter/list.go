// Package filter decides which entries of a source tree are copied.
//
// A [List] holds the rules of --include, --exclude and --exclude-from in the
// order given, an [Only] the paths of --files-from. Neither accesses a file
// system: a walk asks both about each entry that it meets, from the root
// down.
//
// # Patterns
//
// Patterns are those of gitignore(5):
//
//   - A pattern without a slash (a trailing one aside) matches the base name
//     at any depth. With a leading or an inner slash it is anchored at the
//     source root.
//   - A trailing slash restricts the pattern to directories.
//   - "*" matches any run of characters, "?" one, "[a-z]" one of a class,
//     "[!a-z]" and "[^a-z]" one outside of it; none of them matches a slash.
//     Classes can contain "[:alpha:]" and the other eleven POSIX classes, in ASCII.
//   - A component "**" matches any number of directories, none included; at
//     the end of a pattern it matches everything inside, not the directory
//     itself.
//   - A backslash makes the next character literal. Braces, and a leading
//     "!" or "#" outside of a rule file, are ordinary characters.
//
// Names are bytes. In valid UTF-8, a character is a rune. Each other byte is one
// character, equal only to itself. (For git, each byte is a character, so "?" does not
// match "é" there.)
//
// For a pattern that git silently ignores ("[a", "a//b", "./a"), the constructors return
// an error. In a copy, the user would notice a rule without effect too late.
package filter

import (
	"fmt"
	"hash/fnv"
	"io"
	"slices"
	"strings"
)

// Verdict is the result of a [List] for one entry.
type Verdict struct {
	Selected bool // true if the entry belongs to the selection
	Searched bool // true for a directory that the walk has to read because of selected entries below
	counting int  // number of rules, from the first, that count below a directory
}

// LeftOut reports whether neither the entry nor anything below it belongs to the selection.
func (v Verdict) LeftOut() bool { return !v.Selected && !v.Searched }

// Rule is one rule of a List. Lists with the same rules are equal.
type Rule struct {
	Include bool // true to include, false to exclude
	Pattern string
	File    int // number of the file that has the rule, from 1; 0 for a rule of --include or --exclude
}

// List is an ordered list of include and exclude rules. The first rule that matches an entry
// decides, as in rsync. An entry that no rule matches follows its directory; entries of the root
// are then selected. Below a directory that a rule excludes, only the rules before that rule
// count.
//
// The zero List and a nil *List select everything. Once built, a List may be
// used from several goroutines.
type List struct {
	rules []rule
	paths bool // true if some rule matches more than the base name
}

// Include appends a rule that includes the entries that pattern matches. A malformed
// pattern is an error that quotes it; the list is then unchanged.
func (l *List) Include(pattern string) error { return l.Add(Rule{true, pattern, 0}) }

// Exclude appends a rule that excludes the entries that pattern matches. A malformed
// pattern is an error that quotes it; the list is then unchanged.
func (l *List) Exclude(pattern string) error { return l.Add(Rule{false, pattern, 0}) }

// Add appends rules. A malformed pattern is an error that quotes it; the list is then unchanged.
func (l *List) Add(rules ...Rule) error {
	all, paths := l.rules, l.paths
	for _, given := range rules {
		r, err := compile(given)
		if err != nil {
			return err
		}
		r.first = len(all)
		if r.first > 0 && r.File != 0 && all[r.first-1].File == r.File {
			r.first = all[r.first-1].first
		}
		all, paths = append(all, r), paths || !r.anyBase
	}
	l.rules, l.paths = all, paths
	return nil
}

// Rules returns the rules in the order in which they are tried.
func (l *List) Rules() (rules []Rule) {
	if l == nil {
		return nil
	}
	for _, r := range l.rules {
		rules = append(rules, r.Rule)
	}
	return rules
}

// Check returns an error for an include rule that has no effect. A rule of a file is accepted,
// except if neither the file nor a later rule excludes anything.
func (l *List) Check() error {
	excludes := 0 // number of rules up to the last one that excludes
	for i, r := range l.rules {
		if !r.Include {
			excludes = i + 1
		}
	}
	for i, r := range l.rules {
		if !r.Include {
			continue
		}
		if r.first >= excludes {
			return fmt.Errorf("the include rule %q has no effect, because no exclude rule follows; add --exclude '*' to leave out everything else", r.Pattern)
		}
		for j := 0; j < i && r.File == 0; j++ {
			if e := &l.rules[j]; e.File == 0 && !e.Include && (e.Pattern == r.Pattern || e.matchesAll()) {
				return fmt.Errorf("the include rule %q has no effect, because the exclude rule %q before it decides; put the include rule first", r.Pattern, e.Pattern)
			}
		}
	}
	return nil
}

// Fingerprint returns a number that is equal for lists with the same rules, and almost
// certainly different for others. That of nil is 0.
func (l *List) Fingerprint() uint64 {
	if l == nil {
		return 0
	}
	h := fnv.New64a()
	for _, r := range l.Rules() {
		fmt.Fprintf(h, "%t %q %d\n", r.Include, r.Pattern, r.File)
	}
	return h.Sum64()
}

// ExcludeFrom appends the rules of a file in the format of .gitignore: one
// pattern per line. It ignores blank lines and lines that begin with "#". A leading "!"
// makes the pattern an include; "\#" and "\!" match names that begin with these
// characters. It strips trailing spaces unless they are escaped, a CR at the end of a
// line, and a byte order mark at the start of the file.
//
// As in git, the last line that matches decides. So the rules are in reverse order. For the rules
// before and after the file, it counts as one rule.
//
// An error names the line number, and leaves the list unchanged.
func (l *List) ExcludeFrom(r io.Reader) error {
	file := 1
	for _, rule := range l.rules {
		file = max(file, rule.File+1)
	}
	var rules []Rule
	sc := newRecordScanner(r, '\n')
	number := 0
	for sc.Scan() {
		number++
		pattern, include := parseLine(trimLine(sc.Text(), number))
		if pattern == "" && !include {
			continue
		}
		rule := Rule{include, pattern, file}
		if _, err := compile(rule); err != nil {
			return fmt.Errorf("line %d: %w", number, err)
		}
		rules = append(rules, rule)
	}
	if err := sc.Err(); err != nil {
		return fmt.Errorf("line %d: %w", number+1, err)
	}
	slices.Reverse(rules)
	return l.Add(rules...)
}

// trimLine removes what editors add to a text: a CR at the end of a line, and a byte order mark
// before the first line. Lines are counted from 1.
func trimLine(line string, number int) string {
	if number == 1 {
		line = strings.TrimPrefix(line, "\ufeff")
	}
	return strings.TrimSuffix(line, "\r")
}

// parseLine returns the pattern of one line of a rule file, "" for a blank
// line or a comment.
func parseLine(line string) (pattern string, include bool) {
	if strings.HasPrefix(line, "#") {
		return "", false
	}
	line = trimTrailingSpaces(line)
	pattern, include = strings.CutPrefix(line, "!")
	return pattern, include
}

// trimTrailingSpaces removes the spaces at the end of s, beginning with the first one that no
// backslash escapes.
func trimTrailingSpaces(s string) string {
	end := 0 // index after the last byte to keep
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case ' ':
			continue
		case '\\':
			i++
		}
		end = i + 1
	}
	return s[:min(end, len(s))]
}

// Root returns the verdict on the source root itself, the parent of its entries.
func (l *List) Root() Verdict {
	if l == nil {
		return Verdict{Selected: true, Searched: true}
	}
	return Verdict{true, true, len(l.rules)}
}

// NeedsPaths reports whether Match needs complete paths, not only base names. To build the paths
// of a deep tree costs the square of its depth.
func (l *List) NeedsPaths() bool { return l != nil && l.paths }

// Match returns the verdict on the entry at path, which is relative to the
// source root, not empty, with "/" between components and none at either end.
// The parent is the verdict on the directory that contains the entry:
// [List.Root] for the entries of the root, and what Match returned for every
// other.
//
// Match does not allocate. It remembers which rules match; see [List.Unmet].
func (l *List) Match(path string, isDir bool, parent Verdict) Verdict {
	if l == nil || !parent.Searched {
		return Verdict{parent.Searched, parent.Searched, 0}
	}
	base := path[strings.LastIndexByte(path, '/')+1:]
	return l.decide(path, isDir, parent, func(i int) bool { return l.rules[i].match(path, base, isDir) })
}

// decide returns the verdict on an entry. matches reports whether rule i matches it.
func (l *List) decide(path string, isDir bool, parent Verdict, matches func(i int) bool) Verdict {
	v := Verdict{parent.Selected, false, parent.counting}
	decided := false
	for i := range l.rules {
		r := &l.rules[i]
		decides := !decided && i < parent.counting
		if met := r.met.Load(); met && !decides || !matches(i) {
			continue
		} else if !met {
			r.met.Store(true)
		}
		if decides {
			decided, v.Selected = true, r.Include
			if !r.Include {
				v.counting = r.first
			}
		}
	}
	if isDir {
		v.Searched = v.Selected
		for i := 0; i < v.counting && !v.Searched; i++ {
			v.Searched = l.rules[i].Include && l.rules[i].matchesBelow(path)
		}
		if !v.Searched {
			l.Unsearched(path)
		}
	}
	return v
}

// Unsearched records that the walk does not read the directory at path.
func (l *List) Unsearched(path string) {
	if l == nil {
		return
	}
	for i := range l.rules {
		if r := &l.rules[i]; !r.met.Load() && r.matchesBelow(path) {
			r.met.Store(true)
		}
	}
}

// Unmet returns the rules that have matched no entry in any call of Match, and that can match
// nothing below a directory that was not searched.
func (l *List) Unmet() (unmet []Rule) {
	if l == nil {
		return nil
	}
	for _, r := range l.rules {
		if !r.met.Load() {
			unmet = append(unmet, r.Rule)
		}
	}
	return unmet
}

// Ignores returns the rules as lines of a .gitignore. ok is false if there is an include:
// an ignore list includes everything that it does not name.
func (l *List) Ignores() (lines []string, ok bool) {
	for _, r := range l.rules {
		if r.Include {
			return nil, false
		}
		line := r.Pattern
		if strings.HasPrefix(line, "!") || strings.HasPrefix(line, "#") {
			line = `\` + line
		}
		lines = append(lines, line)
	}
	return lines, true
}
