package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/verify"
)

// eventfulCheck is a verification with a result of every kind.
func eventfulCheck(_ context.Context, o *verify.Options, _ *counters.Set) (*verify.Summary, error) {
	dir := o.Paths[0]
	report := func(v verify.Verdict, path string, err error) {
		o.Report(verify.Result{Verdict: v, Dir: dir, Manifest: dir + "/SHA256SUMS", Path: path, Algorithm: hash.SHA256, Err: err})
	}
	match := func(path string) {
		if o.Verbose {
			report(verify.Match, path, nil)
		}
	}
	report(verify.Warning, "SHA256SUMS", errors.New("2 lines are \u202eimproperly formatted"))
	match("a b")
	report(verify.Mismatch, "bad\xff", nil)
	report(verify.Missing, "../\x1b[2J", nil)
	match("c")
	report(verify.Unreadable, "it's", errors.New("permission denied"))
	report(verify.Failure, "", errors.New("the directory was moved"))
	report(verify.Incomplete, "SEALIFT-INCOMPLETE-\x1b.txt", errors.New("run \u202eagain"))
	report(verify.Unlisted, "new", nil)
	return &verify.Summary{
		Counts:  verify.Counts{Files: 20_001, Matches: 20_000, SizeOnly: 7, Mismatches: 1, Missing: 1, Errors: 2, Unlisted: 1, Incomplete: 1, Malformed: 2, LeftOut: 1, Warnings: 1, Cached: 5},
		Bytes:   27_123_456_789,
		Elapsed: 20500 * time.Millisecond,
		Manifests: []verify.ManifestSummary{
			{Path: dir + "/SHA256SUMS", Dir: dir, Algorithm: "sha256", Lines: 20_003},
			{Path: dir + "/x\xff.sha256", Dir: dir, Lines: 1},
		},
	}, nil
}

const (
	checkWarning = "sealift: warning: 'SHA256SUMS': 2 lines are \\u202eimproperly formatted\n"
	checkTrouble = "sealift: $'it\\'s': verify: permission denied\n" + "sealift: 'dir': the directory was moved\n" + checkSign
	checkSign    = "sealift: $'SEALIFT-INCOMPLETE-\\x1b.txt': run \\u202eagain\n"
	checkMarker  = "$'SEALIFT-INCOMPLETE-\\x1b.txt': INCOMPLETE\n"
	checkLines   = "$'bad\\377': FAILED\n" + "$'../\\x1b[2J': MISSING\n" + "it's: FAILED open or read\n" + checkMarker + "new: UNLISTED\n"
	checkAll     = "a b: OK\n" + "$'bad\\377': FAILED\n" + "$'../\\x1b[2J': MISSING\n" + "c: OK\n" + "it's: FAILED open or read\n" + checkMarker + "new: UNLISTED\n"
	checkSummary = `NOT VERIFIED: 1 mismatch, 1 line of missing files, a copy is incomplete, 2 errors; repair the files from another copy with sealift repair DIR --from OTHER
checked     20,001 files
size        27.1 GB in 20.5 s, 1.32 GB/s
matches     20,000
size only   7 files without a digest in the manifest
mismatches  1
missing     1
errors      2
unlisted    1
incomplete  1
left out    1 line, by filters
malformed   2 lines
warnings    1
read from   the device, but 5 files perhaps from memory (--cache drop reads the device)
manifest    'dir/SHA256SUMS', 20,003 lines
manifest    $'dir/x\377.sha256', 1 line
`
)

func TestVerdictsAndMessages(t *testing.T) {
	for flags, want := range map[string]struct{ stdout, stderr string }{
		"":             {checkLines + checkSummary, checkWarning + checkTrouble},
		"-v":           {checkAll + checkSummary, checkWarning + checkTrouble},
		"--no-summary": {checkLines, checkWarning + checkTrouble},
		"--silent":     {"", checkWarning + checkTrouble},
		"-q":           {checkLines, checkTrouble},
	} {
		r := verifyCommand(t, eventfulCheck, "", append(strings.Fields(flags), "dir")...)
		if r.code != 3 {
			t.Errorf("%q: exit code %d, want 3", flags, r.code)
		}
		if r.stdout != want.stdout {
			t.Errorf("%q: stdout\n got %s\nwant %s", flags, r.stdout, want.stdout)
		}
		if r.stderr != want.stderr {
			t.Errorf("%q: stderr\n got %s\nwant %s", flags, r.stderr, want.stderr)
		}
	}
}

// With --json, the results are on standard error.
func TestVerdictsGoToStandardErrorWithJSON(t *testing.T) {
	const failures = "sealift: $'bad\\377': FAILED\n" + "sealift: $'../\\x1b[2J': MISSING\n"
	for flags, want := range map[string]string{
		"":   checkWarning + failures + checkTrouble + "sealift: 'new': UNLISTED\n",
		"-v": checkWarning + "'a b': OK\n" + failures + "'c': OK\n" + checkTrouble + "sealift: 'new': UNLISTED\n",
	} {
		if r := verifyCommand(t, eventfulCheck, "", append(strings.Fields("--json "+flags), "dir")...); r.stderr != want {
			t.Errorf("%q: stderr\n got %s\nwant %s", flags, r.stderr, want)
		}
	}
}

// Names begin with their directory if there are several. ".." in a hostile path stays visible.
func TestNamesBeginWithTheDirectoryIfThereAreSeveral(t *testing.T) {
	run := func(_ context.Context, o *verify.Options, _ *counters.Set) (*verify.Summary, error) {
		for _, dir := range o.Paths {
			o.Report(verify.Result{Verdict: verify.Mismatch, Dir: dir, Path: "a/../b"})
		}
		o.Report(verify.Result{Verdict: verify.Unreadable, Dir: o.Paths[0], Path: "c", Err: errors.New("no")})
		o.Report(verify.Result{Verdict: verify.Warning, Dir: o.Paths[0], Path: "SUMS", Err: errors.New("odd")})
		o.Report(verify.Result{Verdict: verify.Failure, Dir: o.Paths[1], Err: errors.New("gone")})
		o.Report(verify.Result{Verdict: verify.Warning, Err: errors.New("slow")})
		return &verify.Summary{}, nil
	}
	r := verifyCommand(t, run, "", "--no-summary", "x", "y/", "/")
	if want := "x/a/../b: FAILED\ny/a/../b: FAILED\n/a/../b: FAILED\nx/c: FAILED open or read\n"; r.stdout != want {
		t.Errorf("stdout\n got %s\nwant %s", r.stdout, want)
	}
	if want := "sealift: 'x/c': verify: no\nsealift: warning: 'x/SUMS': odd\nsealift: 'y/': gone\nsealift: warning: slow\n"; r.stderr != want {
		t.Errorf("stderr\n got %s\nwant %s", r.stderr, want)
	}
}

// If standard output and standard error are one file, a message is after the lines before it.
func TestLinesAndMessagesKeepTheirOrder(t *testing.T) {
	var both bytes.Buffer
	root := rootThat(runs{verify: eventfulCheck})
	execute(t.Context(), root, []string{"verify", "--no-summary", "-v", "dir"}, strings.NewReader(""), &both, &both)
	want := checkWarning + "a b: OK\n" + "$'bad\\377': FAILED\n" + "$'../\\x1b[2J': MISSING\n" + "c: OK\n" +
		"sealift: $'it\\'s': verify: permission denied\n" + "it's: FAILED open or read\n" +
		"sealift: 'dir': the directory was moved\n" + checkSign + checkMarker + "new: UNLISTED\n"
	if both.String() != want {
		t.Errorf("got\n%swant\n%s", &both, want)
	}
}

// A file that two manifests list is one file and two lines.
func TestVerdictOfSeveralManifestsCountsLines(t *testing.T) {
	lists := []verify.ManifestSummary{{Path: "MD5SUMS", Lines: 3}, {Path: "SHA256SUMS", Lines: 3}}
	for _, c := range []struct {
		s    verify.Summary
		want string
	}{
		{verify.Summary{Counts: verify.Counts{Files: 3, Matches: 6}, Manifests: lists}, "verified: 6 lines of 2 manifests match\n"},
		{verify.Summary{Counts: verify.Counts{Files: 2, Matches: 4, Missing: 2}, Manifests: lists}, "NOT VERIFIED: 2 lines of missing files; repair the files from another copy with sealift repair DIR --from OTHER\n"},
		{verify.Summary{Counts: verify.Counts{Files: 2, Matches: 2, Missing: 1}, Manifests: lists[:1]}, "NOT VERIFIED: 1 file missing; repair the files from another copy with sealift repair DIR --from OTHER\n"},
		{verify.Summary{Counts: verify.Counts{Files: 2, Matches: 2}, Manifests: []verify.ManifestSummary{{Dir: "a", Lines: 1}, {Dir: "b", Lines: 1}}}, "verified: 2 files match\n"},
	} {
		if r := verifyCommand(t, ends[verify.Options](&c.s, nil), ""); !strings.HasPrefix(r.stdout, c.want) {
			t.Errorf("%q does not begin with %q", r.stdout, c.want)
		}
	}
}

func TestSummaryOfVerifyHasNoEmptyRows(t *testing.T) {
	s := &verify.Summary{Counts: verify.Counts{Files: 3, Matches: 3, Cached: 2}, Bytes: 731, Elapsed: time.Second}
	const plain = "verified: 3 files match\nchecked     3 files\nsize        731 B in 1.00 s, 731 B/s\nmatches     3\n"
	const cached = plain + "read from   the device, but 2 files perhaps from memory"
	const hint = " (--cache drop reads the device)\n"
	for flags, want := range map[string]string{"": cached + hint, "--cache=auto": cached + hint, "--cache=drop": cached + "\n", "--cache=direct": cached + "\n"} {
		r := verifyCommand(t, ends[verify.Options](s, nil), "", strings.Fields(flags)...)
		if r.code != 0 || r.stdout != want || r.stderr != "" {
			t.Errorf("%q: exit code %d, stderr %q, stdout\n%swant\n%s", flags, r.code, r.stderr, r.stdout, want)
		}
	}
	for i := range 5000 {
		s.Manifests = append(s.Manifests, verify.ManifestSummary{Path: fmt.Sprintf("%d.sha256", i), Lines: 1})
	}
	r := verifyCommand(t, ends[verify.Options](s, nil), "")
	if n := strings.Count(r.stdout, "\n"); n != 15 || !strings.HasSuffix(r.stdout, "manifest    '8.sha256', 1 line\nmanifests   4,991 more, 4,991 lines\n") {
		t.Errorf("%d lines:\n%s", n, r.stdout)
	}
}

func TestJSONOfVerifyHasEveryField(t *testing.T) {
	r := verifyCommand(t, eventfulCheck, "", "--json", "dir")
	const want = `{
  "schema": 1,
  "verdict": "not_verified",
  "causes": [
    {
      "cause": "differs",
      "directory": "dir"
    },
    {
      "cause": "missing",
      "directory": "dir"
    },
    {
      "cause": "failed",
      "directory": "dir"
    },
    {
      "cause": "partial",
      "directory": "dir"
    }
  ],
  "next": "repair the files from another copy with sealift repair DIR --from OTHER",
  "counts": {
    "files": 20001,
    "matches": 20000,
    "size_only": 7,
    "mismatches": 1,
    "missing": 1,
    "errors": 2,
    "unlisted": 1,
    "incomplete": 1,
    "malformed": 2,
    "left_out": 1,
    "warnings": 1,
    "verified_through_cache": 5
  },
  "bytes": 27123456789,
  "seconds": 20.5,
  "rate": 1323095453,
  "manifests": [
    {
      "path": "dir/SHA256SUMS",
      "directory": "dir",
      "algorithm": "sha256",
      "lines": 20003
    },
    {
      "path": "dir/x\ufffd.sha256",
      "path_base64": "ZGlyL3j/LnNoYTI1Ng==",
      "directory": "dir",
      "algorithm": "",
      "lines": 1
    }
  ],
  "unlisted": [
    {
      "path": "new",
      "directory": "dir"
    }
  ],
  "failures": [
    {
      "path": "bad\ufffd",
      "path_base64": "YmFk/w==",
      "directory": "dir",
      "event": "mismatch",
      "stage": "verify",
      "error": "mismatch",
      "manifest": "dir/SHA256SUMS",
      "algorithm": "sha256"
    },
    {
      "path": "../\u001b[2J",
      "directory": "dir",
      "event": "missing",
      "stage": "verify",
      "error": "missing",
      "manifest": "dir/SHA256SUMS",
      "algorithm": "sha256"
    },
    {
      "path": "it's",
      "directory": "dir",
      "event": "failed",
      "stage": "verify",
      "error": "permission denied",
      "manifest": "dir/SHA256SUMS",
      "algorithm": "sha256"
    },
    {
      "path": ".",
      "directory": "dir",
      "event": "failed",
      "stage": "verify",
      "error": "the directory was moved",
      "manifest": "dir/SHA256SUMS",
      "algorithm": "sha256"
    },
    {
      "path": "SEALIFT-INCOMPLETE-\u001b.txt",
      "directory": "dir",
      "event": "incomplete",
      "stage": "verify",
      "error": "run \u202eagain",
      "manifest": "dir/SHA256SUMS",
      "algorithm": "sha256"
    }
  ],
  "warnings": [
    {
      "path": "SHA256SUMS",
      "directory": "dir",
      "error": "2 lines are \u202eimproperly formatted"
    }
  ],
  "exit_code": 3
}
`
	requireIndented(t, want, r.stdout)
	if strings.Count(r.stdout, "\n") != 1 || r.code != 3 {
		t.Errorf("exit code %d, stdout %q", r.code, r.stdout)
	}
	if r := verifyCommand(t, ends[verify.Options](&verify.Summary{}, nil), "", "--json"); strings.Contains(strings.ReplaceAll(r.stdout, `"next":null`, ""), "null") {
		t.Errorf("stdout %s", r.stdout)
	}
}

func TestExitCodesOfVerify(t *testing.T) {
	reports := func(s *verify.Summary, verdicts ...verify.Verdict) runVerify {
		return func(_ context.Context, o *verify.Options, _ *counters.Set) (*verify.Summary, error) {
			for _, v := range verdicts {
				o.Report(verify.Result{Verdict: v, Dir: ".", Path: "x", Err: errors.New("no")})
			}
			return s, nil
		}
	}
	some := &verify.Summary{Counts: verify.Counts{Files: 1}}
	for name, c := range map[string]struct {
		run  runVerify
		args []string
		code int
	}{
		"all well":             {reports(some, verify.Match), nil, 0},
		"mismatch":             {reports(some, verify.Mismatch), nil, 3},
		"missing":              {reports(some, verify.Missing), nil, 3},
		"unreadable":           {reports(some, verify.Unreadable), nil, 1},
		"failure":              {reports(some, verify.Failure), nil, 1},
		"warning":              {reports(some, verify.Warning), nil, 0},
		"unlisted":             {reports(some, verify.Unlisted), nil, 0},
		"unreadable, mismatch": {reports(some, verify.Unreadable, verify.Mismatch), nil, 3},
		"only in the summary":  {ends[verify.Options](&verify.Summary{Counts: verify.Counts{Missing: 1, Errors: 1}}, nil), nil, 3},
		"an error there":       {ends[verify.Options](&verify.Summary{Counts: verify.Counts{Errors: 1}}, nil), nil, 1},
		"nothing to check":     {ends[verify.Options, verify.Summary](nil, failure.Refuse("there is no manifest")), nil, 2},
		"interrupt":            {ends[verify.Options](&verify.Summary{Counts: verify.Counts{Mismatches: 1}}, Interrupt{os.Interrupt}), nil, 130},
		"SIGTERM":              {ends[verify.Options](&verify.Summary{}, Interrupt{syscall.SIGTERM}), nil, 143},
		"broken":               {ends[verify.Options, verify.Summary](nil, errors.New("broken")), nil, 1},
		"no line to check":     {ends[verify.Options](&verify.Summary{}, nil), nil, 0},
	} {
		for _, mode := range []string{"--no-summary", "--silent", "--json"} {
			if r := verifyCommand(t, c.run, "", append(c.args, mode)...); r.code != c.code {
				t.Errorf("%s, %s: exit code %d, want %d; stderr %s", name, mode, r.code, c.code, r.stderr)
			}
		}
	}
}

// Failures do not name the manifest if there is only one.
func TestJSONNamesTheManifestOnlyIfThereAreSeveral(t *testing.T) {
	run := func(_ context.Context, o *verify.Options, _ *counters.Set) (*verify.Summary, error) {
		s := &verify.Summary{}
		for _, dir := range o.Paths {
			o.Report(verify.Result{Verdict: verify.Mismatch, Dir: dir, Manifest: dir + "/MD5SUMS", Path: "a", Algorithm: hash.MD5})
			s.Manifests = append(s.Manifests, verify.ManifestSummary{Path: dir + "/MD5SUMS", Dir: dir})
		}
		s.Manifests = append(s.Manifests, verify.ManifestSummary{Path: "y/b.md5", Dir: "y"})
		return s, nil
	}
	r := verifyCommand(t, run, "", "--json", "x", "y")
	const want = `"failures":[{"path":"a","directory":"x","event":"mismatch","stage":"verify","error":"mismatch"},` +
		`{"path":"a","directory":"y","event":"mismatch","stage":"verify","error":"mismatch","manifest":"y/MD5SUMS","algorithm":"md5"}]`
	if !strings.Contains(r.stdout, want) {
		t.Errorf("stdout %s", r.stdout)
	}
}

func TestAnInterruptedVerifyPrintsItsSummary(t *testing.T) {
	stopped := func(_ context.Context, o *verify.Options, _ *counters.Set) (*verify.Summary, error) {
		o.Report(verify.Result{Verdict: verify.Mismatch, Dir: ".", Path: "x"})
		return &verify.Summary{Counts: verify.Counts{Files: 3, Matches: 2, Mismatches: 1}}, Interrupt{os.Interrupt}
	}
	r := verifyCommand(t, stopped, "")
	want := "x: FAILED\nNOT VERIFIED: 1 mismatch, stopped by SIGINT\nchecked     3 files\nsize        0 B in 0 ms\nmatches     2\nmismatches  1\nread from   the device\n"
	if r.code != 130 || r.stdout != want || r.stderr != "sealift: stopped by SIGINT\n" {
		t.Errorf("exit code %d, stderr %q, stdout\n%s", r.code, r.stderr, r.stdout)
	}
}

func TestVerifyWithoutAManifestIsARefusalInJSON(t *testing.T) {
	r := verifyCommand(t, ends[verify.Options, verify.Summary](nil, failure.Refuse("there is no manifest in '.'")), "", "--json")
	if want := `{"schema":1,"exit_code":2,"error":"there is no manifest in '.'"}` + "\n"; r.stdout != want || r.code != 2 {
		t.Errorf("exit code %d, stdout %q", r.code, r.stdout)
	}
	if want := "sealift: there is no manifest in '.'\n"; r.stderr != want {
		t.Errorf("stderr %q, want %q", r.stderr, want)
	}
}

// A write error of standard output ends the verification, and is reported once.
func TestAWriteErrorEndsVerify(t *testing.T) {
	endless := func(ctx context.Context, o *verify.Options, _ *counters.Set) (*verify.Summary, error) {
		s := &verify.Summary{}
		for deadline := time.Now().Add(10 * time.Second); ctx.Err() == nil; s.Files++ {
			if time.Now().After(deadline) {
				t.Error("it goes on and on")
				break
			}
			o.Report(verify.Result{Verdict: verify.Match, Dir: ".", Path: "x"})
		}
		return s, context.Cause(ctx)
	}
	r := verifyCommandTo(t, &fullDisk{free: 100}, endless, "", "-v")
	if want := "sealift: standard output: no space left on device\n"; r.code != 1 || r.stderr != want {
		t.Errorf("exit code %d, stderr %q, want %q", r.code, r.stderr, want)
	}
	mismatch := func(_ context.Context, o *verify.Options, _ *counters.Set) (*verify.Summary, error) {
		o.Report(verify.Result{Verdict: verify.Mismatch, Dir: ".", Path: "x"})
		return &verify.Summary{Counts: verify.Counts{Files: 1, Mismatches: 1}}, nil
	}
	if r := verifyCommandTo(t, &fullDisk{}, mismatch, ""); r.code != 3 || r.stderr != "sealift: standard output: no space left on device\n" {
		t.Errorf("exit code %d, stderr %q", r.code, r.stderr)
	}
	if r := verifyCommandTo(t, &fullDisk{free: 5}, ends[verify.Options](&verify.Summary{}, nil), "", "--json"); r.code != 1 {
		t.Errorf("JSON: exit code %d, stderr %q", r.code, r.stderr)
	}
}

func TestProgressOfVerifyFollowsTheFlags(t *testing.T) {
	slow := func(_ context.Context, o *verify.Options, c *counters.Set) (*verify.Summary, error) {
		c.Phase.Store(int32(counters.PhaseVerifying))
		c.Bytes.Store(5e6)
		time.Sleep(600 * time.Millisecond)
		o.Report(verify.Result{Verdict: verify.Mismatch, Dir: ".", Path: "x"})
		return &verify.Summary{}, nil
	}
	for flags, want := range map[string]func(string) bool{
		"":                         func(s string) bool { return s == "" }, // plain mode; the run is too short for a line
		"--silent":                 func(s string) bool { return s == "" },
		"--progress=none":          func(s string) bool { return s == "" },
		"--progress=bar":           func(s string) bool { return strings.Contains(s, "5.00 MB") && strings.HasSuffix(s, "\r\x1b[J") },
		"--silent --progress=json": func(s string) bool { return strings.Contains(s, `"phase":"verifying","bytes":5000000`) },
	} {
		r := verifyCommand(t, slow, "", strings.Fields(flags)...)
		if !want(r.stderr) {
			t.Errorf("%q: stderr %q", flags, r.stderr)
		}
	}
}

func TestVerifyCountsTotalsOnlyForProgress(t *testing.T) {
	for flags, want := range map[string]bool{"": true, "--progress=none": false, "--silent": false, "--silent --progress=plain": true} {
		var counted bool
		look := func(_ context.Context, _ *verify.Options, c *counters.Set) (*verify.Summary, error) {
			counted = c.CountTotals
			return &verify.Summary{}, nil
		}
		verifyCommand(t, look, "", strings.Fields(flags)...)
		if counted != want {
			t.Errorf("%q: CountTotals %v, want %v", flags, counted, want)
		}
	}
}
