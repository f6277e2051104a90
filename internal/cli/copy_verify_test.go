package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/engine"
	"github.com/seed65876f4f/sealift/internal/event"
	"github.com/seed65876f4f/sealift/internal/failure"
)

// verifies returns a run that has read back the given number of files at each destination. cached
// of them may have come from memory.
func verifies(verified, cached int64) runCopy {
	return func(_ context.Context, o *engine.Options, _ *counters.Set) (*engine.Summary, error) {
		s := &engine.Summary{DryRun: o.DryRun}
		for _, name := range o.Targets {
			s.Targets = append(s.Targets, engine.TargetSummary{DestinationCounts: engine.DestinationCounts{Verified: verified, Cached: cached}, Path: name})
		}
		return s, nil
	}
}

func TestTheSummarySaysThroughWhatWasVerified(t *testing.T) {
	for _, c := range []struct {
		flags            string
		verified, cached int64
		want             string // the rows about verification
	}{
		{"--verify b", 1234, 0, "verified    1,234 files, read back from the device\n"},
		{"--verify=full b", 1, 0, "verified    1 file, read back from the device\n"},
		{"--verify b", 10, 3, "verified    10 files, 3 of them verified through cache (no device to read)\n"},
		{"--verify b", 10, 10, "verified    10 files, verified through cache (no device to read)\n"},
		{"--verify b", 0, 0, "verified    0 files\n"},
		{"--verify b -o c", 2, 0, "verified    2 files, read back from the device\nverified    2 files, read back from the device\n"},
		{"b", 0, 0, ""},
		{"--verify=off b", 0, 0, ""},
		{"--verify -n b", 0, 0, ""},
	} {
		r := command(t, verifies(c.verified, c.cached), "", append([]string{"copy", "a"}, strings.Fields(c.flags)...)...)
		got := ""
		for line := range strings.Lines(r.stdout) {
			if strings.HasPrefix(line, "verified") {
				got += line
			}
		}
		if got != c.want {
			t.Errorf("%s: got %q, want %q", c.flags, got, c.want)
		}
	}
}

// The summary shows no verification for a dropped destination.
func TestADroppedDestinationIsNotVerified(t *testing.T) {
	lost := func(context.Context, *engine.Options, *counters.Set) (*engine.Summary, error) {
		return &engine.Summary{Totals: engine.Totals{Errors: 1}, Targets: []engine.TargetSummary{{Path: "b", Lost: errors.New("gone")}}}, nil
	}
	if r := command(t, lost, "", "copy", "--verify", "a", "b"); strings.Contains(r.stdout, "verified") {
		t.Errorf("stdout %s", r.stdout)
	}
}

// A reported mismatch counts for the exit code, even if the run then fails without a summary.
func TestAMismatchBeforeAFailureOfTheRun(t *testing.T) {
	run := func(_ context.Context, o *engine.Options, _ *counters.Set) (*engine.Summary, error) {
		o.Report(event.Event{Kind: event.Mismatch, Path: "m", Err: errors.New("it differs")})
		return nil, errors.New("broken")
	}
	if r := command(t, run, "", "copy", "a", "b"); r.code != 3 || r.stderr != "sealift: 'm': it differs\nsealift: broken\n" {
		t.Errorf("exit code %d, stderr %q", r.code, r.stderr)
	}
}

// Mismatches and errors have separate counts. The list of failures holds both, and each count is
// the length of its part of the list.
func TestMismatchesOfACopyAreCountedApartFromErrors(t *testing.T) {
	run := func(_ context.Context, o *engine.Options, _ *counters.Set) (*engine.Summary, error) {
		for i := range 3 {
			path := fmt.Sprintf("m%d", i)
			o.Report(event.Event{Kind: event.Mismatch, Path: path, Target: "b",
				Err: &failure.FileError{Path: path, Target: "b", Stage: failure.StageVerify, Err: errors.New("what was read back differs")}})
		}
		o.Report(event.Event{Kind: event.Failed, Path: "f", Err: &failure.FileError{Path: "f", Stage: failure.StageRead, Err: errors.New("no")}})
		return &engine.Summary{Totals: engine.Totals{Mismatches: 3, Errors: 1, Conflicts: 1}}, nil
	}
	r := command(t, run, "", "copy", "--json", "-q", "a", "b")
	var report struct {
		Counts   struct{ Errors, Mismatches int }
		Failures []struct{ Path, Destination, Stage, Error string }
		ExitCode int `json:"exit_code"`
	}
	if err := json.Unmarshal([]byte(r.stdout), &report); err != nil {
		t.Fatal(err)
	}
	if r.code != 3 || report.ExitCode != 3 || report.Counts.Mismatches != 3 || report.Counts.Errors != 1 || len(report.Failures) != 4 {
		t.Errorf("exit code %d, %s", r.code, r.stdout)
	}
	if f := report.Failures[0]; f.Path != "m0" || f.Destination != "b" || f.Stage != "verify" || f.Error != "what was read back differs" {
		t.Errorf("%+v", f)
	}
	if want := "sealift: 'm0' (to 'b'): verify: what was read back differs\n"; !strings.HasPrefix(r.stderr, want) {
		t.Errorf("stderr %q, want %q", r.stderr, want)
	}
	r = command(t, run, "", "copy", "a", "b")
	if want := "conflicts   1\nmismatches  3\nerrors      1\n"; !strings.Contains(r.stdout, want) {
		t.Errorf("the summary lacks %q:\n%s", want, r.stdout)
	}
}
