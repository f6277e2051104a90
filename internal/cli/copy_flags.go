package cli

import (
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/seed65876f4f/sealift/internal/engine"
	"github.com/seed65876f4f/sealift/internal/filter"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/progress"
	"github.com/seed65876f4f/sealift/internal/quote"
)

// Bounds of the numbers that flags take.
const (
	minBlock   = 4 << 10 // bytes; a page, below which system calls are all the cost
	maxBlock   = 1 << 30 // bytes; one read moves at most 2 GiB
	maxQueue   = 1 << 16 // blocks; a queue of small blocks in every file in flight
	maxWorkers = 1024    // files in flight; each holds a few descriptors
	maxSize    = math.MaxInt64
)

// policyHelp explains the policies, each in the rows of a table.
const policyHelp = "`POLICY`: what to do where a name exists\n" + `default   skip what is up to date, replace what
          is older, leave the rest as conflicts
never     touch nothing that exists
update    replace what differs in size or time
checksum  replace what differs in content
always    replace everything
No policy replaces a directory by a file, or a file by a directory.`

// parseRate reads bytes per second, which may say so: "80MB" or "80MB/s".
func parseRate(s string) (int64, error) {
	if size, ok := strings.CutSuffix(s, "/s"); ok {
		return sizeBetween(1, maxSize, "")(size)
	}
	return sizeBetween(1, maxSize, "off")(s)
}

// copyFlags is the command line of copy.
type copyFlags struct {
	options engine.Options

	input     string
	outputs   []string
	rules     filter.List
	rulesUsed bool
	filesFrom string
	from0     bool
	blockSize int64

	quiet, verbose, json bool
	logFile              string
	progress             progress.Mode
}

// groups defines the flags. Words in back quotes name the value in help, and
// are no part of the text where a colon follows.
func (f *copyFlags) groups() []flagGroup {
	o := &f.options
	return []flagGroup{
		{"What to copy", func(s *pflag.FlagSet) {
			s.VarP(&onceValue{&f.input}, "input", "i", "take `SRC` as the source, instead of the first argument")
			s.StringArrayVarP(&f.outputs, "output", "o", nil, "also copy to `DST`; may be repeated")
			s.Var(&ruleValue{f.rules.Include, &f.rulesUsed}, "include", "copy what matches the gitignore-style `PATTERN`; rules are kept in the order given, the last match wins, and if the first rule is an include, all else is excluded")
			s.Var(&ruleValue{f.rules.Exclude, &f.rulesUsed}, "exclude", "leave out what matches the `PATTERN`")
			s.Var(&ruleValue{excludeFrom(&f.rules), &f.rulesUsed}, "exclude-from", "take rules from a `FILE` in the format of .gitignore")
			s.StringVar(&f.filesFrom, "files-from", "", "copy only the paths listed in `FILE`, one per line (- for standard input); a listed directory is copied with its contents")
			s.BoolVar(&f.from0, "from0", false, "paths of --files-from end in NUL bytes")
			s.BoolVarP(&o.OneFileSystem, "one-file-system", "x", false, "do not enter other file systems")
		}},
		{"Manifest", func(s *pflag.FlagSet) {
			s.Var(newParsed(&o.Hashes, "sha256", hash.Parse), "hash", "digests to compute from the one read, a comma-separated `LIST` of sha256, blake3, xxh128, sha512 and md5, or none for no manifest")
			s.StringVar(&o.Manifest, "manifest", "", "write the manifest to `PATH`, relative to each destination (default: SHA256SUMS and the like)")
		}},
		{"What stands at the destination", func(s *pflag.FlagSet) {
			s.Var(newParsed(&o.Policy, "default", engine.ParsePolicy), "overwrite-policy", policyHelp)
			s.Var(newParsed(&o.Preserve, "all", engine.ParsePreserve), "preserve", "metadata to keep: all, none, or a `LIST` of "+strings.Join(engine.PreserveNames(), ", "))
			s.Var(newParsed(&o.Sparse, "auto", engine.ParseSparse), "sparse", "`MODE`: how holes are treated: auto keeps those of the source, always makes them of zeros, never writes every byte")
			s.Var(newParsed(&o.Sync, "end", engine.ParseSync), "sync", "`MODE`: when data is forced to the device: end (before the manifest), file (after each), none")
		}},
		{"Speed and memory", func(s *pflag.FlagSet) {
			s.Var(newParsed(&f.blockSize, "128K", sizeBetween(minBlock, maxBlock, "")), "block-size", "`SIZE`: size of a buffer")
			s.Var(newParsed(&o.QueueSize, "10", countBetween(1, maxQueue, "")), "queue-size", "`NUMBER` of buffers that may wait between two stages of a file")
			s.Var(newParsed(&o.Workers, "auto", countBetween(1, maxWorkers, "auto")), "workers", "`NUMBER`: files copied at once")
			s.Var(newParsed(&o.Memory, "auto", sizeBetween(1, maxSize, "auto")), "memory", "use at most `SIZE` for all buffers together")
			s.Var(newParsed(&o.BytesPerSecond, "off", parseRate), "bwlimit", "limit all workers together to `RATE` bytes per second, such as 80MB")
		}},
		{"How to run", func(s *pflag.FlagSet) {
			s.BoolVarP(&o.DryRun, "dry-run", "n", false, "tell what would be done, and write nothing")
			s.BoolVar(&o.FailFast, "fail-fast", false, "stop at the first failure")
		}},
		{"What is told", func(s *pflag.FlagSet) {
			s.BoolVarP(&f.quiet, "quiet", "q", false, "tell failures and conflicts only")
			s.BoolVarP(&f.verbose, "verbose", "v", false, "name every entry, on standard error")
			s.Var(newParsed(&f.progress, "auto", progress.ParseMode), "progress", "`MODE`: progress on standard error: auto, bar, plain, json, none")
			s.StringVar(&f.logFile, "log-file", "", "append every action and message to `FILE`")
			s.BoolVar(&f.json, "json", false, "report as one JSON object on standard output")
		}},
	}
}

// takeArgs sorts the arguments into the source and the destinations. Only one
// argument can be a destination: a shell's glob must never make more.
func (f *copyFlags) takeArgs(args []string) error {
	o := &f.options
	o.Source = f.input
	if o.Source == "" && len(args) > 0 {
		o.Source, args = args[0], args[1:]
		if o.Source == "" {
			return usagef("the name of the source is empty")
		}
	}
	if len(args) > 1 {
		return usagef("%q is one argument too many; further destinations are given with -o, as in -o %s", args[1], quote.Name(args[1]))
	}
	o.Targets = slices.Concat(args, f.outputs)
	switch {
	case o.Source == "":
		return usagef("the source is missing")
	case len(o.Targets) == 0:
		return usagef("the destination is missing")
	case slices.Contains(o.Targets, ""):
		return usagef("the name of a destination is empty")
	}
	return nil
}

// check refuses flags that contradict each other.
func (f *copyFlags) check(cmd *cobra.Command) error {
	o := &f.options
	o.BlockSize = int(f.blockSize)
	given := func(name string) bool { return cmd.Flags().Changed(name) }
	switch {
	case f.quiet && f.verbose:
		return usagef("--quiet and --verbose contradict each other")
	case f.from0 && !given("files-from"):
		return usagef("--from0 needs --files-from")
	case given("manifest") && o.Manifest == "":
		return usagef("--manifest: the name is empty")
	case given("log-file") && f.logFile == "":
		return usagef("--log-file: the name is empty")
	case o.Memory != 0 && o.Memory < f.blockSize:
		return usagef("--memory %s is less than one block of %s", cmd.Flag("memory").Value, cmd.Flag("block-size").Value)
	}
	return nil
}

// engineOptions completes the options. It reads --files-from, so it comes
// after everything that needs no file.
func (f *copyFlags) engineOptions(cmd *cobra.Command, args []string) (*engine.Options, error) {
	if err := f.takeArgs(args); err != nil {
		return nil, err
	}
	if err := f.check(cmd); err != nil {
		return nil, err
	}
	if f.rulesUsed {
		f.options.Filter = &f.rules
	}
	if cmd.Flags().Changed("files-from") {
		only, err := readOnly(f.filesFrom, f.from0, cmd.InOrStdin())
		if err != nil {
			return nil, usagef("--files-from: %s", err)
		}
		f.options.Only = only
	}
	return &f.options, nil
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
