package cli

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/seed65876f4f/sealift/internal/filter"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/mhl"
)

// mhlFlags are the flags of the commands that write ASC MHL histories.
type mhlFlags struct {
	hashes            []hash.Algorithm // nil without --mhl
	authors           []mhl.Author
	location, comment string
	ignore            []string
	detectRenames     bool
}

// define defines the flags. comment says what the default of --mhl-comment is.
func (f *mhlFlags) define(s *pflag.FlagSet, comment string) {
	s.Var(newList(&f.hashes, "", parseMHLHashes, nil, mhlHashNames()), "mhl",
		"write a generation of an ASC MHL history, in the directory ascmhl, with a comma-separated `LIST` of "+inWords(mhlHashNames())+"; without a list: "+string(mhl.DefaultHash))
	s.Lookup("mhl").NoOptDefVal = string(mhl.DefaultHash)
	s.Func("mhl-author", "name an author in the generation: `NAME`[,email=...][,phone=...][,role=...]; may be given several times", f.addAuthor)
	s.Func("mhl-location", "name a `PLACE` in the generation", mhlText(&f.location))
	s.Func("mhl-comment", "add a comment of this `TEXT` to the generation"+comment, mhlText(&f.comment))
	s.Func("mhl-ignore", "leave out what matches the gitignore-style `PATTERN`, in this and in later generations; may be given several times", f.addIgnore)
}

func mhlHashNames() (names []string) {
	for _, a := range mhl.Algorithms() {
		names = append(names, string(a))
	}
	return names
}

func parseMHLHashes(list string) ([]hash.Algorithm, error) {
	if list == "" {
		return nil, nil
	}
	hashes, err := hash.Parse(list)
	if err != nil || hashes == nil {
		return nil, fmt.Errorf("%q is not a list of %s", list, inWords(mhlHashNames()))
	}
	for _, a := range hashes {
		if !slices.Contains(mhl.Algorithms(), a) {
			return nil, fmt.Errorf("ASC MHL has no %s; choose from %s", a, inWords(mhlHashNames()))
		}
	}
	return hashes, nil
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

// check refuses flags that need --mhl.
func (f *mhlFlags) check() error {
	switch {
	case f.hashes != nil:
		return nil
	case f.authors != nil:
		return usagef("--mhl-author needs --mhl")
	case f.location != "":
		return usagef("--mhl-location needs --mhl")
	case f.comment != "":
		return usagef("--mhl-comment needs --mhl")
	case f.ignore != nil:
		return usagef("--mhl-ignore needs --mhl")
	case f.detectRenames:
		return usagef("--detect-renames needs --mhl")
	}
	return nil
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
