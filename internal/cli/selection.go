package cli

import (
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/seed65876f4f/sealift/internal/filter"
	"github.com/seed65876f4f/sealift/internal/quote"
)

// selection is the flags that say which part of a tree is meant.
type selection struct {
	rules     filter.List
	filesFrom string
	from0     bool
}

// flags defines them for a command that does verb to a tree. oneFileSystem is nil for a
// command that walks none.
func (f *selection) flags(s *pflag.FlagSet, verb string, oneFileSystem *bool) {
	f.ruleFlags(s, verb)
	s.StringVar(&f.filesFrom, "files-from", "", verb+" only the paths listed in `FILE`, - for stdin")
	s.BoolVar(&f.from0, "from0", false, "read --files-from with NUL bytes as line ends")
	if oneFileSystem != nil {
		s.BoolVarP(oneFileSystem, "one-file-system", "x", false, "do not enter other file systems")
	}
}

// ruleFlags defines the flags that add a rule.
func (f *selection) ruleFlags(s *pflag.FlagSet, verb string) {
	// pflag sets flags in the order of the command line, which is that of the rules.
	s.Func("include", verb+" only paths that match `PATTERN`", f.rules.Include)
	s.Func("exclude", "leave out paths that match `PATTERN`", f.rules.Exclude)
	s.Func("exclude-from", "read rules in .gitignore format from `FILE`", f.excludeFrom)
}

// filterHelp explains the rules of --include and --exclude.
const filterHelp = `Patterns are those of .gitignore, with **. Rules are applied in the order given,
and the last match wins. If the first rule is an include, everything else is
excluded.`

// read returns the rules and the list of paths, either nil if it was not asked
// for. It reads the list, so it comes after everything that needs no file.
func (f *selection) read(cmd *cobra.Command) (rules *filter.List, only *filter.Only, err error) {
	if f.from0 && !cmd.Flags().Changed("files-from") {
		return nil, nil, usagef("--from0 needs --files-from")
	}
	if slices.ContainsFunc([]string{"include", "exclude", "exclude-from"}, cmd.Flags().Changed) {
		rules = &f.rules
	}
	if cmd.Flags().Changed("files-from") {
		read := func(r io.Reader) (err error) {
			only, err = filter.ReadOnly(r, f.from0)
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

// excludeFrom appends the rules of a file.
func (f *selection) excludeFrom(name string) error { return readFile(name, f.rules.ExcludeFrom) }

// readFile reads a file that the user has named.
func readFile(name string, read func(io.Reader) error) error {
	f, err := os.Open(name)
	if err != nil {
		return fileError(err)
	}
	defer f.Close() //nolint:errcheck // it was only read
	if err := read(f); err != nil {
		return fmt.Errorf("%s: %w", quote.Name(name), err)
	}
	return nil
}
