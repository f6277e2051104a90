package cli

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/seed65876f4f/sealift/internal/filter"
	"github.com/seed65876f4f/sealift/internal/usage"
)

const maxTop = 1_000_000 // entries; each costs some hundred bytes until it is drawn

// blockSizeHelp explains the values, as policyHelp does.
const blockSizeHelp = "print sizes in units of `SIZE`, rounded up\n" + `1M              as plain numbers
M, MiB, MB      with the unit behind them
human-readable  in the unit that each fills
si              the same, in powers of 1000
Of -h, -k, -b and -B, the last one counts.`

// duFlags is the command line of du.
type duFlags struct {
	options usage.Options
	rules   filter.List
	depth   int
	unit    unit

	summarize, total, null, json bool
}

func (f *duFlags) groups() []flagGroup {
	o := &f.options
	return []flagGroup{
		{"What to measure", func(s *pflag.FlagSet) {
			s.BoolVar(&o.Apparent, "apparent-size", false, "count sizes, not what is allocated on the device")
			s.BoolVarP(&o.CountLinks, "count-links", "l", false, "count a file with several names once for each of them")
			s.BoolVarP(&o.OneFileSystem, "one-file-system", "x", false, "do not enter other file systems")
			s.Func("exclude", "leave out what matches the gitignore-style `PATTERN`; the last match wins", f.rules.Exclude)
		}},
		{groupSpeed, func(s *pflag.FlagSet) {
			workersFlag(s, &o.Workers, "directories read")
		}},
		{groupOutput, func(s *pflag.FlagSet) {
			s.BoolVarP(&f.summarize, "summarize", "s", false, "one line for each PATH; this is the default")
			s.VarP(newValue(&f.depth, "0", countBetween(0, math.MaxInt32, "")), "max-depth", "d", "`NUMBER`: print directories, too, so many levels below PATH")
			s.BoolVarP(&o.Files, "all", "a", false, "print files, too; at every depth unless --max-depth is given")
			s.BoolVarP(&f.total, "total", "c", false, "print the total of all PATHs as the last line")
			s.Var(newValue(&o.Top, "off", countBetween(1, maxTop, "off")), "top", "`NUMBER`: draw the largest files and directories below each PATH as a bar chart")
			s.BoolVar(&f.json, "json", false, "print one JSON object; sizes in it are bytes")
			s.BoolVarP(&f.null, "null", "0", false, "end lines in NUL bytes, and do not quote names")
		}},
		{"Sizes in the output", func(s *pflag.FlagSet) {
			s.BoolFuncP("human-readable", "h", "print sizes such as 4.0K and 1.5G; the default on a terminal and for --top (for this help: --help)", f.unitFlag(unitHuman, nil))
			s.BoolFuncP("kibibytes", "k", "as --block-size=1K, the default elsewhere", f.unitFlag(unitKibi, nil))
			s.BoolFuncP("bytes", "b", "as --apparent-size --block-size=1", f.unitFlag(unitBytes, &o.Apparent))
			s.VarP(newValue(&f.unit, "", parseUnit, "human-readable", "si", "1", "K", "M", "G", "KB", "MB", "GB"), "block-size", "B", blockSizeHelp)
		}},
	}
}

// unitFlag sets the unit, and also another flag if there is one.
func (f *duFlags) unitFlag(u unit, also *bool) func(string) error {
	return func(s string) error {
		on, err := strconv.ParseBool(s)
		if err != nil {
			return fmt.Errorf("%q is neither true nor false", s)
		}
		if on {
			f.unit = u
			if also != nil {
				*also = true
			}
		}
		return nil
	}
}

func (f *duFlags) duOptions(cmd *cobra.Command, args []string) (*usage.Options, error) {
	o := &f.options
	switch {
	case f.summarize && o.Files:
		return nil, usagef("--summarize and --all contradict each other")
	case f.summarize && f.depth > 0:
		return nil, usagef("--summarize and --max-depth %d contradict each other", f.depth)
	case f.summarize && o.Top > 0:
		return nil, usagef("--summarize and --top contradict each other")
	case f.null && o.Top > 0:
		return nil, usagef("--null and --top contradict each other: a chart is for people")
	case f.null && f.json:
		return nil, usagef("--null and --json contradict each other")
	case slices.Contains(args, ""):
		return nil, usagef("the name of a path is empty")
	}
	o.MaxDepth = f.depth
	if (o.Files || o.Top > 0) && !cmd.Flags().Changed("max-depth") {
		o.MaxDepth = -1
	}
	if cmd.Flags().Changed("exclude") {
		o.Filter = &f.rules
	}
	if len(args) == 0 {
		args = []string{"."}
	}
	o.Paths = args
	return o, nil
}
