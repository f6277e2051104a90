package cli

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/seed65876f4f/sealift/internal/engine"
	"github.com/seed65876f4f/sealift/internal/pipe"
	"github.com/seed65876f4f/sealift/internal/progress"
	"github.com/seed65876f4f/sealift/internal/stream"
)

// streamCacheHelp explains the modes, as policyHelp does.
const streamCacheHelp = "`MODE`: what the copy leaves in the page cache\n" + `auto    as keep, but as drop where more than half
        of the memory would be filled
keep    what the system likes
drop    only what was there before
direct  it is bypassed, where files and devices can`

// streamFlags is the command line of stream.
type streamFlags struct {
	options  stream.Options
	count    stream.Amount
	sync     engine.SyncMode
	quiet    bool
	progress progress.Mode
}

func (f *streamFlags) groups() []flagGroup {
	o := &f.options
	return []flagGroup{
		{"What to copy", func(s *pflag.FlagSet) {
			s.Var(newValue(&o.BlockSize, "128K", sizeBetween(1, maxBlock, "")), "block-size", "`SIZE` of a block, the unit of the numbers below and of the records that are counted")
			s.Var(newValue(&f.count, "", parseAmount), "count", "copy only so much: `N` blocks, or a size such as 10M")
			s.Var(newValue(&o.Skip, "", parseAmount), "skip", "pass over `N` blocks, or a size, of the input")
			s.Var(newValue(&o.Seek, "", parseAmount), "seek", "begin to write behind `N` blocks, or a size, of each output")
			s.BoolVar(&o.Sparse, "sparse", false, "make holes of zeros")
		}},
		{groupManifest, func(s *pflag.FlagSet) {
			hashFlag(s, &o.Hashes, ", or none", "none")
			s.Var(&onceValue{&o.Manifest}, "manifest", "list the outputs, or else the input, in `FILE`, which appears when it is complete; lines of other files in it stay while these exist")
		}},
		{groupSafety, func(s *pflag.FlagSet) {
			s.BoolVar(&o.NoTruncate, "no-truncate", false, "keep what an output holds behind what is written")
			s.Var(newChoice(&f.sync, engine.SyncModes.Without(engine.SyncFile)), "sync", "`MODE`: when data is forced to the device: end, none")
			s.Lookup("sync").NoOptDefVal = "end"
		}},
		{groupSpeed, func(s *pflag.FlagSet) {
			bwlimitFlag(s, &o.BytesPerSecond, "read at most at")
			s.Var(newChoice(&o.Cache, pipe.CacheModes), "cache", streamCacheHelp)
		}},
		{groupOutput, func(s *pflag.FlagSet) {
			s.BoolVarP(&f.quiet, "quiet", "q", false, "tell failures only")
			progressFlag(s, &f.progress)
		}},
	}
}

// parseAmount reads a number of blocks, or a size, which has a unit.
func parseAmount(s string) (stream.Amount, error) {
	n, err := parseSize(s)
	if err != nil {
		return stream.Amount{}, fmt.Errorf("%q is neither a number of blocks nor a size; write it as 10, 4096B, 10M or 80MB", s)
	}
	return stream.Amount{N: n, Bytes: strings.Trim(s, "0123456789") != ""}, nil
}

func (f *streamFlags) streamOptions(cmd *cobra.Command, args []string) (*stream.Options, error) {
	o := &f.options
	o.Unsynced = f.sync == engine.SyncNone
	if cmd.Flags().Changed("count") {
		o.Count = &f.count
	}
	o.Input, o.Outputs = "-", []string{"-"}
	if len(args) > 0 {
		o.Input = args[0]
	}
	if len(args) > 1 {
		o.Outputs = args[1:]
	}
	switch {
	case slices.Contains(args, ""):
		return nil, usagef("the name of an input or output is empty")
	case cmd.Flags().Changed("sync") && (o.Input == "end" || o.Input == "none"): // --sync none
		return nil, usagef("the mode of --sync is written as --sync=%s; a file of that name is ./%[1]s", o.Input)
	case standardInputs(o.Outputs) > 1:
		return nil, usagef("- is given twice as an output")
	case o.Manifest == "-":
		return nil, usagef("--manifest needs a file: digests are told on standard error")
	case o.Manifest != "" && len(o.Hashes) == 0:
		return nil, usagef("--manifest needs a digest, and --hash none computes none")
	}
	o.Stdin, _ = cmd.InOrStdin().(*os.File)
	o.Stdout = fileOf(cmd.OutOrStdout())
	return o, nil
}
