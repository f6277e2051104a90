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

// classicMHL is the value of --mhl that selects a media hash list (MHL 1.1).
const classicMHL = "classic"

// mhlKind is the value of --mhl.
type mhlKind struct {
	classic bool // true for a media hash list (MHL 1.1), false for an ASC MHL history
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

// given reports whether --mhl is given, in either form.
func (f *mhlFlags) given() bool { return f.kind.hashes != nil }

// asc reports whether the command writes an ASC MHL history.
func (f *mhlFlags) asc() bool { return f.given() && !f.kind.classic }

// mhlHelp is the part of a command's help about --mhl.
var mhlHelp = `--mhl writes a generation of an ASC MHL history to the directory ascmhl. LIST is
a comma-separated list of digests: ` + inWords(namesOf(mhl.Algorithms())) + `.
AUTHOR is "NAME[,email=...][,phone=...][,role=...]". PATTERN has the syntax of
.gitignore; the new generation and all later ones leave out paths that match it.

--mhl=classic writes a media hash list (MHL 1.1) into the root of the tree. Its
name is ROOT_DATE_TIME.mhl. --mhl=classic,md5 chooses its digests
(default ` + string(classic.Algorithms()[0]) + `).`

// define defines the flags. kinds completes the help of --mhl: "write ".
func (f *mhlFlags) define(s *pflag.FlagSet, kinds string) {
	v := newValue(&f.kind, "", parseMHL)
	v.offer = listCompletions([]string{classicMHL}, namesOf(mhl.Algorithms()))
	s.Var(v, "mhl", "`LIST`: write "+kinds+" (default "+string(mhl.DefaultHash)+")")
	s.Lookup("mhl").NoOptDefVal = string(mhl.DefaultHash)
	eachFlag(s, "mhl-author", "record `AUTHOR` in the MHL; may be repeated", f.addAuthor)
	eachFlag(s, "mhl-location", "record `PLACE` in the MHL", mhlText(&f.location))
	eachFlag(s, "mhl-comment", "record `TEXT` as comment of the MHL", mhlText(&f.comment))
	eachFlag(s, "mhl-ignore", "do not record paths that match `PATTERN`", f.addIgnore)
}

func namesOf(algorithms []hash.Algorithm) (names []string) {
	for _, a := range algorithms {
		names = append(names, string(a))
	}
	return names
}

// parseMHL parses the value of --mhl: a list of digests for a history, "classic", or
// "classic," and a list of digests.
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
			err = fmt.Errorf("a media hash list cannot hold %s digests; choose from %s", a, inWords(namesOf(possible)))
		}
	}
	return mhlKind{isClassic, hashes}, err
}

// mhlText returns the parser of a flag whose text is written to XML.
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
	email       = regexp.MustCompile(`^[^@]+@[^.]+\..+$`) // the pattern of the ASC MHL schema
)

// addAuthor parses the value of --mhl-author. A comma separates fields only if "WORD=" follows;
// other commas belong to the name or the field before them.
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
			return fmt.Errorf("%q is not a field of an author; the fields are email, phone and role", key)
		}
		end = at[0]
	}
	if a.Name = text[:end]; a.Name == "" {
		return fmt.Errorf("the author has no name")
	}
	if a.Email != "" && !email.MatchString(a.Email) {
		return fmt.Errorf("%q is not an e-mail address by the schema of ASC MHL", a.Email)
	}
	f.authors = append(f.authors, a)
	return nil
}

// check refuses flags about a history if the command writes none.
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
	return usagef("%s describes an ASC MHL history: it needs --mhl without classic", about)
}

// patterns returns the ignore patterns of a history: those of --mhl-ignore, and one for each
// exclude rule.
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

// creator returns the creator information of a generation.
func (f *mhlFlags) creator() mhl.Creator {
	host, _ := os.Hostname() // an empty name is valid
	return mhl.Creator{
		Time: time.Now(), Hostname: host, Tool: "sealift", ToolVersion: readBuild().Version,
		Authors: f.authors, Location: f.location, Comment: f.comment,
	}
}

// mhlCreator returns the creator information of a classic media hash list.
func mhlCreator() classic.Creator {
	c := classic.Creator{User: "unknown", Host: "unknown", Tool: readBuild().line()}
	if host, err := os.Hostname(); err == nil {
		c.Host = host
	}
	if u, err := user.Current(); err == nil {
		c.User = u.Username
		c.Name, _, _ = strings.Cut(u.Name, ",") // the first field of GECOS in passwd
	}
	return c
}
