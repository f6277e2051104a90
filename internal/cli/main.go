// Package cli is the command line: it turns flags into the options of engine, verify,
// compare, sum, usage and stream, their reports into messages and lines, and outcomes into exit
// codes.
//
// A command is one file with a constructor, and one line in [Main]. The constructor
// describes the command and its flags. A command that works for long calls [runCommand],
// which shows progress and reports how the work has ended.
//
// Results go to standard output, everything else to standard error through
// one printer per run. Names and texts from elsewhere are quoted where they
// are printed, so a message is quoted exactly once.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"

	"github.com/spf13/cobra"

	"github.com/seed65876f4f/sealift/internal/compare"
	"github.com/seed65876f4f/sealift/internal/engine"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/quote"
	"github.com/seed65876f4f/sealift/internal/stream"
	"github.com/seed65876f4f/sealift/internal/sum"
	"github.com/seed65876f4f/sealift/internal/usage"
	"github.com/seed65876f4f/sealift/internal/verify"
)

// gcPercent is how much the heap may grow between two collections, in percent of the
// memory in use. Names and tables, the large part, have no pointers and cost a collection
// nothing. So half of Go's default saves a quarter of the memory for 0.3 % of the time.
const gcPercent = 50

// floor is neither read nor written, so the system gives it no memory. The garbage collector
// counts it as memory in use. So also a heap of a few MB may grow by 8 MiB between two
// collections. Otherwise a second run over 200,000 files collects 55 times, for a tenth of its
// processor time.
var floor []byte

// floorSize is the size of floor in bytes.
const floorSize = 16 << 20

// Main runs the program with the arguments behind its name, and returns its
// exit code. A signal is an [Interrupt] as the cause of the context's end.
func Main(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
		floor = make([]byte, floorSize)
	}
	root := newRootCmd(
		newCopyCmd(engine.Run),
		newVerifyCmd(verify.Run),
		newCompareCmd(compare.Run),
		newSumCmd(sum.Run),
		newDuCmd(usage.Run),
		newStreamCmd(stream.Run),
		newPlanCmd(engine.Plan),
		newRunCmd(engine.RunShard),
		newMergeCmd(engine.Merge),
		newCompletionCmd(),
		newManCmd(),
		newVersionCmd(readBuild()),
	)
	return execute(ctx, root, args, stdin, stdout, stderr)
}

// execute runs one command line on root, reports its error, and turns the
// outcome into the exit code.
func execute(ctx context.Context, root *cobra.Command, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	out := &checkedWriter{w: stdout}
	root.SetArgs(append([]string{}, args...)) // never nil, or else cobra takes os.Args
	root.SetIn(stdin)
	root.SetOut(out)
	root.SetErr(stderr)
	cmd, err := root.ExecuteContextC(withArgs(ctx, args))
	result, report := outcomeOf(err)
	if report && (out.err == nil || !errors.Is(err, out.err)) {
		reportError(cmd, err, result, args)
	}
	if out.err != nil {
		if !fsys.PipeClosed(out.err) { // as after "| head", whose user has seen enough
			fmt.Fprintf(stderr, "sealift: standard output: %s\n", quote.Text(fsys.BareError(out.err).Error()))
		}
		result = result.or(outcome{failed: true})
	}
	return result.code()
}

// reportError prints an error that the command itself has not reported.
func reportError(cmd *cobra.Command, err error, result outcome, args []string) {
	stderr := cmd.ErrOrStderr()
	fmt.Fprintf(stderr, "sealift: %s\n", quote.Text(err.Error()))
	if _, ok := errors.AsType[*usageError](err); ok {
		fmt.Fprintf(stderr, "Try '%s --help'.\n", cmd.CommandPath())
	}
	if result.refused && wantsJSON(cmd, args) {
		printRefusal(cmd.OutOrStdout(), err, result.code())
	}
}

// wantsJSON reports whether a command line asks for JSON, also where the flags
// before --json could not be parsed, or the command has none or does not exist.
func wantsJSON(cmd *cobra.Command, args []string) bool {
	if flag := cmd.Flags().Lookup("json"); flag != nil && flag.Changed {
		return flag.Value.String() == "true"
	}
	if end := slices.Index(args, "--"); end >= 0 {
		args = args[:end]
	}
	return slices.Contains(args, "--json") || slices.Contains(args, "--json=true")
}

// checkedWriter remembers the first error and writes nothing after it, so that callers
// need not check each line of a summary.
type checkedWriter struct {
	w   io.Writer
	err error
}

func (c *checkedWriter) Write(p []byte) (int, error) {
	if c.err != nil {
		return 0, c.err
	}
	n, err := c.w.Write(p)
	if err == nil && n < len(p) {
		err = io.ErrShortWrite
	}
	c.err = err
	return n, err
}
