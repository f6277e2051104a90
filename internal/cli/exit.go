package cli

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/seed65876f4f/sealift/internal/failure"
)

// outcome is what counts for the exit code. The zero outcome is success. It is also the
// error of a command that has reported everything itself.
type outcome struct {
	signal     os.Signal // that ended the work early
	refused    bool      // before anything was written
	mismatched bool      // content differs from its expected digest, or is missing
	failed     bool      // some of the work, or its report
	conflicts  bool      // names left alone by the overwrite policy
}

type exitRow struct {
	code    int
	meaning string // one line of help
	detail  string // what man pages add, or ""
	holds   func(outcome) bool
}

// exitTable says how an outcome becomes an exit code: the first row that holds
// decides. It is also what help and man pages print.
var exitTable = []exitRow{
	{143, "stopped by SIGTERM", "", func(o outcome) bool { return o.signal == syscall.SIGTERM }},
	{130, "stopped by SIGINT (Ctrl-C)", "", func(o outcome) bool { return o.signal != nil }},
	{2, "usage error, or refused before anything was written", "", func(o outcome) bool { return o.refused }},
	{
		3, "a mismatch, a missing file or an incomplete copy was found",
		"A source that does not match its own manifest is a mismatch, too", func(o outcome) bool { return o.mismatched },
	},
	{
		1, "some files failed, or a destination was dropped",
		"Each failure was reported. Everything else was done", func(o outcome) bool { return o.failed },
	},
	{
		4, "conflicts left alone by the overwrite policy, and nothing worse",
		"Each conflict was reported with the policy that would replace the file", func(o outcome) bool { return o.conflicts },
	},
	{0, "everything requested was done", "", func(outcome) bool { return true }},
}

func (o outcome) code() int {
	for _, row := range exitTable {
		if row.holds(o) {
			return row.code
		}
	}
	panic("unreachable: the last row always holds")
}

// or joins what two parts of one command came to.
func (o outcome) or(p outcome) outcome {
	if o.signal == nil {
		o.signal = p.signal
	}
	o.refused = o.refused || p.refused
	o.mismatched = o.mismatched || p.mismatched
	o.failed = o.failed || p.failed
	o.conflicts = o.conflicts || p.conflicts
	return o
}

// exitAnnotation names the rows of the table that a command can end with; "all" means
// all of them.
const exitAnnotation = "sealift_exit_codes"

// endsWith makes the annotation for a list of codes, separated by spaces.
func endsWith(codes string) map[string]string { return map[string]string{exitAnnotation: codes} }

// simpleExitCodes are those of commands without the annotation.
var simpleExitCodes = []exitRow{
	{code: 0, meaning: "everything requested was done"},
	{code: 1, meaning: "it failed, and the message says why"},
	{code: 2, meaning: "usage error"},
}

// exitCodesOf lists what a command can end with, in the order of the codes; it
// ends every help and man page.
func exitCodesOf(cmd *cobra.Command) []exitRow {
	codes, ok := cmd.Annotations[exitAnnotation]
	if !ok {
		return simpleExitCodes
	}
	rows := slices.Clone(exitTable)
	if codes != "all" {
		rows = slices.DeleteFunc(rows, func(row exitRow) bool {
			return !slices.Contains(strings.Fields(codes), strconv.Itoa(row.code))
		})
	}
	slices.SortFunc(rows, func(a, b exitRow) int { return a.code - b.code })
	return rows
}

// Interrupt is the cause with which a context is cancelled when a signal asks
// the program to stop.
type Interrupt struct{ Signal os.Signal }

func (i Interrupt) Error() string { return "stopped by " + signalName(i.Signal) }

func signalName(s os.Signal) string {
	switch s {
	case syscall.SIGTERM:
		return "SIGTERM"
	case os.Interrupt:
		return "SIGINT"
	}
	return s.String()
}

// usageError says that the command line makes no sense.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

func usagef(format string, args ...any) error {
	return &usageError{fmt.Sprintf(format, args...)}
}

func (o outcome) Error() string { return fmt.Sprintf("exit code %d", o.code()) }

// err returns the outcome as the error of a command, nil if it is success.
func (o outcome) err() error {
	if o.code() == 0 {
		return nil
	}
	return o
}

// outcomeOf returns what the error of a command means for the exit code, and whether
// the error is still to be reported.
func outcomeOf(err error) (o outcome, report bool) {
	if err == nil {
		return outcome{}, false
	}
	if o, ok := errors.AsType[outcome](err); ok {
		return o, false
	}
	if e, ok := errors.AsType[Interrupt](err); ok {
		return outcome{signal: e.Signal}, true
	}
	if _, ok := errors.AsType[*usageError](err); ok {
		return outcome{refused: true}, true
	}
	if _, ok := errors.AsType[*failure.RefusedError](err); ok {
		return outcome{refused: true}, true
	}
	return outcome{failed: true}, true
}
