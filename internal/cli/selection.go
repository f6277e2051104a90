package cli

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/seed65876f4f/sealift/internal/filter"
	"github.com/seed65876f4f/sealift/internal/quote"
)

// selection is the flags that say which part of a tree is meant.
type selection struct {
	rules     filter.List
	rulesUsed bool
	filesFrom string
	from0     bool
}

// flags defines them for a command that does verb to a tree.
func (f *selection) flags(s *pflag.FlagSet, verb string, oneFileSystem *bool) {
	s.Var(&ruleValue{f.rules.Include, &f.rulesUsed}, "include", verb+" what matches the gitignore-style `PATTERN`; rules are kept in the order given, the last match wins, and if the first rule is an include, all else is excluded")
	s.Var(&ruleValue{f.rules.Exclude, &f.rulesUsed}, "exclude", "leave out what matches the `PATTERN`")
	s.Var(&ruleValue{excludeFrom(&f.rules), &f.rulesUsed}, "exclude-from", "take rules from a `FILE` in the format of .gitignore")
	s.StringVar(&f.filesFrom, "files-from", "", verb+" only the paths listed in `FILE`, one per line (- for standard input); a listed directory stands for its contents as well")
	s.BoolVar(&f.from0, "from0", false, "paths of --files-from end in NUL bytes")
	s.BoolVarP(oneFileSystem, "one-file-system", "x", false, "do not enter other file systems")
}

func (f *selection) check(cmd *cobra.Command) error {
	if f.from0 && !cmd.Flags().Changed("files-from") {
		return usagef("--from0 needs --files-from")
	}
	return nil
}

// read returns the rules and the list of paths, either nil if it was not asked
// for. It reads the list, so it comes after everything that needs no file.
func (f *selection) read(cmd *cobra.Command) (rules *filter.List, only *filter.Only, err error) {
	if f.rulesUsed {
		rules = &f.rules
	}
	if cmd.Flags().Changed("files-from") {
		if only, err = readOnly(f.filesFrom, f.from0, cmd.InOrStdin()); err != nil {
			return nil, nil, usagef("--files-from: %s", err)
		}
	}
	return rules, only, nil
}

func readOnly(name string, nul bool, stdin io.Reader) (*filter.Only, error) {
	if name == "-" {
		only, err := filter.ReadOnly(stdin, nul)
		if err != nil {
			return nil, fmt.Errorf("standard input: %w", err)
		}
		return only, nil
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, fileError(err)
	}
	defer f.Close() //nolint:errcheck // it was only read
	only, err := filter.ReadOnly(f, nul)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", quote.Name(name), err)
	}
	return only, nil
}
