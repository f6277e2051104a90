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
	"strings"
	"sync/atomic"
)

// Verdict is the result of a [List] for one entry.
type Verdict uint8

const (
	// Included: the entry is copied.
	Included Verdict = iota
	// Excluded: the entry is not copied. Nothing below an excluded directory
	// is visited; as in gitignore, no rule can bring it back.
	Excluded
	// Traverse: a directory that no rule matches, if the default is exclusion. The walk visits
	// it, but a copy creates it only when it copies something inside. Files never get this
	// verdict.
	Traverse
)

// List is an ordered list of include and exclude rules; the last rule that
// matches an entry decides. If the first rule is an include, entries that no rule
// matches are excluded, otherwise they are included.
//
// The zero List and a nil *List include everything. Once built, a List may be
// used from several goroutines.
type List struct {
	rules []rule
	paths bool // some rule matches more than the base name
}

// Include appends a rule that includes the entries that pattern matches. A malformed
// pattern is an error that quotes it; the list is then unchanged.
func (l *List) Include(pattern string) error {
	return l.add(pattern, true)
}

// Exclude appends a rule that excludes the entries that pattern matches. A malformed
// pattern is an error that quotes it; the list is then unchanged.
func (l *List) Exclude(pattern string) error {
	return l.add(pattern, false)
}

func (l *List) add(pattern string, include bool) error {
	r, err := compile(pattern)
	if err != nil {
		return err
	}
	r.include, r.text, r.met = include, pattern, new(atomic.Bool)
	l.rules = append(l.rules, r)
	l.paths = l.paths || !r.anyBase
	return nil
}

// Fingerprint returns a number that is equal for lists with the same rules, and almost
// certainly different for others. That of nil is 0.
func (l *List) Fingerprint() uint64 {
	if l == nil {
		return 0
	}
	h := fnv.New64a()
	for _, r := range l.rules {
		fmt.Fprintf(h, "%t %q\n", r.include, r.text)
	}
	return h.Sum64()
}

// Each calls yield for the rules in their order. Adding them to another list, by Include and
// Exclude, makes an equal one.
func (l *List) Each(yield func(include bool, pattern string)) {
	if l == nil {
		return
	}
	for _, r := range l.rules {
		yield(r.include, r.text)
	}
}

// ExcludeFrom appends the rules of a file in the format of .gitignore: one
// pattern per line. It ignores blank lines and lines that begin with "#". A leading "!"
// makes the pattern an include; "\#" and "\!" match names that begin with these
// characters. It strips trailing spaces unless they are escaped, a CR at the end of a
// line, and a byte order mark at the start of the file.
//
// The "!" rule counts like any include: if it is the first rule of the whole
// list, everything else is excluded.
//
// An error names the line number, and leaves the list unchanged.
func (l *List) ExcludeFrom(r io.Reader) error {
	var read List
	sc := newRecordScanner(r, '\n')
	number := 0
	for sc.Scan() {
		number++
		pattern, include := parseLine(trimLine(sc.Text(), number))
		if pattern == "" && !include {
			continue
		}
		if err := read.add(pattern, include); err != nil {
			return fmt.Errorf("line %d: %w", number, err)
		}
	}
	if err := sc.Err(); err != nil {
		return fmt.Errorf("line %d: %w", number+1, err)
	}
	l.rules = append(l.rules, read.rules...)
	l.paths = l.paths || read.paths
	return nil
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
	end := 0 // after the last byte to keep
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

// Root returns the verdict on the source root itself, the parent of its
// entries: [Included], or [Traverse] if the default is exclusion.
func (l *List) Root() Verdict {
	if l == nil || len(l.rules) == 0 || !l.rules[0].include {
		return Included
	}
	return Traverse
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
// Below an excluded directory everything is excluded. Otherwise the last rule
// that matches the entry decides. If no rule matches, the entry has the verdict of its
// parent, except that a file in a directory that is only traversed is excluded. Thus an included directory includes what lies below it.
//
// Match does not allocate. It remembers which rules match; see [List.Unmet].
func (l *List) Match(path string, isDir bool, parent Verdict) Verdict {
	if parent == Excluded {
		return Excluded
	}
	if l == nil || len(l.rules) == 0 {
		return Included
	}
	base := path[strings.LastIndexByte(path, '/')+1:]
	for i := len(l.rules) - 1; i >= 0; i-- {
		r := &l.rules[i]
		if !r.match(path, base, isDir) {
			continue
		}
		l.note(i, path, base, isDir)
		if r.include {
			return Included
		}
		return Excluded
	}
	if parent == Traverse && !isDir {
		return Excluded
	}
	return parent
}

// note records that rule i matches an entry, and which of the rules before it do.
func (l *List) note(i int, path, base string, isDir bool) {
	for ; i >= 0; i-- {
		if r := &l.rules[i]; !r.met.Load() && r.match(path, base, isDir) {
			r.met.Store(true)
		}
	}
}

// Unmet returns the rules that have matched no entry in any call of Match, in their order:
// "include" or "exclude", and the pattern. Match is not called for entries below an excluded
// directory.
func (l *List) Unmet() (unmet [][2]string) {
	if l == nil {
		return nil
	}
	for _, r := range l.rules {
		kind := "exclude"
		if r.include {
			kind = "include"
		}
		if !r.met.Load() {
			unmet = append(unmet, [2]string{kind, r.text})
		}
	}
	return unmet
}

// Ignores returns the rules as lines of a .gitignore. ok is false if there is an include:
// an ignore list includes everything that it does not name.
func (l *List) Ignores() (lines []string, ok bool) {
	for _, r := range l.rules {
		if r.include {
			return nil, false
		}
		line := r.text
		if strings.HasPrefix(line, "!") || strings.HasPrefix(line, "#") {
			line = `\` + line
		}
		lines = append(lines, line)
	}
	return lines, true
}
