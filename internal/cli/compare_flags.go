package cli

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/seed65876f4f/sealift/internal/compare"
	"github.com/seed65876f4f/sealift/internal/pipe"
	"github.com/seed65876f4f/sealift/internal/progress"
)

// compareFlags is the command line of compare.
type compareFlags struct {
	options   compare.Options
	selection selection

	quiet, json bool
	logFile     string
	progress    progress.Mode
}

// compareCacheHelp explains the modes, as policyHelp does.
const compareCacheHelp = "`MODE`: where files are read from\n" + `drop    the devices: files are evicted from memory
        before and after
keep    memory, where they are in it
direct  the devices, past the memory`

func compareCacheNames() []string { return []string{"drop", "keep", "direct"} }

func parseCompareCache(s string) (pipe.Cache, error) {
	switch {
	case s == "keep":
		return pipe.CacheAuto, nil
	case slices.Contains(compareCacheNames(), s):
		return pipe.ParseCache(s)
	}
	return 0, fmt.Errorf("unknown cache mode %q; known are drop, keep, direct", s)
}

func (f *compareFlags) groups() []flagGroup {
	o := &f.options
	return []flagGroup{
		{"What to compare", func(s *pflag.FlagSet) {
			s.BoolVar(&o.OneWay, "one-way", false, "report only what A has and the others lack or hold differently")
			s.BoolVar(&o.Metadata, "metadata", false, "compare mode, owner, modification time, extended attributes and ACLs as well, except those of the roots")
			s.BoolVar(&o.Quick, "quick", false, "compare size and modification time of files, and do not read their content")
			f.selection.flags(s, "compare", &o.OneFileSystem)
		}},
		{groupSafety, func(s *pflag.FlagSet) {
			s.Var(newParsed(&o.Cache, "drop", parseCompareCache), "cache", compareCacheHelp)
		}},
		{groupSpeed, func(s *pflag.FlagSet) {
			s.Var(newParsed(&o.Workers, "auto", countBetween(1, maxWorkers, "auto")), "workers", "`NUMBER`: entries compared at once")
			s.Var(newParsed(&o.BytesPerSecond, "off", parseRate), "bwlimit", "read each tree at most at `RATE` bytes per second, such as 80MB")
		}},
		{groupOutput, func(s *pflag.FlagSet) {
			s.BoolVarP(&f.quiet, "quiet", "q", false, "print only differences and failures")
			s.BoolVarP(&o.Verbose, "verbose", "v", false, "name equal entries as well, and each entry of a directory that is in one tree only")
			s.Var(newParsed(&f.progress, "auto", progress.ParseMode), "progress", progressHelp)
			s.StringVar(&f.logFile, "log-file", "", "append every difference and message to `FILE`")
			s.BoolVar(&f.json, "json", false, "report as one JSON object on standard output; differences are named on standard error as well")
		}},
	}
}

func (f *compareFlags) compareOptions(cmd *cobra.Command, args []string) (*compare.Options, error) {
	o := &f.options
	switch {
	case len(args) == 0:
		return nil, usagef("the directories to compare are missing")
	case len(args) == 1:
		return nil, usagef("the directory to compare %q with is missing", args[0])
	case len(args) > compare.MaxTrees:
		return nil, usagef("%d directories are too many; at most %d can be compared", len(args), compare.MaxTrees)
	case slices.Contains(args, ""):
		return nil, usagef("the name of a directory is empty")
	case f.quiet && o.Verbose:
		return nil, usagef("--quiet and --verbose contradict each other")
	case cmd.Flags().Changed("log-file") && f.logFile == "":
		return nil, usagef("--log-file: the name is empty")
	case o.Quick && cmd.Flags().Changed("cache"):
		return nil, usagef("--quick reads no content, and --cache says where it is read from")
	}
	if err := f.selection.check(cmd); err != nil {
		return nil, err
	}
	var err error
	if o.Filter, o.Only, err = f.selection.read(cmd); err != nil {
		return nil, err
	}
	o.Trees = args
	return o, nil
}
