package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/seed65876f4f/sealift/internal/filter"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/quote"
)

// selection holds the flags that select a part of a tree.
type selection struct {
	rules     filter.List
	filesFrom string
	from0     bool
	given     []optionJSON // the rules, in the order of the command line
	empty     bool         // true if filesFrom lists no path
}

// flags defines the flags. Their help begins with verb, for example "copy". oneFileSystem is
// the target of --one-file-system; nil for a command without that flag.
func (f *selection) flags(s *pflag.FlagSet, verb string, oneFileSystem *bool) {
	f.ruleFlags(s, verb)
	s.StringVar(&f.filesFrom, "files-from", "", verb+" only the paths listed in `FILE`, - for stdin")
	s.BoolVar(&f.from0, "from0", false, "read --files-from with NUL bytes as line ends")
	if oneFileSystem != nil {
		s.BoolVarP(oneFileSystem, "one-file-system", "x", false, "do not enter other file systems")
	}
}

// ruleFlags defines the flags that add a filter rule.
func (f *selection) ruleFlags(s *pflag.FlagSet, verb string) {
	// pflag calls Set in the order of the command line, which is the order of the rules.
	s.Var(&eachValue{"include", "value", f.rules.Include, &f.given}, "include", verb+" only paths that match `PATTERN`")
	s.Var(&eachValue{"exclude", "value", f.rules.Exclude, &f.given}, "exclude", "leave out paths that match `PATTERN`")
	s.Var(&eachValue{"exclude-from", "value", f.excludeFrom, &f.given}, "exclude-from", "read rules in .gitignore format from `FILE`")
}

// filterHelp explains the rules of --include and --exclude.
const filterHelp = `Patterns are those of .gitignore, with **. Rules are tried in the order given,
and the first match decides. A path that no rule matches follows its directory.
To select only some names, use --include '*.mov' --exclude '*'.`

// read returns the filter rules and the paths of --files-from; each is nil if its flags were
// not given. It may read standard input, so call it after all checks that need no input.
func (f *selection) read(cmd *cobra.Command) (rules *filter.List, only *filter.Only, err error) {
	if f.from0 && !cmd.Flags().Changed("files-from") {
		return nil, nil, usagef("--from0 needs --files-from")
	}
	if slices.ContainsFunc([]string{"include", "exclude", "exclude-from"}, cmd.Flags().Changed) {
		rules = &f.rules
		if err := rules.Check(); err != nil {
			return nil, nil, usagef("%s", err)
		}
	}
	if cmd.Flags().Changed("files-from") {
		read := func(r io.Reader) (err error) {
			only, err = filter.ReadOnly(r, f.from0)
			f.empty = only.Empty()
			return err
		}
		if f.filesFrom != "-" {
			err = readFile(f.filesFrom, read)
		} else if err = read(cmd.InOrStdin()); err != nil {
			err = fmt.Errorf("standard input: %w", err)
		}
		if err != nil {
			return nil, nil, usagef("--files-from: %s", err)
		}
	}
	return rules, only, nil
}

// files returns the files that the flags name.
func (f *selection) files() (files []usedFile) {
	if f.filesFrom != "-" {
		files = append(files, usedFile{what: "the list of --files-from", path: f.filesFrom})
	}
	for _, rule := range f.given {
		if rule.Name == "exclude-from" {
			files = append(files, usedFile{what: "a list of --exclude-from", path: rule.Value})
		}
	}
	return files
}

// excludeFrom appends the rules of a file.
func (f *selection) excludeFrom(name string) error { return readFile(name, f.rules.ExcludeFrom) }

// readFile reads a file that the user has named.
func readFile(name string, read func(io.Reader) error) error {
	f, err := fsys.OpenTrusted(name, os.O_RDONLY, 0)
	if err != nil {
		return fileError(err)
	}
	defer f.Close() //nolint:errcheck // it was only read
	if err := read(f); err != nil {
		return fmt.Errorf("%s: %w", quote.Name(name), err)
	}
	return nil
}

// maxUnmet is how many rules that match nothing are named in warnings. The others are counted.
const maxUnmet = 10

// warnUnmet warns of filter rules that matched nothing and of an empty --files-from, and returns
// the number of warnings. nothing reports that the rules leave no file, which is a warning, too.
// Call it only after a run that has read the complete tree. paths are those of --files-from; a
// command that reports missing paths itself passes nil.
func (f *selection) warnUnmet(r *reporter, paths *filter.Only, nothing bool) (warnings int64) {
	if nothing {
		r.warning("", "", errors.New("the filters select no file"))
		warnings++
	}
	if f.empty {
		r.warning("", "", errors.New("--files-from "+quote.Name(f.filesFrom)+" lists no path"))
		warnings++
	}
	var unmet []string
	for _, rule := range f.rules.Unmet() {
		kind := "exclude"
		if rule.Include {
			kind = "include"
		}
		unmet = append(unmet, "the "+kind+" rule "+quote.Name(rule.Pattern))
	}
	for _, path := range paths.Unmet() {
		unmet = append(unmet, quote.Name(path)+", which --files-from lists,")
	}
	rest := max(len(unmet)-maxUnmet, 0)
	for _, what := range unmet[:len(unmet)-rest] {
		r.warning("", "", errors.New(what+" matches nothing"))
		warnings++
	}
	if rest > 0 {
		r.warning("", "", fmt.Errorf("%s more rules or paths match nothing", grouped(int64(rest))))
		warnings++
	}
	return warnings
}
