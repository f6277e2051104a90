package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/seed65876f4f/sealift/internal/catalog"
	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/engine"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/pipe"
	"github.com/seed65876f4f/sealift/internal/progress"
	"github.com/seed65876f4f/sealift/internal/quote"
	"github.com/seed65876f4f/sealift/internal/stream"
)

func newStreamCmd(run runner[stream.Options, stream.Summary]) *cobra.Command {
	flags := &streamFlags{}
	cmd := &cobra.Command{
		Use:        "stream [flags] [IN [OUT...]]",
		SuggestFor: []string{"dd", "dcfldd"},
		Short:      "Copy one stream, file or device while hashing it",
		Long: `IN is read once and written to each OUT; how much it was, and its digest, are
told on standard error. - stands for standard input or output, and so does what
is left out. A file is written in place, and truncated first; a device is
written from its beginning. Exit code 0 means that the data is on the device.

Sizes such as 128K, 1M and 1MiB are powers of 1024; 80MB is a power of 1000. A
plain number behind --count, --skip and --seek is one of blocks.`,
		Example: `  sealift stream /dev/sdc card.img
  sealift stream card.img /dev/sdc /dev/sdd
  sealift stream --skip 1M --count 10M disk.img - | xz >part.xz`,
		Annotations: endsWith("0 1 2 130 143"),
	}
	addGroups(cmd, flags.groups())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		options, err := flags.streamOptions(cmd, args)
		if err != nil {
			return err
		}
		r := newReporter(cmd)
		r.quiet = flags.quiet
		var gone atomic.Bool // the reader of standard output
		options.Report = func(e stream.Event) {
			switch {
			case e.Warning:
				r.warning("", "", e.Err)
			case readerGone(e.Err):
				gone.Store(true)
				r.silentFailure("", "", e.Err)
			default:
				r.failure("", "", e.Err)
			}
		}
		mode := flags.progress
		if mode == progress.ModeAuto && typed(options) {
			mode = progress.ModeNone // a bar would be in the middle of the stream
		}
		started := false
		return runCommand(cmd, job[stream.Options, stream.Summary]{
			reporter: r,
			progress: mode,
			quiet:    flags.quiet,
			options:  options,
			run: func(ctx context.Context, o *stream.Options, c *counters.Set) (*stream.Summary, error) {
				c.BytesOnly.Store(true)
				s, err := run(ctx, o, c)
				started = s != nil
				return s, err
			},
			// The totals go to standard error: standard output may be where the stream goes.
			finish: func(s *stream.Summary, result outcome) outcome {
				if silent := gone.Load() && len(options.Outputs) == 1; started && !flags.quiet && !silent {
					for _, line := range streamTotals(s, options.Hashes) {
						r.screen.Line(line)
					}
					result.failed = result.failed || r.screen.Err() != nil // the digest is lost
				}
				return result
			},
		})
	}
	return cmd
}

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
			s.Var(newValue(&o.BlockSize, "128K", sizeBetween("1", maxBlock, "")), "block-size", "`SIZE` of a block, the unit of the numbers below and of the records that are counted")
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
	for _, arg := range args {
		if err := operandOfDd(arg); err != nil {
			return nil, err
		}
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
	if slices.Contains(o.Outputs, "-") && isTerminal(o.Stdout) {
		return nil, usagef("the stream is not written to a terminal; name an output, or use a pipe: sealift stream IN | cat")
	}
	return o, nil
}

// typed reports whether the stream comes from a terminal.
func typed(o *stream.Options) bool { return o.Input == "-" && isTerminal(o.Stdin) }

// readerGone reports whether the stream goes to a pipe on standard output that no process
// reads any more, as after "| head".
func readerGone(err error) bool {
	f, ok := errors.AsType[*failure.FileError](err)
	return ok && f.Path == "-" && f.Stage == failure.StageWrite && fsys.PipeClosed(f.Err)
}

// streamTotals are the lines at the end: those of dd, one for each digest, and one for
// a manifest that has lost lines.
func streamTotals(s *stream.Summary, hashes []hash.Algorithm) []string {
	lines := []string{fmt.Sprintf("%d+%d records in", s.In.Full, s.In.Partial)}
	same := true
	for _, out := range s.Outputs {
		same = same && out.Records == s.Outputs[0].Records
	}
	for _, out := range s.Outputs {
		line := fmt.Sprintf("%d+%d records out", out.Records.Full, out.Records.Partial)
		if !same {
			line += " (to " + quote.Name(out.Name) + ")"
		}
		lines = append(lines, line)
		if same {
			break
		}
	}
	lines = append(lines, transferred(s.Bytes, s.Elapsed))
	for i, digest := range s.Digests {
		lines = append(lines, fmt.Sprintf("%s  %s", hashes[i], hashes[i].Text(digest)))
	}
	if s.Dropped > 0 {
		lines = append(lines, manifestTotal(s))
	}
	return lines
}

// manifestTotal counts the lines of the manifest.
func manifestTotal(s *stream.Summary) string {
	return "manifest " + quote.Name(s.Manifest) + ": " + lines(catalog.Written{Lines: s.Lines, Dropped: s.Dropped})
}

// transferred is the last line of dd, as print_xfer_stats of coreutils writes it.
func transferred(bytes int64, elapsed time.Duration) string {
	seconds := elapsed.Seconds()
	speed := "Infinity B"
	if seconds > 0 {
		speed = ddSize(float64(bytes)/seconds, 1000, 100)
	}
	times := "bytes"
	if bytes == 1 {
		times = "byte"
	}
	sizes := ""
	if bytes >= 1000 {
		sizes = " (" + ddSize(float64(bytes), 1000, 10) + ")"
	}
	if bytes >= 1024 {
		sizes = " (" + ddSize(float64(bytes), 1000, 10) + ", " + ddSize(float64(bytes), 1024, 10) + ")"
	}
	return fmt.Sprintf("%d %s%s copied, %s s, %s/s", bytes, times, sizes, strconv.FormatFloat(seconds, 'g', 6, 64), speed)
}

// ddSize writes a number of bytes in thousands of the base or more, with one decimal if it
// is less than whole of its unit.
func ddSize(n, base, whole float64) string {
	units, suffix := "kMGTPE", "B"
	if base == 1024 {
		units, suffix = "KMGTPE", "iB"
	}
	n /= base
	i := 0
	for ; n >= base-0.5 && i < len(units)-1; i++ {
		n /= base
	}
	decimals := 0
	if n < whole-0.05 {
		decimals = 1
	}
	return strconv.FormatFloat(n, 'f', decimals, 64) + " " + units[i:i+1] + suffix
}
