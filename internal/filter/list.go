// Package filter decides which entries of a source tree are copied.
//
// A [List] holds the rules of --include, --exclude and --exclude-from in the
// order given, an [Only] the paths of --files-from. Neither touches a file
// system: a walker asks both about each entry that it meets, from the root
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
//     Classes know "[:alpha:]" and its eleven siblings, in ASCII.
//   - A component "**" matches any number of directories, none included; at
//     the end of a pattern it matches everything inside, not the directory
//     itself.
//   - A backslash takes the next character literally. Braces, and a leading
//     "!" or "#" outside of a rule file, have no meaning of their own.
//
// Names are bytes. Where they are valid UTF-8, a character is a rune; each
// byte that is not is a character of its own, equal only to itself. (Git
// counts bytes throughout, so there "?" does not match "é".)
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

// Verdict is what a [List] says about one entry.
type Verdict uint8

const (
	// Included: the entry is copied.
	Included Verdict = iota
	// Excluded: the entry is not copied. Nothing below an excluded directory
	// is visited; as in gitignore, no rule can bring it back.
	Excluded
	// Traverse: a directory that no rule names while the default is
	// exclusion. The walk visits it, but creates it only when something inside it is
	// copied. Files never get this verdict.
	Traverse
)

// String returns the verdict's name in lower case, for messages.
func (v Verdict) String() string {
	switch v {
	case Included:
		return "included"
	case Excluded:
		return "excluded"
	case Traverse:
		return "traverse"
	}
	return fmt.Sprintf("Verdict(%d)", uint8(v))
}

// List is an ordered list of include and exclude rules; the last rule that
// matches an entry wins. If the first rule is an include, whatever no rule
// matches is excluded, otherwise it is included.
//
// The zero List and a nil *List include everything. Once built, a List may be
// used from several goroutines.
type List struct {
	rules []rule
	paths bool // some rule matches more than the base name
}

// Include appends a rule that includes what pattern matches. A malformed
// pattern is an error that quotes it; the list is then unchanged.
func (l *List) Include(pattern string) error {
	return l.add(pattern, true)
}

// Exclude appends a rule that excludes what pattern matches. A malformed
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

// Fingerprint is a number that two lists share if they have the same rules, and
// hardly otherwise. That of nil is 0.
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
		line := sc.Text()
		if number == 1 {
			line = strings.TrimPrefix(line, "\ufeff")
		}
		pattern, include := parseLine(line)
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

// parseLine returns the pattern of one line of a rule file, "" for a blank
// line or a comment.
func parseLine(line string) (pattern string, include bool) {
	if strings.HasPrefix(line, "#") {
		return "", false
	}
	line = trimTrailingSpaces(strings.TrimSuffix(line, "\r"))
	pattern, include = strings.CutPrefix(line, "!")
	return pattern, include
}

// trimTrailingSpaces strips the spaces at the end of s from the first one on
// that no backslash escapes.
func trimTrailingSpaces(s string) string {
	end := 0 // past the last byte to keep
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
// entries: [Included], or [Traverse] where the default is exclusion.
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
// The parent is the verdict on the directory that holds the entry:
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

// Unmet returns the rules that have matched nothing that Match was asked about, in their
// order: "include" or "exclude", and the pattern. Nothing below an excluded directory is
// asked about.
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
