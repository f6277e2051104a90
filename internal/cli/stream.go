package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed65876f4f/sealift/internal/catalog"
	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/progress"
	"github.com/seed65876f4f/sealift/internal/quote"
	"github.com/seed65876f4f/sealift/internal/stream"
)

// runStream is [stream.Run], or what a test puts in its place.
type runStream func(context.Context, *stream.Options, *counters.Set) (*stream.Summary, error)

func newStreamCmd(run runStream) *cobra.Command {
	flags := &streamFlags{}
	cmd := &cobra.Command{
		Use:   "stream [flags] [IN [OUT...]]",
		Short: "Copy one stream, file or device while hashing it",
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
	completeValues(cmd, map[string][]string{
		"sync":       {"end", "none"},
		"cache":      stream.CacheNames(),
		"progress":   progress.ModeNames(),
		"bwlimit":    {"off"}, // or a rate
		"block-size": nil,
		"count":      nil,
		"skip":       nil,
		"seek":       nil,
	})
	complete(cmd, "hash", listCompletions([]string{"none"}, hash.Names()))
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		options, err := flags.streamOptions(cmd, args)
		if err != nil {
			return err
		}
		return streamAndTell(cmd, flags, options, run)
	}
	return cmd
}

// streamAndTell copies and tells everything about it, on standard error: standard
// output may be where the stream goes.
func streamAndTell(cmd *cobra.Command, flags *streamFlags, options *stream.Options, run runStream) error {
	screen := &printer{w: cmd.ErrOrStderr()}
	t := &teller{screen: screen, quiet: flags.quiet}
	options.Report = func(e stream.Event) {
		if e.Warning {
			t.warning("", "", "", e.Err)
		} else {
			t.failure("", "", "", e.Err)
		}
	}

	mode := flags.progress
	if mode == progress.ModeAuto && throughTerminal(options) {
		mode = progress.ModeNone // a bar would stand in the middle of the stream
	}
	w := startWatch(cmd, screen, mode, flags.quiet)
	defer w.close()
	w.counters.BytesOnly.Store(true)
	summary, err := run(cmd.Context(), options, w.counters)
	w.bar.Stop()

	if refused, ok := errors.AsType[*failure.RefusedError](err); ok {
		return refused
	}
	result := t.cutShort(err, "")
	failures, _ := t.told()
	result.failed = result.failed || failures > 0
	if summary != nil && !flags.quiet {
		for _, line := range streamTotals(summary, options.Hashes) {
			screen.Line(line)
		}
		result.failed = result.failed || screen.Err() != nil // nobody has the digest
	}
	return result.err()
}

// throughTerminal reports whether somebody types the stream, or looks at it.
func throughTerminal(o *stream.Options) bool {
	return o.Input == "-" && o.Stdin != nil && isTerminal(o.Stdin) ||
		slices.Contains(o.Outputs, "-") && o.Stdout != nil && isTerminal(o.Stdout)
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
