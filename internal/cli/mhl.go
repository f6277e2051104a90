package cli

import (
	"fmt"
	"os"
	"os/user"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/seed65876f4f/sealift/internal/filter"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/mhl"
	"github.com/seed65876f4f/sealift/internal/mhl/classic"
)

// classicMHL is the word of --mhl for a media hash list of version 1.
const classicMHL = "classic"

// mhlKind is the value of --mhl.
type mhlKind struct {
	classic bool // a media hash list of version 1, not an ASC MHL history
	hashes  []hash.Algorithm
}

// mhlFlags are the flags of the commands that write media hash lists.
type mhlFlags struct {
	kind              mhlKind
	authors           []mhl.Author
	location, comment string
	ignore            []string
	detectRenames     bool
}

// given reports whether a media hash list is to be written.
func (f *mhlFlags) given() bool { return f.kind.hashes != nil }

// asc reports whether an ASC MHL history is to be written.
func (f *mhlFlags) asc() bool { return f.given() && !f.kind.classic }

// mhlHelp explains the flags of a history in the help of a command.
var mhlHelp = `--mhl writes a generation of an ASC MHL history to the directory ascmhl. LIST is
a list of digests with commas: ` + inWords(namesOf(mhl.Algorithms())) + `.
AUTHOR is "NAME[,email=...][,phone=...][,role=...]". PATTERN is one of
.gitignore; later generations do not record these paths either.

--mhl=classic writes a media hash list (MHL 1.1) into the directory, named after
it and the time. --mhl=classic,md5 chooses its digests (default ` + string(classic.Algorithms()[0]) + `).`

// define defines the flags. kinds is what --mhl can write in this command.
func (f *mhlFlags) define(s *pflag.FlagSet, kinds string) {
	v := newValue(&f.kind, "", parseMHL)
	v.offer = listCompletions([]string{classicMHL}, namesOf(mhl.Algorithms()))
	s.Var(v, "mhl", "`LIST`: write "+kinds+" (default "+string(mhl.DefaultHash)+")")
	s.Lookup("mhl").NoOptDefVal = string(mhl.DefaultHash)
	s.Func("mhl-author", "name an `AUTHOR`; may be repeated", f.addAuthor)
	s.Func("mhl-location", "name the `PLACE`", mhlText(&f.location))
	s.Func("mhl-comment", "add a comment of this `TEXT`", mhlText(&f.comment))
	s.Func("mhl-ignore", "do not record paths that match `PATTERN`", f.addIgnore)
}

func namesOf(algorithms []hash.Algorithm) (names []string) {
	for _, a := range algorithms {
		names = append(names, string(a))
	}
	return names
}

// parseMHL reads the value of --mhl: digests of a history, or "classic", and perhaps the
// digests of that list behind it.
func parseMHL(text string) (k mhlKind, err error) {
	if text == classicMHL {
		return mhlKind{true, classic.Algorithms()[:1]}, nil
	}
	list, isClassic := strings.CutPrefix(text, classicMHL+",")
	possible := mhl.Algorithms()
	if isClassic {
		possible = classic.Algorithms()
	}
	hashes, err := hash.Parse(list)
	if err == nil && len(hashes) == 0 {
		err = fmt.Errorf("a media hash list needs digests")
	}
	for _, a := range hashes {
		if !slices.Contains(possible, a) {
			err = fmt.Errorf("a media hash list has no digests of %s; choose from %s", a, inWords(namesOf(possible)))
		}
	}
	return mhlKind{isClassic, hashes}, err
}

// mhlText returns the function of a flag for a text that XML has to hold.
func mhlText(target *string) func(string) error {
	return func(text string) error {
		if !mhl.Representable(text) {
			return fmt.Errorf("XML cannot hold this text")
		}
		*target = text
		return nil
	}
}

func (f *mhlFlags) addIgnore(pattern string) error {
	if pattern == "" || !mhl.Representable(pattern) || strings.ContainsAny(pattern, "\r\n") {
		return fmt.Errorf("%q is not a pattern of one line", pattern)
	}
	if err := mhl.CheckPattern(pattern); err != nil {
		return err
	}
	f.ignore = append(f.ignore, pattern)
	return nil
}

var (
	authorField = regexp.MustCompile(`,([A-Za-z]+)=`)
	email       = regexp.MustCompile(`^[^@]+@[^.]+\..+$`) // as the schema has it
)

// addAuthor reads the value of --mhl-author. A comma that no field follows belongs to
// what is before it.
func (f *mhlFlags) addAuthor(text string) error {
	if !mhl.Representable(text) {
		return fmt.Errorf("XML cannot hold this text")
	}
	var a mhl.Author
	fields := authorField.FindAllStringSubmatchIndex(text, -1)
	end := len(text)
	for _, at := range slices.Backward(fields) {
		value := text[at[1]:end]
		switch key := text[at[2]:at[3]]; key {
		case "email":
			a.Email = value
		case "phone":
			a.Phone = value
		case "role":
			a.Role = value
		default:
			return fmt.Errorf("an author has no %q; there are email, phone and role", key)
		}
		end = at[0]
	}
	if a.Name = text[:end]; a.Name == "" {
		return fmt.Errorf("the author has no name")
	}
	if a.Email != "" && !email.MatchString(a.Email) {
		return fmt.Errorf("%q is not an e-mail address as the schema of ASC MHL has them", a.Email)
	}
	f.authors = append(f.authors, a)
	return nil
}

// check refuses flags about a history without one.
func (f *mhlFlags) check() error {
	var about string
	switch {
	case f.asc():
		return nil
	case f.authors != nil:
		about = "--mhl-author"
	case f.location != "":
		about = "--mhl-location"
	case f.comment != "":
		about = "--mhl-comment"
	case f.ignore != nil:
		about = "--mhl-ignore"
	case f.detectRenames:
		about = "--detect-renames"
	default:
		return nil
	}
	return usagef("%s is about an ASC MHL history, and needs --mhl, not with classic", about)
}

// patterns returns the ignore patterns of a run: those of --mhl-ignore and those that
// mean the same as rules to leave something out.
func (f *mhlFlags) patterns(rules *filter.List) ([]string, error) {
	if rules == nil {
		return f.ignore, nil
	}
	lines, ok := rules.Ignores()
	if !ok {
		return nil, usagef("--include and --mhl contradict each other: a history lists a whole directory, except for ignore patterns")
	}
	return append(f.ignore[:len(f.ignore):len(f.ignore)], lines...), nil
}

// creator describes this program and its user.
func (f *mhlFlags) creator(comment string) mhl.Creator {
	host, _ := os.Hostname() // an empty name is valid
	if f.comment != "" {
		comment = f.comment
	}
	return mhl.Creator{
		Time: time.Now(), Hostname: host, Tool: "sealift", ToolVersion: readBuild().Version,
		Authors: f.authors, Location: f.location, Comment: comment,
	}
}

// mhlCreator is what a media hash list says about its origin.
func mhlCreator() *classic.Creator {
	c := &classic.Creator{User: "unknown", Host: "unknown", Tool: readBuild().line()}
	if host, err := os.Hostname(); err == nil {
		c.Host = host
	}
	if u, err := user.Current(); err == nil {
		c.User = u.Username
		c.Name, _, _ = strings.Cut(u.Name, ",") // the first field of passwd's
	}
	return c
}
