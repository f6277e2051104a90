package cli

import (
	"bytes"
	"context"
	"errors"
	"io"

	"github.com/spf13/cobra"

	"github.com/seed65876f4f/sealift/internal/catalog"
	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/quote"
	"github.com/seed65876f4f/sealift/internal/sum"
)

// runSum is [sum.Run], or what a test puts in its place.
type runSum func(context.Context, *sum.Options, *counters.Set) (*sum.Summary, error)

func newSumCmd(run runSum) *cobra.Command {
	flags := &sumFlags{}
	cmd := &cobra.Command{
		Use:   "sum [flags] [PATH...]",
		Short: "Hash trees in parallel, and print their manifest",
		Long: `Hashes the files in each PATH (by default in the current directory; - stands for
standard input) and prints the lines of a manifest that "sha256sum -c" accepts,
in the order of their names. If PATH is a single directory, names are relative
to it. On a terminal, what in a name would act on it is shown as an escape.`,
		Example: `  sealift sum /mnt/archive > SHA256SUMS
  sealift sum --manifest /mnt/archive/SHA256SUMS /mnt/archive
  sealift sum --hash sha256,blake3 --tag --exclude '*.tmp' project`,
		Annotations: endsWith("0 1 2 130 143"),
	}
	addGroups(cmd, flags.groups())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		options, err := flags.sumOptions(cmd, args)
		if err != nil {
			return err
		}
		return sumAndTell(cmd, flags, options, run)
	}
	return cmd
}

// sumAndTell hashes and tells everything about it.
func sumAndTell(cmd *cobra.Command, flags *sumFlags, options *sum.Options, run runSum) error {
	stdout := cmd.OutOrStdout()
	screen := &printer{w: cmd.ErrOrStderr()}
	t := &teller{screen: screen, results: newResults(stdout, screen), quiet: flags.quiet}
	options.Out, options.OutFile = t.results, fileOf(stdout)
	if f := options.OutFile; f != nil && isTerminal(f) && !options.Zero {
		options.Out = &quotedLines{w: t.results} // as du's; in a pipe names are bytes
	}
	options.Report = func(e sum.Event) {
		if !e.Warning {
			t.failure(e.Path, "", "", e.Err)
			return
		}
		where := ""
		if e.Path != "" {
			where = quote.Name(e.Path)
		}
		t.warning(where, e.Path, "", e.Err)
	}

	w := startWatch(cmd, screen, flags.progress, flags.quiet)
	defer w.close()
	summary, err := run(cmd.Context(), options, w.counters)
	w.bar.Stop()
	t.results.Close()

	if refused, ok := errors.AsType[*failure.RefusedError](err); ok {
		return refused
	}
	if summary == nil {
		summary = &sum.Summary{}
	}
	result := t.cutShort(err, "")
	failures, _ := t.told()
	result.failed = result.failed || failures > 0 || summary.Errors > 0
	if options.Manifest != "" && !flags.quiet {
		printSumSummary(stdout, summary, failures, result)
	}
	return result.err()
}

// quotedLines passes lines on with their texts quoted, each when it is complete.
type quotedLines struct {
	w    io.Writer
	part []byte // of a line
}

func (q *quotedLines) Write(p []byte) (int, error) {
	q.part = append(q.part, p...)
	whole := q.part[:bytes.LastIndexByte(q.part, '\n')+1]
	for line := range bytes.Lines(whole) {
		if _, err := io.WriteString(q.w, quote.Text(string(line[:len(line)-1]))+"\n"); err != nil {
			return 0, err
		}
	}
	q.part = append(q.part[:0], q.part[len(whole):]...)
	return len(p), nil
}

// printSumSummary writes the account of a manifest for people, as printSummary
// does for a copy.
func printSumSummary(w io.Writer, s *sum.Summary, failures int64, result outcome) {
	var t table
	t.row("hashed", plural(s.Files, "file"))
	t.row("size", sizeAndTime(s.Bytes, s.Elapsed))
	t.counts([]count{{"warnings", s.Warnings}, {"errors", failures}})
	if s.Manifest != "" {
		t.row("manifest", quote.Name(s.Manifest)+", "+lines(catalog.Written{Lines: s.Lines, Dropped: s.Dropped}))
		t.row("sha256", s.SHA256) // of the manifest itself
	}
	t.stopped(result)
	_, _ = io.WriteString(w, t.String())
}
