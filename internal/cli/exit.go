package cli

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/seed65876f4f/sealift/internal/failure"
)

// outcome holds what determines the exit code. The zero value is success. A command that has
// already reported its failures returns its outcome as the error.
type outcome struct {
	signal     os.Signal // the signal that stopped the run, or nil
	refused    bool      // true after a usage error, or a refusal before the first write
	mismatched bool      // true if content differs from its expected digest, or a file is missing
	failed     bool      // true if something failed, perhaps only the log or the report
	conflicts  bool      // true if the overwrite policy left existing names alone
}

type exitRow struct {
	code    int
	meaning string // one line of help
	detail  string // more text of man pages; may be ""
	holds   func(outcome) bool
}

// exitTable maps outcomes to exit codes: the first row that holds decides. Help and man pages
// print it.
var exitTable = []exitRow{
	{143, "stopped by SIGTERM", "", func(o outcome) bool { return o.signal == syscall.SIGTERM }},
	{129, "stopped by SIGHUP (the terminal was closed)", "", func(o outcome) bool { return o.signal == syscall.SIGHUP }},
	{130, "stopped by SIGINT (Ctrl-C)", "", func(o outcome) bool { return o.signal != nil }},
	{2, "usage error, or refused before anything was written", "", func(o outcome) bool { return o.refused }},
	{3, "a mismatch, a missing file or an incomplete copy was found", "", func(o outcome) bool { return o.mismatched }},
	{
		1, "some files failed, or a destination was dropped",
		"Each failure was reported. Everything else was done", func(o outcome) bool { return o.failed },
	},
	{
		4, "conflicts left alone by the overwrite policy, and nothing worse",
		"Each conflict was reported with a hint", func(o outcome) bool { return o.conflicts },
	},
	{0, "everything requested was done", "", func(outcome) bool { return true }},
}

// row returns the row of exitTable that decides.
func (o outcome) row() exitRow {
	for _, row := range exitTable {
		if row.holds(o) {
			return row
		}
	}
	panic("unreachable: the last row always holds")
}

func (o outcome) code() int { return o.row().code }

// or combines the outcomes of two parts of one command.
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

// exitAnnotation begins the annotations of a command with its own meanings of exit codes.
const exitAnnotation = "sealift_exit_"

// exits are the exit codes of a command, except for 2 and those of signals, which all have, with
// what they mean for it.
type exits map[int]string

// annotations returns e as the annotations of a command.
func (e exits) annotations() map[string]string {
	list := map[string]string{}
	for code, meaning := range e {
		list[exitAnnotation+strconv.Itoa(code)] = meaning
	}
	return list
}

// copyExits are the exit codes of copy and of commands that do a part of it.
func copyExits(done, failed string) exits {
	return exits{
		0: done, 1: failed, 4: "conflicts left alone by the overwrite policy, and nothing worse",
		3: "the source or a copy does not match, or the source is incomplete",
	}
}

// simpleExitCodes are the exit codes of commands without the annotations.
var simpleExitCodes = []exitRow{
	{code: 0, meaning: "everything requested was done"},
	{code: 1, meaning: "it failed, and the message says why"},
	{code: 2, meaning: "usage error"},
}

// exitCodesOf returns the possible exit codes of a command, in ascending order, for help and
// man pages. Those of the program are those of all commands.
func exitCodesOf(cmd *cobra.Command) []exitRow {
	if cmd.HasParent() && cmd.Annotations[exitAnnotation+"0"] == "" {
		return simpleExitCodes
	}
	var rows []exitRow
	for _, row := range exitTable {
		meaning := cmd.Annotations[exitAnnotation+strconv.Itoa(row.code)]
		switch {
		case meaning != "":
			row.meaning = meaning
		case cmd.HasParent() && row.code != 2 && row.code < 128: // 128 + n is signal n
			continue
		}
		rows = append(rows, row)
	}
	slices.SortFunc(rows, func(a, b exitRow) int { return a.code - b.code })
	return rows
}

// meaningOf returns what an exit code means for a command.
func meaningOf(cmd *cobra.Command, code int) string {
	for _, row := range exitCodesOf(cmd) {
		if row.code == code {
			return row.meaning
		}
	}
	return ""
}

// Interrupt is the cause of a context that was cancelled because a signal stopped the program.
type Interrupt struct{ Signal os.Signal }

func (i Interrupt) Error() string { return "stopped by " + signalName(i.Signal) }

func signalName(s os.Signal) string {
	switch s {
	case syscall.SIGTERM:
		return "SIGTERM"
	case syscall.SIGHUP:
		return "SIGHUP"
	case os.Interrupt:
		return "SIGINT"
	}
	return s.String()
}

// usageError is an error in the command line.
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

// outcomeOf converts the error of a command to an outcome. report is true if the error has not
// been printed yet.
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
