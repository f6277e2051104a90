// Package cli implements the command line. It turns flags into the options of the packages
// that do the work (engine, verify, repair, compare, sum, usage, stream), prints what they report, and
// returns the exit code.
//
// Each command is one file with a constructor, and one line in [Main]. The constructor
// describes the command and its flags. A command that runs for more than an instant calls
// [runCommand], which shows progress and reports the outcome.
//
// Results go to standard output. Everything else goes to standard error, through the one
// [printer] of the run. File names and texts from outside the program are quoted at the point
// where they are printed, so that each is quoted exactly once.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed65876f4f/sealift/internal/compare"
	"github.com/seed65876f4f/sealift/internal/engine"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/quote"
	"github.com/seed65876f4f/sealift/internal/repair"
	"github.com/seed65876f4f/sealift/internal/stream"
	"github.com/seed65876f4f/sealift/internal/sum"
	"github.com/seed65876f4f/sealift/internal/usage"
	"github.com/seed65876f4f/sealift/internal/verify"
)

// gcPercent is how much the heap may grow between two garbage collections, in percent of the
// live heap. Go's default is 100. Half of that saves a quarter of the memory and costs 0.3 % of
// the time. The cost is low because most of the heap, names and tables, has no pointers.
const gcPercent = 50

// floor is never read or written, so the system allocates no memory for it, but the garbage
// collector counts it as live heap. So a heap of a few MB can also grow by 8 MiB between two
// collections. Without floor, a second run over 200,000 files has 55 collections, which use a
// tenth of its processor time.
var floor atomic.Pointer[[floorSize]byte]

// floorSize is the size of floor in bytes.
const floorSize = 16 << 20

// In the first instant, the heap may grow to 8 MiB without a collection. A command on few files
// ends before that. The collection that the allocation of floor causes took a quarter of its time.
const (
	firstInstant   = 50 * time.Millisecond
	firstGCPercent = 200 // percentage of the 4 MiB that Go's collector waits for at 100
)

// limitHeap sets when the heap is collected, unless the user has.
func limitHeap() {
	if os.Getenv("GOGC") != "" {
		return
	}
	debug.SetGCPercent(firstGCPercent)
	time.AfterFunc(firstInstant, func() {
		floor.Store(new([floorSize]byte))
		debug.SetGCPercent(gcPercent)
	})
}

// Main runs the program and returns its exit code. args are the arguments after the program
// name. To report a signal, the caller cancels ctx with an [Interrupt] as the cause.
func Main(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	limitHeap()
	root := newRootCmd(needed(args, []lazyCommand{
		{"copy", func() *cobra.Command { return newCopyCmd(engine.Run) }},
		{"verify", func() *cobra.Command { return newVerifyCmd(verify.Run) }},
		{"repair", func() *cobra.Command { return newRepairCmd(repair.Run) }},
		{"scrub", func() *cobra.Command { return newScrubCmd(verify.Scrub) }},
		{"compare", func() *cobra.Command { return newCompareCmd(compare.Run) }},
		{"sum", func() *cobra.Command { return newSumCmd(sum.Run) }},
		{"du", func() *cobra.Command { return newDuCmd(usage.Run) }},
		{"stream", func() *cobra.Command { return newStreamCmd(stream.Run) }},
		{"plan", func() *cobra.Command { return newPlanCmd(engine.Plan) }},
		{"run", func() *cobra.Command { return newRunCmd(engine.RunShard) }},
		{"merge", func() *cobra.Command { return newMergeCmd(engine.Merge) }},
		{"completion", newCompletionCmd},
		{"man", newManCmd},
		{"version", func() *cobra.Command { return newVersionCmd(readBuild()) }},
	})...)
	return execute(ctx, root, args, stdin, stdout, stderr)
}

// lazyCommand is a command of the program, whose flags are defined only if they are needed.
type lazyCommand struct {
	name string
	make func() *cobra.Command
}

// needed returns the commands that a command line needs. If it begins with the name of one, that is
// the only one. Help, completion, man pages and messages about other words need all.
func needed(args []string, all []lazyCommand) (made []*cobra.Command) {
	one := slices.IndexFunc(all, func(c lazyCommand) bool {
		return len(args) > 0 && args[0] == c.name && c.name != "completion" && c.name != "man"
	})
	if one >= 0 {
		all = all[one : one+1]
	}
	for _, c := range all {
		made = append(made, c.make())
	}
	return made
}

// execute runs one command line on root, reports its error, and returns the exit code.
func execute(ctx context.Context, root *cobra.Command, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	out := &checkedWriter{w: stdout}
	root.SetArgs(append([]string{}, args...)) // a nil slice would make cobra use os.Args
	root.SetIn(stdin)
	root.SetOut(out)
	root.SetErr(stderr)
	cmd, err := executeUntilSignal(withArgs(ctx, args), root)
	result, report := outcomeOf(err)
	if report && (out.err == nil || !errors.Is(err, out.err)) {
		reportError(cmd, err, result, args)
	}
	if out.err != nil {
		if !fsys.PipeClosed(out.err) { // a reader such as head may close the pipe early, without a message
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

// wantsJSON reports whether a command line asks for JSON. It searches the raw arguments if
// parsing failed before --json, or if the command is unknown or has no flag --json.
func wantsJSON(cmd *cobra.Command, args []string) bool {
	if flag := cmd.Flags().Lookup("json"); flag != nil && flag.Changed {
		return flag.Value.String() == "true"
	}
	if end := slices.Index(args, "--"); end >= 0 {
		args = args[:end]
	}
	return slices.Contains(args, "--json") || slices.Contains(args, "--json=true")
}

// checkedWriter keeps the first write error in err and writes nothing after it. Code that
// prints a summary can therefore ignore the error of each write.
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
