package cli

import (
	"context"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/seed65876f4f/sealift/internal/compare"
	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/pipe"
	"github.com/seed65876f4f/sealift/internal/quote"
)

func newCompareCmd(run runner[compare.Options, compare.Summary]) *cobra.Command {
	flags := &compareFlags{}
	cmd := &cobra.Command{
		Use:        "compare [flags] A B [C ...]",
		SuggestFor: []string{"cmp", "diff"},
		Short:      "Compare trees by content, for example before a card is formatted",
		Long: `Compares each entry of the directory A with the entry of the same name in B (and
C): type, size, content, and the target of a symbolic link. Files are read from
the devices, not from memory, in all trees at the same time. Differences are
printed on standard output, in path order. Nothing is written.

Manifests, journals, markers and temporaries of Sealift are not compared.
Markers (SEALIFT-INCOMPLETE-*.txt) and journals of unfinished copies are
reported. The exit code is 3 then, and if the trees differ.` + notesBelow + filterHelp + `
A directory in --files-from includes everything below it.`,
		Example: `  sealift compare /media/card /mnt/archive
  sealift compare --one-way /media/card /media/disk1 /media/disk2
  sealift compare --metadata --exclude '*.tmp' project /mnt/backup`,
		Annotations: exits{
			0: "the trees are equal", 1: "an entry could not be read, or changed meanwhile",
			2: "usage error, or nothing to compare", 3: "the trees differ, or a copy in one of them is incomplete",
		}.annotations(),
		ValidArgsFunction: completeDirectories,
	}
	addGroups(cmd, flags.groups())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		options, err := flags.compareOptions(cmd, args)
		if err != nil {
			return err
		}
		r, err := newReporter(cmd, &flags.outputFlags, flags.usedFiles())
		if err != nil {
			return err
		}
		c := &comparer{reporter: r, options: options}
		options.Report = c.event
		if r.page != nil {
			options.Each = c.compared
		}
		stdout := cmd.OutOrStdout()
		return runCommand(cmd, job[compare.Options, compare.Summary]{
			reporter: r,
			run: func(ctx context.Context, o *compare.Options, n *counters.Set) (*compare.Summary, error) {
				summary, err := run(ctx, o, n)
				c.ended = err != nil
				return summary, err
			},
			options: options,
			read:    "read from each directory",
			finish: func(s *compare.Summary, result outcome) outcome {
				if !c.ended {
					flags.selection.warnUnmet(r, nil, false) // a comparison of nothing is refused
				}
				return c.finish(stdout, s, result)
			},
		})
	}
	return cmd
}

// compareFlags holds the flags of compare.
type compareFlags struct {
	options   compare.Options
	selection selection
	outputFlags
}

// compareCacheHelp explains the modes, as policyHelp does.
const compareCacheHelp = "`MODE`: choose where files are read from\n" + `drop    the devices: evict files from memory before
        and after
keep    memory where they are cached
direct  the devices, past the memory (O_DIRECT)`

// compareCaches are the values of --cache. There is no auto: compare either uses cached data or
// it does not.
var compareCaches = pipe.CacheModes.Without(pipe.CacheAuto)

func (f *compareFlags) groups() []flagGroup {
	o := &f.options
	return []flagGroup{
		{"What to compare", func(s *pflag.FlagSet) {
			s.BoolVar(&o.OneWay, "one-way", false, "report only entries of A that others lack or change")
			s.BoolVar(&o.Metadata, "metadata", false, "compare mode, owner, time, xattrs and ACLs, too, except those of the roots")
			s.BoolVar(&o.Quick, "quick", false, "compare size and time only, do not read content")
			f.selection.flags(s, "compare", &o.OneFileSystem)
		}},
		{groupSafety, func(s *pflag.FlagSet) {
			s.Var(newValue(&o.Cache, "drop", compareCaches.Parse, compareCaches.List()...), "cache", compareCacheHelp)
		}},
		{groupSpeed, func(s *pflag.FlagSet) {
			workersFlag(s, &o.Workers, "compare `NUMBER` entries at once")
			bwlimitFlag(s, &o.BytesPerSecond, "read each tree with")
		}},
		{groupOutput, func(s *pflag.FlagSet) {
			f.quietFlag(s, "print only differences and failures")
			s.BoolVarP(&o.Verbose, "verbose", "v", false, "list equal entries, and all entries below a directory that is in one tree only")
			f.commonFlags(s, "difference and message")
			f.reportFlag(s)
		}},
	}
}

// usedFiles are the files of the command.
func (f *compareFlags) usedFiles() usedFiles {
	used := usedFiles{files: f.selection.files(), fs: f.options.FS}
	for i, tree := range f.options.Trees {
		used.trees = append(used.trees, usedFile{what: compare.Letter(i) + readOnly, path: tree})
		used.shown = append(used.shown, reportTree{role: compare.Letter(i), path: tree})
	}
	return used
}

func (f *compareFlags) compareOptions(cmd *cobra.Command, args []string) (*compare.Options, error) {
	o := &f.options
	switch {
	case len(args) == 0:
		return nil, usagef("missing operands A and B")
	case len(args) == 1:
		return nil, usagef("missing operand B, the directory to compare %s with", quote.Name(args[0]))
	case len(args) > compare.MaxTrees:
		return nil, usagef("%d directories are too many; at most %d can be compared", len(args), compare.MaxTrees)
	case slices.Contains(args, ""):
		return nil, usagef("the name of a directory is empty")
	case f.quiet && o.Verbose:
		return nil, usagef("--quiet and --verbose contradict each other")
	case o.Quick && cmd.Flags().Changed("cache"):
		return nil, usagef("--cache has no effect with --quick, which reads no content")
	}
	var err error
	if o.Filter, o.Only, err = f.selection.read(cmd); err != nil {
		return nil, err
	}
	o.Trees = args
	return o, nil
}
