package cli

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"testing"

	"github.com/seed65876f4f/sealift/internal/failure"
)

func TestTheFirstRowThatHoldsDecidesTheExitCode(t *testing.T) {
	for _, c := range []struct {
		o    outcome
		want int
	}{
		{outcome{}, 0},
		{outcome{failed: true}, 1},
		{outcome{refused: true}, 2},
		{outcome{conflicts: true}, 4},
		{outcome{signal: syscall.SIGHUP}, 129},
		{outcome{signal: os.Interrupt}, 130},
		{outcome{signal: syscall.SIGTERM}, 143},
		{outcome{mismatched: true}, 3},
		{outcome{failed: true, conflicts: true}, 1},
		{outcome{mismatched: true, failed: true, conflicts: true}, 3},
		{outcome{refused: true, mismatched: true, failed: true, conflicts: true}, 2},
		{outcome{signal: os.Interrupt, refused: true, mismatched: true, failed: true, conflicts: true}, 130},
		{outcome{signal: syscall.SIGTERM, refused: true, mismatched: true, failed: true, conflicts: true}, 143},
	} {
		if got := c.o.code(); got != c.want {
			t.Errorf("%+v: %d, want %d", c.o, got, c.want)
		}
		if got := c.o.or(outcome{}); got != c.o {
			t.Errorf("%+v or nothing = %+v", c.o, got)
		}
		if got := (outcome{}).or(c.o); got != c.o {
			t.Errorf("nothing or %+v = %+v", c.o, got)
		}
	}
}

func TestEachErrorHasItsExitCodeAndIsReportedOnce(t *testing.T) {
	for _, c := range []struct {
		err    error
		code   int
		report bool
	}{
		{nil, 0, false},
		{errors.New("disk on fire"), 1, true},
		{fmt.Errorf("copy: %w", &failure.RefusedError{Reason: "no"}), 2, true},
		{usagef("no"), 2, true},
		{Interrupt{os.Interrupt}, 130, true},
		{fmt.Errorf("scan: %w", Interrupt{syscall.SIGTERM}), 143, true},
		{outcome{conflicts: true}, 4, false},
	} {
		o, report := outcomeOf(c.err)
		if o.code() != c.code || report != c.report {
			t.Errorf("%v: exit code %d, report %v; want %d, %v", c.err, o.code(), report, c.code, c.report)
		}
	}
}

func TestInterruptNamesItsSignal(t *testing.T) {
	for s, want := range map[os.Signal]string{os.Interrupt: "stopped by SIGINT", syscall.SIGTERM: "stopped by SIGTERM"} {
		if got := (Interrupt{s}).Error(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
