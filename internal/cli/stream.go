package cli

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/dest"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	outcomes "github.com/seed65876f4f/sealift/internal/outcome"
	"github.com/seed65876f4f/sealift/internal/pipe"
	"github.com/seed65876f4f/sealift/internal/quote"
	"github.com/seed65876f4f/sealift/internal/record"
	"github.com/seed65876f4f/sealift/internal/stream"
)

func newStreamCmd(run runner[stream.Options, stream.Summary]) *cobra.Command {
	flags := &streamFlags{}
	cmd := &cobra.Command{
		Use:        "stream [flags] [IN [OUT...]]",
		SuggestFor: []string{"dd", "dcfldd"},
		Short:      "Copy a file, pipe or block device in blocks, and hash it",
		Long: `Reads IN once and writes it to each OUT. Prints how much was copied, and its
digest, on standard error. - means standard input or output; both are the
default. A file is written in place, and truncated first. A block device is
written from its beginning. When stream exits 0, the data is on the device.` + notesBelow + `--manifest writes the lines of the outputs, or of the input if no output is a
file, to FILE when all are complete. Its lines for other files stay while these
files exist.

Sizes such as 128K, 1M and 1MiB are powers of 1024; 80MB is a power of 1000. A
plain number for --count, --skip and --seek is a number of blocks.`,
		Example: `  sealift stream /dev/sdc card.img
  sealift stream card.img /dev/sdc /dev/sdd
  sealift stream --skip 1M --count 10M disk.img - | xz >part.xz`,
		Annotations: exits{0: "everything is copied", 1: "the input or an output failed"}.annotations(),
	}
	addGroups(cmd, flags.groups())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		options, err := flags.streamOptions(cmd, args)
		if err != nil {
			return err
		}
		r, err := newReporter(cmd, &flags.outputFlags, flags.usedFiles())
		if err != nil {
			return err
		}
		var gone atomic.Bool // true if the reader of standard output has closed the pipe
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
		started := false
		return runCommand(cmd, job[stream.Options, stream.Summary]{
			reporter: r,
			quiet:    typed(options), // a bar would be in the middle of the typed text
			options:  options,
			run: func(ctx context.Context, o *stream.Options, c *counters.Set) (*stream.Summary, error) {
				c.BytesOnly.Store(true)
				s, err := run(ctx, o, c)
				started = s != nil
				return s, err
			},
			// The totals go to standard error, because standard output may be an output.
			finish: func(s *stream.Summary, result outcome) outcome {
				result = r.publish(cmd.OutOrStdout(), result, func(result outcome) document { return newStreamOutcome(options, s, r, result) })
				if silent := gone.Load() && len(options.Outputs) == 1; started && !flags.json && !flags.quiet && !silent {
					for _, line := range streamTotals(s, options.Hashes) {
						r.screen.Line(line)
					}
					result.failed = result.failed || r.screen.Err() != nil // the digest was not printed
				}
				return result
			},
		})
	}
	return cmd
}

// streamFlags holds the flags of stream.
type streamFlags struct {
	options stream.Options
	count   stream.Amount
	sync    dest.SyncMode
	outputFlags
}

func (f *streamFlags) groups() []flagGroup {
	o := &f.options
	return []flagGroup{
		{"What to copy", func(s *pflag.FlagSet) {
			s.Var(newValue(&o.BlockSize, "128K", sizeBetween("1", maxBlock, "")), "block-size", "set the `SIZE` of a block, the unit of --count and others")
			s.Var(newValue(&f.count, "", parseAmount), "count", "copy at most `N` blocks, or a size such as 10M")
			s.Var(newValue(&o.Skip, "", parseAmount), "skip", "skip `N` blocks, or a size, of the input")
			s.Var(newValue(&o.Seek, "", parseAmount), "seek", "skip `N` blocks, or a size, of each output")
			s.BoolVar(&o.Sparse, "sparse", false, "turn blocks of zeros into holes")
		}},
		{groupManifest, func(s *pflag.FlagSet) {
			hashFlag(s, &o.Hashes, "; none computes none", "none")
			s.Var(&onceValue{&o.Manifest}, "manifest", "write the manifest of the outputs to `FILE`")
		}},
		{groupSafety, func(s *pflag.FlagSet) {
			s.BoolVar(&o.NoTruncate, "no-truncate", false, "keep the rest of an output behind the new data")
			s.Var(newChoice(&f.sync, dest.SyncModes.Without(dest.SyncFile)), "sync", "`MODE`: flush data to the device: end or none")
			s.Lookup("sync").NoOptDefVal = "end"
			s.BoolVar(&o.AllowUnmounted, "allow-unmounted", false, allowUnmountedHelp)
		}},
		{groupSpeed, func(s *pflag.FlagSet) {
			bwlimitFlag(s, &o.BytesPerSecond, "read")
			s.Var(newChoice(&o.Cache, pipe.CacheModes), "cache", cacheHelp("files and devices support it"))
		}},
		{groupOutput, func(s *pflag.FlagSet) {
			f.quietFlag(s, "print only failures")
			f.commonFlags(s, "message")
		}},
	}
}

// parseAmount parses a number of blocks, or a size, which has a unit.
func parseAmount(s string) (stream.Amount, error) {
	n, err := parseSize(s)
	if err != nil {
		return stream.Amount{}, fmt.Errorf("%q is neither a number of blocks nor a size; write it as 10, 4096B, 10M or 80MB", s)
	}
	return stream.Amount{N: n, Bytes: strings.Trim(s, "0123456789") != ""}, nil
}

func (f *streamFlags) streamOptions(cmd *cobra.Command, args []string) (*stream.Options, error) {
	o := &f.options
	o.Unsynced = f.sync == dest.SyncNone
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
	case cmd.Flags().Changed("sync") && (o.Input == "end" || o.Input == "none"): // the user wrote --sync none
		return nil, usagef("write the mode of --sync as --sync=%s, or a file of that name as ./%[1]s", o.Input)
	case standardInputs(o.Outputs) > 1:
		return nil, usagef("- is given twice as an output")
	case f.json && slices.Contains(o.Outputs, "-"):
		return nil, usagef("--json and an output on standard output contradict each other; name an output")
	case o.Manifest == "-":
		return nil, usagef("--manifest needs a file; digests are printed on standard error")
	case o.Manifest != "" && len(o.Hashes) == 0:
		return nil, usagef("--manifest needs a digest, and --hash none computes none")
	}
	o.Stdin, _ = cmd.InOrStdin().(*os.File)
	o.Stdout = fileOf(cmd.OutOrStdout())
	if slices.Contains(o.Outputs, "-") && isTerminal(o.Stdout) {
		return nil, usagef("standard output is a terminal, and stream does not write data to it; name an output, or use a pipe: sealift stream IN | cat")
	}
	return o, nil
}

// usedFiles are the files of the command.
func (f *streamFlags) usedFiles() usedFiles {
	o := &f.options
	files := argumentFiles("the input", []string{o.Input}, o.Stdin)
	files = append(files, argumentFiles("an output", o.Outputs, o.Stdout)...)
	return usedFiles{files: append(files, usedFile{what: "the manifest", path: o.Manifest})}
}

// typed reports whether the input is a terminal.
func typed(o *stream.Options) bool { return o.Input == "-" && isTerminal(o.Stdin) }

// readerGone reports whether err is a write to a pipe on standard output whose reader has
// ended, for example head.
func readerGone(err error) bool {
	f, ok := errors.AsType[*failure.FileError](err)
	return ok && f.Path == "-" && f.Stage == failure.StageWrite && fsys.PipeClosed(f.Err)
}

// streamTotals returns the last lines: those of dd, one for each digest, and one for a manifest
// of which lines were dropped.
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

// manifestTotal returns the line about the manifest.
func manifestTotal(s *stream.Summary) string {
	var rows outcomes.Rows
	addManifest(&rows, record.Written{Path: s.Manifest, Lines: s.Lines, Dropped: s.Dropped}, "manifest.lines")
	return "manifest " + rows[0].Text()
}

// transferred returns the last line of dd, in the form of print_xfer_stats in coreutils.
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

// ddSize returns n bytes in the form of dd: in kB (base 1000) or KiB (base 1024) or a larger
// unit, with one decimal if the number is below whole.
func ddSize(n, base, whole float64) string {
	units, suffix := "kMGTPE", "B"
	if base == 1024 {
		units, suffix = "KMGTPE", "iB"
	}
	unit, i := base, 0
	for ; n/unit >= base-0.5 && i < len(units)-1; i++ {
		unit *= base
	}
	// Halves are rounded to even, as in coreutils: 2150 bytes are 2.2 kB. n*10 is divided because
	// 2.15 has no exact binary form.
	decimals, value := 0, math.RoundToEven(n/unit)
	if n/unit < whole-0.05 {
		decimals, value = 1, math.RoundToEven(n*10/unit)/10
	}
	return strconv.FormatFloat(value, 'f', decimals, 64) + " " + units[i:i+1] + suffix
}
