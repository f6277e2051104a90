package cli

import (
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/seed65876f4f/sealift/internal/progress"
	"github.com/seed65876f4f/sealift/internal/sum"
)

// sumFlags is the command line of sum.
type sumFlags struct {
	options   sum.Options
	selection selection
	quiet     bool
	progress  progress.Mode
}

func (f *sumFlags) groups() []flagGroup {
	o := &f.options
	return []flagGroup{
		{"What to hash", func(s *pflag.FlagSet) {
			f.selection.flags(s, "hash", &o.OneFileSystem)
		}},
		{groupManifest, func(s *pflag.FlagSet) {
			hashFlag(s, &o.Hashes, "; several need --tag")
			s.Var(&onceValue{&o.Manifest}, "manifest", "write the manifest to `FILE`, which appears when it is complete and is never listed itself; lines of other files in it stay while these exist (default: standard output)")
			s.BoolVar(&o.Tag, "tag", false, "print lines of BSD's style, which name their digest")
			s.BoolVarP(&o.Zero, "zero", "z", false, "end lines in NUL bytes, and do not escape names")
		}},
		{groupSpeed, func(s *pflag.FlagSet) {
			workersFlag(s, &o.Workers, "files hashed")
		}},
		{groupOutput, func(s *pflag.FlagSet) {
			s.BoolVarP(&f.quiet, "quiet", "q", false, "tell failures only")
			progressFlag(s, &f.progress)
		}},
	}
}

func (f *sumFlags) sumOptions(cmd *cobra.Command, args []string) (*sum.Options, error) {
	o := &f.options
	if o.Manifest == "-" {
		o.Manifest = ""
	}
	switch {
	case len(o.Hashes) == 0:
		return nil, usagef("--hash none leaves nothing to do")
	case len(o.Hashes) > 1 && !o.Tag:
		return nil, usagef("several hashes need --tag, so that each line says which is its own")
	case o.Zero && o.Manifest != "":
		return nil, usagef("--zero and --manifest contradict each other: no program checks a manifest whose lines end in NUL bytes")
	case slices.Contains(args, ""):
		return nil, usagef("the name of a path is empty")
	case standardInputs(args) > 1:
		return nil, usagef("- is given twice, and standard input can be read once")
	case f.selection.filesFrom == "-" && slices.Contains(args, "-"):
		return nil, usagef("--files-from - and the path - both need standard input")
	}
	if err := f.selection.check(cmd); err != nil {
		return nil, err
	}
	var err error
	if o.Filter, o.Only, err = f.selection.read(cmd); err != nil {
		return nil, err
	}
	if len(args) == 0 {
		args = []string{"."}
	}
	o.Paths = args
	o.Stdin = cmd.InOrStdin()
	return o, nil
}

// standardInputs counts the paths that stand for standard input.
func standardInputs(args []string) (n int) {
	for _, arg := range args {
		if arg == "-" {
			n++
		}
	}
	return n
}
