package cli

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/mhl"
	outcomes "github.com/seed65876f4f/sealift/internal/outcome"
	"github.com/seed65876f4f/sealift/internal/progress"
	"github.com/seed65876f4f/sealift/internal/quote"
	"github.com/seed65876f4f/sealift/internal/report"
)

// reporter handles the failures and warnings of one run. It prints them, logs them, and keeps
// them for the JSON output and the HTML report.
type reporter struct {
	screen    *printer
	results   *results      // lines on standard output; they are flushed before each message
	log       *fileLog      // log of the run; may be nil
	progress  progress.Mode // value of --progress
	noSummary bool          // print no summary
	quiet     bool          // print no warnings, and show progress only if --progress asks for it
	json      bool          // keep the lists below for the JSON output
	page      *htmlReport   // page of --report; may be nil
	metrics   *metricsFile  // file of --metrics; may be nil
	cmd       *cobra.Command
	start     time.Time

	mu struct {
		sync.Mutex
		errors     int64 // failures and dropped destinations
		mismatches int64
		failures   []failureJSON // all errors and mismatches
		warnings   []warningJSON
		conflicts  []conflictJSON
		unlisted   []unlistedJSON
		causes     outcomes.Causes   // for commands other than copies
		equal      map[message]int64 // number of messages of each kind
	}
}

// message is a kind of messages: messages that differ only in the path are of one kind.
type message struct {
	target string
	stage  failure.Stage
	text   string
}

const (
	maxEqual    = 10   // number of printed messages of one kind; further ones are only counted
	maxMessages = 1000 // number of counted kinds; messages of further kinds are all printed
)

// printEqual prints a message, unless maxEqual messages of its kind were printed before.
func (r *reporter) printEqual(m message, line string) {
	r.mu.Lock()
	if r.mu.equal == nil {
		r.mu.equal = map[message]int64{}
	}
	n := r.mu.equal[m] + 1
	if n > 1 || len(r.mu.equal) < maxMessages {
		r.mu.equal[m] = n
	}
	r.mu.Unlock()
	if n <= maxEqual {
		r.print(line)
	}
}

// printRest prints how many messages of each kind printEqual did not print.
func (r *reporter) printRest() {
	r.mu.Lock()
	var lines []string
	for m, n := range r.mu.equal {
		if n -= maxEqual; n > 0 {
			text := grouped(n) + " more"
			if m.target != "" {
				text += " (to " + quote.Name(m.target) + ")"
			}
			if m.stage != "" {
				text += ": " + string(m.stage)
			}
			lines = append(lines, text+": "+m.text+" (--log-file lists all)")
		}
	}
	r.mu.Unlock()
	slices.Sort(lines)
	for _, line := range lines {
		r.print(line)
	}
}

// newReporter returns the reporter of a command, and opens its page, its metrics and its log. used are the other files
// of the command, none of which may be the log, the report or the metrics. The error is a usage error or a refusal.
func newReporter(cmd *cobra.Command, f *outputFlags, used usedFiles) (*reporter, error) {
	page, err := openReport(cmd, used.fs, f.report, used.shown)
	if err != nil {
		return nil, err
	}
	if f.logFormat != logText && f.logFile == "" {
		return nil, usagef("--log-format needs --log-file")
	}
	if f.logFile == "-" {
		return nil, usagef("--log-file needs a file; messages are printed on standard error")
	}
	if err := f.refuseOutputs(used); err != nil {
		return nil, err
	}
	metrics, err := openMetrics(cmd, nil, f.metrics, used)
	if err != nil {
		return nil, err
	}
	log, err := openLog(cmd.Context(), f.logFile, f.logFormat, whereKey(cmd))
	if err != nil {
		return nil, usagef("%s", logError(err))
	}
	screen := &printer{w: cmd.ErrOrStderr()}
	return &reporter{
		screen:   screen,
		results:  newResults(cmd.OutOrStdout(), screen),
		log:      log,
		page:     page,
		metrics:  metrics,
		progress: f.progress,
		quiet:    f.quiet,
		json:     f.json,
		cmd:      cmd,
		start:    time.Now(),
	}, nil
}

// print prints a message on standard error. The caller has quoted its parts.
func (r *reporter) print(message string) {
	r.results.Flush()
	r.screen.Line("sealift: " + message)
}

// warning reports that the run does less than requested. path and target may be empty.
func (r *reporter) warning(path, target string, err error) {
	where := ""
	if path != "" || target != "" {
		where = place(path, target)
	}
	r.warningAt(where, path, target, err)
}

// warningAt is warning with a quoted prefix that says where; it may be empty.
func (r *reporter) warningAt(where, path, target string, err error) {
	r.log.line(slog.LevelWarn, "warning", path, target, "error", loggedText(errorText(err)))
	if !r.quiet {
		if where != "" {
			where += ": "
		}
		r.print("warning: " + where + quotedError(err))
	}
	r.page.problem(report.Problem{Kind: "warning", Path: path, Target: target, Cause: errorText(err)})
	r.keep(func() {
		r.mu.warnings = append(r.mu.warnings, warningJSON{newNameJSON(path), r.where(target), errorText(err)})
	})
}

// failure reports a failure. path and target may be empty. If err is a [failure.FileError], its
// path and target take precedence.
func (r *reporter) failure(path, target string, err error) {
	r.problem(r.printEqual, &r.mu.errors, "failed", path, target, err)
}

// silentFailure logs and counts a failure, but prints no message.
func (r *reporter) silentFailure(path, target string, err error) {
	r.problem(func(message, string) {}, &r.mu.errors, "failed", path, target, err)
}

// mismatch reports content that differs from its expected digest.
func (r *reporter) mismatch(path, target string, err error) {
	r.problem(r.printEqual, &r.mu.mismatches, "mismatch", path, target, err)
}

func (r *reporter) problem(print func(message, string), count *int64, title, path, target string, err error) {
	text, stage := quotedError(err), failure.Stage("")
	if f, ok := errors.AsType[*failure.FileError](err); ok {
		path, target, stage, err = f.Path, f.Target, f.Stage, f.Err
		text = f.Error() // a FileError quotes its own text
	} else if path != "" || target != "" {
		text = place(path, target) + ": " + text
	}
	r.log.line(slog.LevelError, title, path, target, "stage", string(stage), "error", loggedText(errorText(err)))
	print(message{target, stage, quotedError(err)}, text)
	r.record(count, r.newFailureJSON(title, path, target, stage, errorText(err)))
}

// record increments count, and adds a failure to the JSON output and the HTML report. Because
// it does both, the counts in JSON always equal the lengths of the lists.
func (r *reporter) record(count *int64, f failureJSON) {
	kind := "failure"
	if count == &r.mu.mismatches {
		kind = "mismatch"
	}
	r.page.problem(report.Problem{Kind: kind, Path: f.Path, Target: f.target, Cause: cause(failure.Stage(f.Stage), f.Error)})
	r.mu.Lock()
	defer r.mu.Unlock()
	*count++
	r.mu.causes.Add(causeOf(f.Event), f.target)
	if r.json {
		r.mu.failures = append(r.mu.failures, f)
	}
}

// causeOf returns the cause of an event of the log.
func causeOf(event string) string {
	switch event {
	case "mismatch", "invalid", "rotted", "changed", "differs":
		return outcomes.Differs
	case "missing":
		return outcomes.Missing
	case "incomplete":
		return outcomes.Partial
	}
	return outcomes.Failed
}

// keep calls add, with r.mu locked, if the command prints JSON. add extends one of its lists.
func (r *reporter) keep(add func()) {
	if r.json {
		r.mu.Lock()
		defer r.mu.Unlock()
		add()
	}
}

// verdict returns a verdict with the causes that were recorded. The command that calls it adds reasons.
func (r *reporter) verdict(good, bad words) verdict {
	r.mu.Lock()
	defer r.mu.Unlock()
	return verdict{good: good, bad: bad, causes: slices.Clone(r.mu.causes)}
}

// counts returns how many failures and how many mismatches were reported.
func (r *reporter) counts() (failures, mismatches int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mu.errors, r.mu.mismatches
}

// advice returns the next step as the end of the message of a stop, unless the summary has it.
func (r *reporter) advice(next string) string {
	if r.quiet || r.json {
		return "; " + next
	}
	return ""
}

// end prints the messages that are still pending, reports the error of the run, which may be
// nil, and returns the outcome. advice is added to the message that a signal stopped the run.
func (r *reporter) end(err error, advice string) outcome {
	r.printRest()
	interrupt, ok := errors.AsType[Interrupt](err)
	switch lost := r.results.Err(); {
	case err == nil:
		return outcome{}
	case ok:
		r.print(interrupt.Error() + advice)
		return outcome{signal: interrupt.Signal}
	case lost != nil && errors.Is(err, lost):
		// execute reports it.
	case errors.Is(err, context.Canceled):
		r.print("stopped") // the caller of Main has stopped the run, without a signal
	default:
		r.failure("", "", err)
	}
	_, broken := errors.AsType[*mhl.ChainError](err)
	return outcome{failed: true, mismatched: broken}
}

// endLog writes the last line of the log, with the exit code and attrs, and closes the log. It
// reports an error of the log and adds it to the outcome.
func (r *reporter) endLog(result outcome, attrs ...any) outcome {
	r.log.line(slog.LevelInfo, "finish", "", "", append([]any{"exit_code", result.code()}, attrs...)...)
	if err := r.log.close(); err != nil {
		r.failure("", "", logError(err))
		result.failed = true
	}
	return result
}

// logRefusal logs the reason of a refusal, and closes the log.
func (r *reporter) logRefusal(err error) error {
	r.log.line(slog.LevelError, "refused", "", "", "error", loggedText(errorText(err)))
	return r.log.close()
}

// place names an entry and, if target is not empty, the destination.
func place(path, target string) string {
	if target == "" {
		return quote.Name(pathOrDot(path))
	}
	if path == "" {
		return quote.Name(target)
	}
	return quote.Name(path) + " (to " + quote.Name(target) + ")"
}

func pathOrDot(path string) string {
	if path == "" {
		return "."
	}
	return path
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
