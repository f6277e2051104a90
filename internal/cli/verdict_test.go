package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/engine"
	"github.com/seed65876f4f/sealift/internal/event"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/hash"
	outcomes "github.com/seed65876f4f/sealift/internal/outcome"
	"github.com/seed65876f4f/sealift/internal/record"
)

func TestTheVerdictOfACopyHasCountsAndTheNextStep(t *testing.T) {
	lost := errors.New("input/output error")
	at := func(path string, present int64) engine.TargetSummary {
		return engine.TargetSummary{DestinationCounts: engine.DestinationCounts{Present: present}, Path: path}
	}
	for want, c := range map[string]struct {
		o                engine.Options
		s                engine.Summary
		errs, mismatches int64
		result           outcome
	}{
		"complete: 158 files at 'a'": {
			s: engine.Summary{Total: 158, Targets: []engine.TargetSummary{at("a", 158)}},
		},
		"complete: 1 file at 2 destinations": {
			s: engine.Summary{Total: 1, Targets: []engine.TargetSummary{at("a", 1), at("b", 1)}},
		},
		"complete: 2 files at 'a', verified": {
			o: engine.Options{Verify: engine.VerifyDest},
			s: engine.Summary{Total: 2, Targets: []engine.TargetSummary{{DestinationCounts: engine.DestinationCounts{Present: 2, Verified: 2}, Path: "a"}}},
		},
		"complete: 2 files at 'a', verified through the cache": {
			o: engine.Options{Verify: engine.VerifyFull},
			s: engine.Summary{Total: 2, Targets: []engine.TargetSummary{{DestinationCounts: engine.DestinationCounts{Present: 2, Verified: 2, Cached: 1}, Path: "a"}}},
		},
		"NOT COMPLETE: 143 of 158 files missing or not checked at 'b'; reconnect 'b', check that it is mounted, then run the same command again": {
			s:    engine.Summary{Total: 158, Targets: []engine.TargetSummary{{DestinationCounts: engine.DestinationCounts{Present: 15}, Path: "b", Lost: lost}}, Causes: outcomes.Causes{{Name: outcomes.Lost, Where: "b"}}},
			errs: 1, result: outcome{failed: true},
		},
		"NOT COMPLETE: 'a' is complete, 143 of 158 files missing at 'b'; reconnect 'b', check that it is mounted, then run the same command again": {
			s:    engine.Summary{Total: 158, Targets: []engine.TargetSummary{at("a", 158), {DestinationCounts: engine.DestinationCounts{Present: 15}, Path: "b", Created: true, Lost: lost}}, Causes: outcomes.Causes{{Name: outcomes.Lost, Where: "b"}}},
			errs: 1, result: outcome{failed: true},
		},
		"NOT COMPLETE: 1 of 1,580 files missing at 'a', 1 of 1,580 files missing at 'b'; run the same command again": {
			s:    engine.Summary{Total: 1580, Targets: []engine.TargetSummary{at("a", 1579), at("b", 1579)}},
			errs: 1, result: outcome{failed: true},
		},
		"NOT COMPLETE: only 15 files at 'a', stopped by SIGINT; run the same command again": {
			s: engine.Summary{Total: -1, Targets: []engine.TargetSummary{at("a", 15)}}, result: outcome{signal: os.Interrupt},
		},
		"NOT COMPLETE: 'a' was dropped; reconnect 'a', check that it is mounted, then run the same command again": {
			s:    engine.Summary{Total: 5, Targets: []engine.TargetSummary{{DestinationCounts: engine.DestinationCounts{Present: 5}, Path: "a", Lost: lost}}, Causes: outcomes.Causes{{Name: outcomes.Lost, Where: "a"}}},
			errs: 1, result: outcome{failed: true},
		},
		"NOT COMPLETE: 1 mismatch, 2 errors; run the same command again": {
			s:    engine.Summary{Total: 5, Targets: []engine.TargetSummary{at("a", 5)}},
			errs: 2, mismatches: 1, result: outcome{failed: true, mismatched: true},
		},
		"NOT COMPLETE: 1 of 5 files missing at 'a'; restore the files that do not match (or add --source-manifest=ignore), then run the same command again": {
			s:          engine.Summary{Total: 5, Targets: []engine.TargetSummary{at("a", 4)}, Causes: outcomes.Causes{{Name: outcomes.Changed}}},
			mismatches: 1, result: outcome{mismatched: true},
		},
		"NOT COMPLETE: 2 conflicts left alone; see the hint after each conflict": {
			s:      engine.Summary{Totals: engine.Totals{Conflicts: 2}, Total: 5, Targets: []engine.TargetSummary{{DestinationCounts: engine.DestinationCounts{Present: 3}, Path: "a", Left: 2}}},
			result: outcome{conflicts: true},
		},
		"NOT COMPLETE: see the messages above": {
			s:      engine.Summary{Total: 5, Targets: []engine.TargetSummary{at("a", 5)}},
			result: outcome{failed: true},
		},
		"dry run: nothing was written": {
			s: engine.Summary{DryRun: true, Total: 5, Targets: []engine.TargetSummary{at("a", 0)}},
		},
		"dry run: nothing was written, and the copy would not be complete: 1 conflict left alone": {
			s:      engine.Summary{Totals: engine.Totals{Conflicts: 1}, DryRun: true, Total: 5, Targets: []engine.TargetSummary{at("a", 0)}},
			result: outcome{conflicts: true},
		},
	} {
		v := copyVerdict(&c.o, &c.s, c.errs, c.mismatches, c.result, sameCommand)
		v.close(c.result, func(string) whereJSON { return whereJSON{} })
		require.Equal(t, want, v.text())
	}
}

func TestTheSummaryOfASingleFileHasItsOwnDigest(t *testing.T) {
	single := func(_ context.Context, o *engine.Options, _ *counters.Set) (*engine.Summary, error) {
		o.Hashes = []hash.Algorithm{hash.SHA256, hash.MD5}
		return &engine.Summary{Totals: engine.Totals{Files: 1},
			Total: 1,
			Targets: []engine.TargetSummary{{
				Path: "b", DestinationCounts: engine.DestinationCounts{Present: 1}, Digests: hash.Digests{{0xab, 0x01}, {0xcd}},
				Manifests: []record.Written{{Path: "b.sha256", Lines: 1, SHA256: "0f"}},
			}},
		}, nil
	}
	r := command(t, single, "", "copy", "a", "b")
	require.Equal(t, "complete: 1 file at 'b'\ncopied      1 file\nsize        0 B in 0 ms\n"+
		"sha256      ab01\nmd5         cd\nmanifest    'b.sha256', 1 line\n", r.stdout)
}

// The log and the JSON output have every failure. The screen has ten of each kind.
func TestEqualFailuresAreGroupedAfterTheTenth(t *testing.T) {
	many := func(_ context.Context, o *engine.Options, _ *counters.Set) (*engine.Summary, error) {
		for i := range 12 {
			for _, target := range []string{"b", "c"} {
				if target == "c" && i >= 10 {
					break
				}
				o.Report(event.Event{Kind: event.Failed, Err: &failure.FileError{
					Path: fmt.Sprint("f", i), Target: target, Stage: failure.StageWrite, Err: errors.New("input/output\u202e error"),
				}})
			}
		}
		for i := range 1011 {
			o.Report(event.Event{Kind: event.Conflict, Path: fmt.Sprint("g", i), Target: "b", Err: errors.New("newer")})
		}
		return &engine.Summary{Totals: engine.Totals{Errors: 22, Conflicts: 1011}}, nil
	}
	log := filepath.Join(t.TempDir(), "log")
	r := command(t, many, "", "copy", "--log-file", log, "--json", "a", "b", "-o", "c")
	lines := strings.Split(strings.TrimSpace(r.stderr), "\n")
	require.Len(t, lines, 10+10+10+2)
	require.Equal(t, "sealift: 'f0' (to 'b'): write: input/output\\u202e error", lines[0])
	require.Equal(t, []string{
		"sealift: 1,001 more (to 'b'): left alone: newer (no policy replaces it; move it away) (--log-file lists all)",
		"sealift: 2 more (to 'b'): write: input/output\\u202e error (--log-file lists all)",
	}, lines[30:])
	require.Contains(t, r.stdout, `"path":"f11"`)
	require.Contains(t, r.stdout, `"path":"g1010"`)
	text, err := os.ReadFile(log)
	require.NoError(t, err)
	require.Equal(t, 22, strings.Count(string(text), "event=failed"))
	require.Equal(t, 1011, strings.Count(string(text), "event=conflict"))
}

// Kinds of failures beyond those that are counted are printed.
func TestFailuresOfManyKindsArePrinted(t *testing.T) {
	many := func(_ context.Context, o *engine.Options, _ *counters.Set) (*engine.Summary, error) {
		for i := range maxMessages + 50 {
			o.Report(event.Event{Kind: event.Failed, Err: &failure.FileError{Path: "f", Err: fmt.Errorf("cause %d", i)}})
		}
		return &engine.Summary{Totals: engine.Totals{Errors: maxMessages + 50}}, nil
	}
	r := command(t, many, "", "copy", "a", "b")
	require.Equal(t, maxMessages+50, strings.Count(r.stderr, "\n"))
}
