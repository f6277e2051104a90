package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/engine"
	"github.com/seed65876f4f/sealift/internal/event"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	outcomes "github.com/seed65876f4f/sealift/internal/outcome"
	"github.com/seed65876f4f/sealift/internal/record"
)

// eventful is a run with an event of every kind.
func eventful(_ context.Context, o *engine.Options, c *counters.Set) (*engine.Summary, error) {
	c.Bytes.Store(5)
	o.Report(event.Event{Kind: event.Copied, Path: "a b", Entry: fsys.Regular, Digests: hash.Digests{{1, 2}}, Action: "created", Bytes: 5})
	o.Report(event.Event{Kind: event.Copied, Path: "sub/\x1b[2J", Entry: fsys.Regular, Action: "replaced", Reason: "size \u202ediffers", Bytes: 7})
	o.Report(event.Event{Kind: event.Skipped, Path: "old", Action: "up to date"})
	o.Report(event.Event{Kind: event.Skipped, Path: "touched", Entry: fsys.Directory, Action: "metadata updated", Reason: "mode"})
	o.Report(event.Event{Kind: event.Warning, Target: "dst", Err: errors.New("no \u202eACLs here")})
	o.Report(event.Event{Kind: event.Conflict, Path: "newer", Target: "dst", Err: errors.New("the destination is newer"), Hint: "always"})
	o.Report(event.Event{Kind: event.Conflict, Path: "file", Target: "dst", Err: errors.New("a directory is in the way")})
	o.Report(event.Event{Kind: event.Failed, Path: "bad\xff", Err: &failure.FileError{Path: "bad\xff", Stage: failure.StageRead, Err: errors.New("input/output error")}})
	o.Report(event.Event{Kind: event.Failed, Path: "it's", Target: "dst", Err: &failure.FileError{Path: "it's", Target: "dst", Stage: failure.StageWrite, Err: errors.New("file too large")}})
	o.Report(event.Event{Kind: event.Mismatch, Path: "rotten", Err: &failure.FileError{Path: "rotten", Stage: failure.StageCheck, Err: errors.New("source does not match its manifest")}})
	o.Report(event.Event{Kind: event.DestinationLost, Path: "a b", Target: "dst2", Err: errors.New("no space left on device")})
	dst := engine.Counts{Created: 20_001, Replaced: 16, Updated: 2, UpToDate: 1232, Kept: 5}
	return &engine.Summary{
		Totals:       engine.Totals{Counts: dst, Files: 20_001, Directories: 1, Links: 12, HardLinks: 3, Specials: 1, Skipped: 1234, Conflicts: 2, Mismatches: 1, Errors: 3, Warnings: 1},
		Bytes:        27_123_456_789,
		Total:        21_239,
		Elapsed:      20500 * time.Millisecond,
		ResumedFiles: 1234,
		ResumedBytes: 5_601_000_000,
		Targets: []engine.TargetSummary{
			{DestinationCounts: engine.DestinationCounts{Counts: dst, Copied: engine.Copied{Files: 20_000, Bytes: 27_123_000_000, ResumedFiles: 1234, ResumedBytes: 5_601_000_000}, Present: 21_235, Verified: 20_000, Cached: 12, Conflicts: 2, Failures: 1}, Path: "dst", Left: 1, Manifests: []record.Written{{Path: "dst/SHA256SUMS", Algorithm: "sha256", Lines: 20_001, SHA256: strings.Repeat("0f", 32)}}},
			{DestinationCounts: engine.DestinationCounts{Present: 1232, Failures: 1}, Path: "dst2", Created: true, Lost: errors.New("no space left on device"), PartialFiles: 2, PartialBytes: 80_000_000},
		},
		Causes: outcomes.Causes{{Name: outcomes.Lost, Where: "dst2"}},
		Shares: []engine.Share{{Place: "cpu", Share: 0.0731}, {Place: "destination", Target: "dst", Share: 0.9171}},
		Limit:  engine.Share{Place: "destination", Target: "dst", Share: 0.9171},
	}, nil
}

func TestMessagesOfCopyFollowTheFlags(t *testing.T) {
	const (
		warning  = "sealift: warning: 'dst': no \\u202eACLs here\n"
		failures = "sealift: 'newer' (to 'dst'): left alone: the destination is newer (--overwrite-policy=always would replace it)\n" +
			"sealift: 'file' (to 'dst'): left alone: a directory is in the way (no policy replaces it; move it away)\n" +
			"sealift: $'bad\\377': read: input/output error\n" +
			"sealift: $'it\\'s' (to 'dst'): write: file too large\n" +
			"sealift: 'rotten': check: source does not match its manifest\n" +
			"sealift: 'dst2': destination dropped at 'a b': no space left on device\n"
	)
	for name, c := range map[string]struct{ flags, want string }{
		"usual":   {"", warning + failures},
		"quiet":   {"-q", failures},
		"verbose": {"-v", warning + failures},
		"json":    {"--json", warning + failures},
	} {
		t.Run(name, func(t *testing.T) {
			r := command(t, eventful, "", append(strings.Fields("copy "+c.flags), "src", "dst", "-o", "dst2")...)
			if r.code != 3 {
				t.Errorf("exit code %d, want 3", r.code)
			}
			if r.stderr != c.want {
				t.Errorf("stderr\n got %s\nwant %s", r.stderr, c.want)
			}
		})
	}
}

// The listing is in path order. Only -vv lists entries that did not change.
func TestListingOfCopy(t *testing.T) {
	const changes = "created 'a b'\nreplaced $'sub/\\x1b[2J': size \\u202ediffers\nmetadata updated 'touched': mode\n"
	for flags, want := range map[string]string{
		"-v":    changes,
		"-n -v": "would create 'a b'\nwould replace $'sub/\\x1b[2J': size \\u202ediffers\nwould update metadata of 'touched': mode\n",
		"-vv": "created 'a b'\nfailed $'bad\\377'\nconflict 'file' (in 'dst'): a directory is in the way\nfailed $'it\\'s' (in 'dst')\n" +
			"conflict 'newer' (in 'dst'): the destination is newer\nup to date 'old'\nfailed 'rotten'\n" +
			"replaced $'sub/\\x1b[2J': size \\u202ediffers\nmetadata updated 'touched': mode\n",
	} {
		r := command(t, eventful, "", append(strings.Fields("copy "+flags), "src", "dst", "-o", "dst2")...)
		if r.code != 3 || !strings.HasPrefix(r.stdout, want) || strings.Count(r.stdout, "\nupdated") > 1 {
			t.Errorf("%s: exit code %d\n got %s\nwant %s", flags, r.code, r.stdout, want)
		}
		if rest := strings.TrimPrefix(r.stdout, want); !strings.HasPrefix(rest, "NOT COMPLETE") && !strings.HasPrefix(rest, "dry run") {
			t.Errorf("%s: the summary does not follow: %s", flags, rest)
		}
	}
	r := command(t, eventful, "", "copy", "-v", "--json", "src", "dst", "-o", "dst2")
	if !json.Valid([]byte(r.stdout)) || !strings.HasSuffix(r.stderr, changes) {
		t.Errorf("with --json: stdout %s, stderr %s", r.stdout, r.stderr)
	}
}

const goldenSummary = `NOT COMPLETE: 3 of 21,239 files missing at 'dst', 20,007 of 21,239 files missing at 'dst2', 2 conflicts left alone; reconnect 'dst2', check that it is mounted, then run the same command again
copied      20,001 files, 1 directory, 12 symbolic links, 3 hard links, 1 special file
size        27.1 GB in 20.5 s, 1.32 GB/s
limited by  the destination 'dst', 92 % of the time
continued   1,234 files, 5.60 GB that an interrupted copy had done
conflicts   2
mismatches  1
warnings    1
errors      3

to          'dst'
entries     20,001 created, 16 replaced, 2 metadata updated, 1,232 up to date, 5 kept
written     27.1 GB
manifest    'dst/SHA256SUMS', 20,001 lines
its sha256  0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f

to          'dst2'
dropped     no space left on device
unfinished  2 files, 80.0 MB kept for the next run
`

func TestSummaryOfCopy(t *testing.T) {
	if r := command(t, eventful, "", "copy", "src", "dst"); r.stdout != goldenSummary {
		t.Errorf("got\n%swant\n%s", r.stdout, goldenSummary)
	}
	if r := command(t, eventful, "", "copy", "-q", "src", "dst"); r.stdout != "" {
		t.Errorf("quiet: %s", r.stdout)
	}
	dry := func(context.Context, *engine.Options, *counters.Set) (*engine.Summary, error) {
		return &engine.Summary{Totals: engine.Totals{Files: 1}, DryRun: true, Total: 1, Bytes: 731, Elapsed: time.Second}, nil
	}
	if r := command(t, dry, "", "copy", "-n", "src", "dst"); r.stdout != "dry run: nothing was written\nwould copy  1 file\nsize        731 B\n" {
		t.Errorf("dry run: %q", r.stdout)
	}
	idle := func(context.Context, *engine.Options, *counters.Set) (*engine.Summary, error) {
		return &engine.Summary{Elapsed: 2 * time.Millisecond, Targets: []engine.TargetSummary{{Path: "dst"}}}, nil
	}
	if r := command(t, idle, "", "copy", "src", "dst"); r.stdout != "complete: 0 files at 'dst'\ncopied      0 files\nsize        0 B in 2 ms\n" {
		t.Errorf("nothing done: %q", r.stdout)
	}
}

// Resumed bytes may come without files, and resumed files without bytes.
func TestSummaryShowsWhatWasResumed(t *testing.T) {
	for _, c := range []struct {
		files, bytes int64
		want         string
	}{
		{1, 731, "continued   1 file, 731 B that an interrupted copy had done\n"},
		{0, 5_600_000_000, "continued   5.60 GB that an interrupted copy had done\n"},
		{2, 0, "continued   2 files that an interrupted copy had done\n"},
		{0, 0, ""},
	} {
		resumes := func(context.Context, *engine.Options, *counters.Set) (*engine.Summary, error) {
			return &engine.Summary{ResumedFiles: c.files, ResumedBytes: c.bytes, Elapsed: 2 * time.Millisecond, Targets: []engine.TargetSummary{{Path: "dst"}}}, nil
		}
		r := command(t, resumes, "", "copy", "src", "dst")
		if want := "complete: 0 files at 'dst'\ncopied      0 files\nsize        0 B in 2 ms\n" + c.want; r.stdout != want {
			t.Errorf("got\n%swant\n%s", r.stdout, want)
		}
		r = command(t, resumes, "", "copy", "--json", "src", "dst")
		if want := fmt.Sprintf(`,"resumed_files":%d,"resumed_bytes":%d,`, c.files, c.bytes); !strings.Contains(r.stdout, want) {
			t.Errorf("%s lacks %s", r.stdout, want)
		}
	}
}

func TestCountsAndDurationsAreWrittenForPeople(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 123456: "123,456", 1234567: "1,234,567", -1234: "-1,234", -123: "-123"} {
		if got := grouped(n); got != want {
			t.Errorf("grouped(%d) = %s, want %s", n, got, want)
		}
	}
	for d, want := range map[time.Duration]string{
		0: "0 ms", 999 * time.Millisecond: "999 ms", 999600 * time.Microsecond: "1.00 s", 1234 * time.Millisecond: "1.23 s",
		20500 * time.Millisecond: "20.5 s", 59940 * time.Millisecond: "59.9 s", 59960 * time.Millisecond: "1:00", 3723 * time.Second: "1:02:03",
	} {
		if got := duration(d); got != want {
			t.Errorf("duration(%v) = %s, want %s", d, got, want)
		}
	}
}

func TestAStoppedDryRunHasNothingToFinish(t *testing.T) {
	stopped := func(context.Context, *engine.Options, *counters.Set) (*engine.Summary, error) {
		return &engine.Summary{DryRun: true}, Interrupt{os.Interrupt}
	}
	if r := command(t, stopped, "", "copy", "-n", "a", "b"); r.stderr != "sealift: stopped by SIGINT\n" {
		t.Errorf("stderr %q", r.stderr)
	}
}

func TestAnInterruptedCopyPrintsItsSummary(t *testing.T) {
	for s, code := range map[os.Signal]int{syscall.SIGHUP: 129, os.Interrupt: 130, syscall.SIGTERM: 143} {
		stopped := func(context.Context, *engine.Options, *counters.Set) (*engine.Summary, error) {
			return &engine.Summary{Totals: engine.Totals{Files: 3, Errors: 1, Conflicts: 1}, Total: -1, Targets: []engine.TargetSummary{{DestinationCounts: engine.DestinationCounts{Present: 3}, Path: "b"}}}, Interrupt{s}
		}
		r := command(t, stopped, "", "copy", "a", "b")
		if r.code != code || r.stderr != "sealift: "+(Interrupt{s}).Error()+"\n" {
			t.Errorf("%v: exit code %d, stderr %q", s, r.code, r.stderr)
		}
		if !strings.HasPrefix(r.stdout, "NOT COMPLETE: only 3 files at 'b', 1 conflict left alone, s"+(Interrupt{s}).Error()[1:]+"; run the same command again\ncopied      3 files\n") {
			t.Errorf("%v: stdout %q", s, r.stdout)
		}
		r = command(t, stopped, "", "copy", "--json", "a", "b")
		var report struct {
			ExitCode int `json:"exit_code"`
		}
		if err := json.Unmarshal([]byte(r.stdout), &report); err != nil || report.ExitCode != code {
			t.Errorf("%v: %v, %s", s, err, r.stdout)
		}
	}
}

func TestTheContextReachesTheEngine(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(Interrupt{syscall.SIGTERM})
	waits := func(ctx context.Context, _ *engine.Options, _ *counters.Set) (*engine.Summary, error) {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	var stdout, stderr bytes.Buffer
	code := execute(ctx, newRootCmd(newCopyCmd(waits)), []string{"copy", "a", "b"}, strings.NewReader(""), &stdout, &stderr)
	if code != 143 {
		t.Errorf("exit code %d: %s", code, &stderr)
	}
}

func TestExitCodesOfCopy(t *testing.T) {
	for _, c := range []struct {
		summary *engine.Summary
		err     error
		code    int
		stderr  string
	}{
		{&engine.Summary{Totals: engine.Totals{Conflicts: 2}}, nil, 4, ""},
		{&engine.Summary{Totals: engine.Totals{Conflicts: 2, Errors: 1}}, nil, 1, ""},
		{&engine.Summary{Totals: engine.Totals{Warnings: 2}}, nil, 0, ""},
		{&engine.Summary{Totals: engine.Totals{Mismatches: 1, Errors: 1, Conflicts: 1}}, nil, 3, ""},
		{nil, errors.New("disk on\nfire"), 1, "sealift: disk on\\x0afire\n"},
		{&engine.Summary{}, context.Canceled, 1, "sealift: stopped\n"},
	} {
		run := func(context.Context, *engine.Options, *counters.Set) (*engine.Summary, error) {
			return c.summary, c.err
		}
		if r := command(t, run, "", "copy", "a", "b"); r.code != c.code || r.stderr != c.stderr {
			t.Errorf("%+v, %v: exit code %d, stderr %q; want %d, %q", c.summary, c.err, r.code, r.stderr, c.code, c.stderr)
		}
	}
}

func TestTheLogHasEveryEventAndTheEnd(t *testing.T) {
	name := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(name, []byte("earlier\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	command(t, eventful, "", "copy", "-v", "--log-file", name, "src", "dst", "-o", "dst2")
	log, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(log), "\n"), "\n")
	want := []string{
		"earlier",
		`level=INFO event=start source=src dry_run=false`,
		`level=INFO event=destination destination=dst`,
		`level=INFO event=destination destination=dst2`,
		`level=INFO event=created path="a b" bytes=5 sha256=0102`,
		`level=INFO event=replaced path=$'sub/\x1b[2J' bytes=7 reason="size \\u202ediffers"`,
		`level=INFO event=up_to_date path=old bytes=0`,
		`level=INFO event=metadata_updated path=touched bytes=0 reason=mode`,
		`level=WARN event=warning destination=dst error="no \\u202eACLs here"`,
		`level=WARN event=conflict path=newer destination=dst error="the destination is newer" hint="--overwrite-policy=always would replace it"`,
		`level=WARN event=conflict path=file destination=dst error="a directory is in the way" hint="no policy replaces it; move it away"`,
		`level=ERROR event=failed path=$'bad\377' stage=read error="input/output error"`,
		`level=ERROR event=failed path=it's destination=dst stage=write error="file too large"`,
		`level=ERROR event=mismatch path=rotten stage=check error="source does not match its manifest"`,
		`level=ERROR event=destination_dropped path="a b" destination=dst2 error="no space left on device"`,
		`level=INFO event=limit destination=dst place=destination share=0.917`,
		`level=INFO event=finish exit_code=3 verdict=not_complete files=20001 bytes=27123456789 skipped=1234 conflicts=2 mismatches=1 errors=3 elapsed=20.5s`,
	}
	if len(lines) != len(want) {
		t.Fatalf("%d lines, want %d:\n%s", len(lines), len(want), log)
	}
	for i, line := range lines {
		if _, rest, ok := strings.Cut(line, " "); ok && strings.HasPrefix(line, "time=") {
			line = rest
		}
		if line != want[i] {
			t.Errorf("line %d\n got %s\nwant %s", i, line, want[i])
		}
	}
}

func TestAFullLogFailsTheRun(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("there is no /dev/full here")
	}
	r := command(t, succeeds, "", "copy", "--log-file=/dev/full", "a", "b")
	if r.code != 1 || !strings.HasPrefix(r.stderr, "sealift: --log-file: '/dev/full': no space left on device\n") {
		t.Errorf("exit code %d, stderr %q", r.code, r.stderr)
	}
}

func TestProgressOfCopyFollowsTheFlags(t *testing.T) {
	slow := func(_ context.Context, _ *engine.Options, c *counters.Set) (*engine.Summary, error) {
		c.Bytes.Store(5e6)
		time.Sleep(600 * time.Millisecond)
		return &engine.Summary{}, nil
	}
	for flags, want := range map[string]func(string) bool{
		"":                   func(s string) bool { return s == "" }, // plain mode; the run is too short for a line
		"--progress=none":    func(s string) bool { return s == "" },
		"-q":                 func(s string) bool { return s == "" },
		"--progress=bar":     func(s string) bool { return strings.Contains(s, "5.00 MB") && strings.HasSuffix(s, "\r\x1b[J") },
		"--progress=json":    func(s string) bool { return json.Valid([]byte(s)) && strings.Contains(s, `"bytes":5000000`) },
		"--progress=json -q": func(s string) bool { return json.Valid([]byte(s)) },
	} {
		r := command(t, slow, "", append(strings.Fields("copy "+flags), "a", "b")...)
		if r.code != 0 || !want(r.stderr) {
			t.Errorf("%q: exit code %d, stderr %q", flags, r.code, r.stderr)
		}
	}
}

func TestCopyCountsTotalsOnlyForProgress(t *testing.T) {
	for flags, want := range map[string]bool{"": true, "--progress=bar": true, "--progress=none": false, "-q": false} {
		var counted bool
		look := func(_ context.Context, _ *engine.Options, c *counters.Set) (*engine.Summary, error) {
			counted = c.CountTotals
			return &engine.Summary{}, nil
		}
		command(t, look, "", append(strings.Fields("copy "+flags), "a", "b")...)
		if counted != want {
			t.Errorf("%q: CountTotals %v, want %v", flags, counted, want)
		}
	}
}
