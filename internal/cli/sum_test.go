package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/pipe"
	"github.com/seed65876f4f/sealift/internal/sum"
)

// eventfulSum writes two lines, or a manifest, and fails in between.
func eventfulSum(_ context.Context, o *sum.Options, _ *counters.Set) (*sum.Summary, error) {
	o.Report(sum.Event{Warning: true, Path: "d", Err: errors.New("\u202eodd")})
	o.Report(sum.Event{Path: "it's", Err: &failure.FileError{Path: "it's", Stage: failure.StageOpen, Err: errors.New("permission denied")}})
	s := &sum.Summary{Counts: sum.Counts{Files: 2, Errors: 1, Warnings: 1}, Bytes: 731, Elapsed: time.Second}
	if o.Manifest != "" {
		s.Manifest, s.Lines, s.Dropped, s.SHA256 = o.Manifest, 2, 1, strings.Repeat("0f", 32)
		return s, nil
	}
	_, err := io.WriteString(o.Out, "00  a\n00  b\n")
	return s, err
}

func TestLinesAndMessagesOfSum(t *testing.T) {
	const (
		warning = "sealift: warning: 'd': \\u202eodd\n"
		failed  = "sealift: $'it\\'s': open: permission denied\n"
		lines   = "00  a\n00  b\n"
		summary = "NOT COMPLETE: 1 error\nhashed      2 files\nsize        731 B in 1.00 s, 731 B/s\nwarnings    1\nerrors      1\n" +
			"manifest    'SUMS', 2 lines, 1 dropped (files that are gone or were replaced)\nits sha256  0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f\n"
	)
	for flags, want := range map[string]struct{ stdout, stderr string }{
		"":                   {lines, warning + failed},
		"-q":                 {lines, failed},
		"--manifest -":       {lines, warning + failed},
		"--manifest SUMS":    {summary, warning + failed},
		"--manifest SUMS -q": {"", failed},
	} {
		r := sumCommand(t, eventfulSum, "", strings.Fields(flags)...)
		if r.code != 1 || r.stdout != want.stdout || r.stderr != want.stderr {
			t.Errorf("%q: exit code %d\nstdout\n%swant\n%sstderr\n%swant\n%s", flags, r.code, r.stdout, want.stdout, r.stderr, want.stderr)
		}
	}
}

func TestExitCodesOfSum(t *testing.T) {
	for name, c := range map[string]struct {
		run    runSum
		code   int
		stderr string
	}{
		"all well": {ends[sum.Options](&sum.Summary{Counts: sum.Counts{Files: 1}}, nil), 0, ""},
		"warning":  {ends[sum.Options](&sum.Summary{Counts: sum.Counts{Warnings: 1}}, nil), 0, ""},
		"failed":   {ends[sum.Options](&sum.Summary{Counts: sum.Counts{Errors: 1}}, nil), 1, ""},
		"refused":  {ends[sum.Options, sum.Summary](nil, failure.Refuse("no")), 2, "sealift: no\n"},
		"broken":   {ends[sum.Options](&sum.Summary{}, errors.New("manifest 'x': no space left on device")), 1, "sealift: manifest 'x': no space left on device\n"},
		"stopped":  {ends[sum.Options](&sum.Summary{Counts: sum.Counts{Errors: 1}}, Interrupt{os.Interrupt}), 130, "sealift: stopped by SIGINT\n"},
	} {
		if r := sumCommand(t, c.run, ""); r.code != c.code || r.stderr != c.stderr || r.stdout != "" {
			t.Errorf("%s: exit code %d, stderr %q, stdout %q; want %d, %q", name, r.code, r.stderr, r.stdout, c.code, c.stderr)
		}
	}
	r := sumCommand(t, ends[sum.Options](&sum.Summary{Counts: sum.Counts{Files: 1}}, Interrupt{os.Interrupt}), "", "--manifest=x")
	if want := "NOT COMPLETE: stopped by SIGINT\nhashed      1 file\nsize        0 B in 0 ms\n"; r.stdout != want {
		t.Errorf("stdout %q, want %q", r.stdout, want)
	}
}

// Lines for a terminal are quoted, however they are split into writes.
func TestLinesForATerminalAreQuoted(t *testing.T) {
	const text = "00  a\n00  \x1b[31m\xff\n\\00  b\\n\u202e\xc3\xa9\n"
	const want = "00  a\n00  \\x1b[31m\\xff\n\\00  b\\n\\u202e\u00e9\n"
	for size := 1; size <= len(text); size++ {
		var sb strings.Builder
		q := &quotedLines{w: &sb}
		for part := range slices.Chunk([]byte(text), size) {
			if n, err := q.Write(part); n != len(part) || err != nil {
				t.Fatal(n, err)
			}
		}
		if sb.String() != want {
			t.Fatalf("%q in parts of %d, want %q", sb.String(), size, want)
		}
	}
	full := &quotedLines{w: &fullDisk{}}
	if _, err := io.WriteString(full, "00  a\n"); err == nil {
		t.Error("no error")
	}
}

// A write error of standard output is reported once, whether or not the run returns it.
func TestAWriteErrorEndsSum(t *testing.T) {
	many := func(_ context.Context, o *sum.Options, _ *counters.Set) (*sum.Summary, error) {
		for range 1_000_000 {
			if _, err := io.WriteString(o.Out, "00  a\n"); err != nil {
				return &sum.Summary{}, fmt.Errorf("writing the lines: %w", err)
			}
		}
		t.Error("no error")
		return &sum.Summary{}, nil
	}
	for name, run := range map[string]runSum{"many": many, "few": eventfulSum} {
		r := sumCommandTo(t, &fullDisk{free: 3}, run, "", "-q")
		if want := "sealift: standard output: no space left on device\n"; r.code != 1 || strings.Count(r.stderr, want) != 1 || strings.Count(r.stderr, "no space") != 1 {
			t.Errorf("%s: exit code %d, stderr %q", name, r.code, r.stderr)
		}
	}
}

func TestDefaultsOfSum(t *testing.T) {
	o := sumCommand(t, ends[sum.Options](&sum.Summary{}, nil), "in").options
	if o == nil || o.Report == nil || o.Out == nil {
		t.Fatalf("options %+v", o)
	}
	if in, err := io.ReadAll(o.Stdin); err != nil || string(in) != "in" {
		t.Errorf("standard input %q, %v", in, err)
	}
	o.Report, o.Out, o.Stdin = nil, nil, nil
	if want := (sum.Options{Paths: []string{"."}, Hashes: []hash.Algorithm{hash.SHA256}}); !reflect.DeepEqual(*o, want) {
		t.Errorf("\n got %+v\nwant %+v", *o, want)
	}
}

// sum gets the file of standard output, because it must not list its own output.
func TestSumGetsTheFileOfStandardOutput(t *testing.T) {
	f, err := os.Create(t.TempDir() + "/out")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if r := sumCommandTo(t, f, ends[sum.Options](&sum.Summary{}, nil), ""); r.options.OutFile != f {
		t.Errorf("it gets %v", r.options.OutFile)
	}
}

func TestEachFlagOfSumReachesItsOption(t *testing.T) {
	for _, c := range []struct {
		line string
		get  func(*sum.Options) any
		want any
	}{
		{"a - b", func(o *sum.Options) any { return o.Paths }, []string{"a", "-", "b"}},
		{"-- -a", func(o *sum.Options) any { return o.Paths }, []string{"-a"}},
		{"--hash=md5", func(o *sum.Options) any { return o.Hashes }, []hash.Algorithm{hash.MD5}},
		{"--hash=md5,sha256 --tag", func(o *sum.Options) any { return o.Hashes }, []hash.Algorithm{hash.MD5, hash.SHA256}},
		{"--tag", func(o *sum.Options) any { return o.Tag }, true},
		{"-z", func(o *sum.Options) any { return o.Zero }, true},
		{"--zero --manifest=-", func(o *sum.Options) any { return o.Zero }, true},
		{"--manifest=x", func(o *sum.Options) any { return o.Manifest }, "x"},
		{"--manifest=-", func(o *sum.Options) any { return o.Manifest }, ""},
		{"-x", func(o *sum.Options) any { return o.OneFileSystem }, true},
		{"--cache=drop", func(o *sum.Options) any { return o.Cache }, pipe.CacheDrop},
		{"--bwlimit=80MB/s", func(o *sum.Options) any { return o.BytesPerSecond }, int64(80e6)},
		{"--json", func(o *sum.Options) any { return o.Listed != nil }, true},
		{"--json --manifest=x", func(o *sum.Options) any { return o.Listed != nil }, false},
		{"--json --hash=md5,sha256", func(o *sum.Options) any { return o.Hashes }, []hash.Algorithm{hash.MD5, hash.SHA256}},
		{"--workers=3", func(o *sum.Options) any { return o.Workers }, 3},
		{"--include=*.c --exclude=*", func(o *sum.Options) any { return o.Filter.Match("a.h", false, o.Filter.Root()).Selected }, false},
		{"--exclude=*.c", func(o *sum.Options) any { return o.Filter.Match("a.c", false, o.Filter.Root()).Selected }, false},
		{"--files-from=- --from0", func(o *sum.Options) any { return o.Only.Root().Names() }, []string{"p\nq", "r"}},
	} {
		r := sumCommand(t, ends[sum.Options](&sum.Summary{}, nil), "p\nq\x00r\x00", strings.Fields(c.line)...)
		if r.code != 0 || r.options == nil {
			t.Errorf("%s: exit code %d, stderr %q", c.line, r.code, r.stderr)
			continue
		}
		if got := c.get(r.options); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s gives %v, want %v", c.line, got, c.want)
		}
	}
}

func TestUsageErrorsOfSum(t *testing.T) {
	for line, want := range map[string]string{
		"--hash=none":              "--hash none leaves nothing to do",
		"--hash=sha256,md5":        "several hashes need --tag",
		"--zero --manifest=x":      "--zero and --manifest contradict each other",
		"--manifest=":              "--manifest: the name is empty",
		"--from0":                  "--from0 needs --files-from",
		"--files-from=- -":         "both need standard input",
		"--files-from=no/such":     "--files-from: 'no/such': no such file or directory",
		"--exclude=[":              "--exclude: pattern \"[\"",
		"--workers=many":           "--workers: \"many\" is not a whole number",
		"- a -":                    "- is given twice, but standard input can be read only once",
		"--json --zero":            "--tag and --zero are about lines, and --json without --manifest prints none",
		"--cache=keep":             "--cache: unknown cache mode \"keep\"; known are auto, drop, direct",
		"--bwlimit=1000":           "--bwlimit: 1000 needs a unit",
		"--log-file=":              "--log-file: the name is empty",
		"--manifets=x":             "unknown flag --manifets; did you mean --manifest?",
		"--hash=sha384":            "--hash: hash sha384 is only read, by verify",
		"--manifest=x --manifest=": "--manifest: the name is empty",
	} {
		r := sumCommand(t, ends[sum.Options](&sum.Summary{}, nil), "", strings.Fields(line)...)
		stdout := ""
		if line == "--json --zero" { // a program reads JSON
			stdout = `{"schema":1,"exit_code":2,"error":"--tag and --zero are about lines, and --json without --manifest prints none"}` + "\n"
		}
		if r.code != 2 || r.options != nil || r.stdout != stdout {
			t.Errorf("%s: exit code %d, options %v, stdout %q", line, r.code, r.options, r.stdout)
		}
		if !strings.HasPrefix(r.stderr, "sealift: ") || !strings.Contains(r.stderr, want) || !strings.HasSuffix(r.stderr, "Try 'sealift sum --help'.\n") {
			t.Errorf("%s: stderr %q lacks %q", line, r.stderr, want)
		}
	}
	if r := sumCommand(t, ends[sum.Options](&sum.Summary{}, nil), "", "a", ""); r.code != 2 || !strings.Contains(r.stderr, "the name of a path is empty") {
		t.Errorf("empty name: exit code %d, stderr %q", r.code, r.stderr)
	}
}

func TestHelpOfVerifyCompareAndSumListsTheirFlags(t *testing.T) {
	for name, c := range map[string]struct {
		flags    string
		headings []string
	}{
		"verify": {"--manifest --unlisted --ignore-missing --strict --include --exclude --exclude-from --files-from --from0 --cache --workers --bwlimit -q, --quiet -v, --verbose --progress --log-file --log-format --json",
			[]string{"Usage:", "What to check:", "Safety:", "Output:", "Speed and memory:", "Other flags:"}},
		"compare": {"--one-way --metadata --quick --include --exclude --exclude-from --files-from --from0 -x, --cache --workers --bwlimit -q, --quiet -v, --verbose --log-file --log-format --progress --json",
			[]string{"Usage:", "What to compare:", "Safety:", "Output:", "Speed and memory:", "Other flags:"}},
		"sum": {"--include --exclude --exclude-from --files-from --from0 -x, --one-file-system --hash --manifest --tag -z, --zero --workers --bwlimit --cache -q, --quiet --progress --log-file --log-format --json",
			[]string{"Usage:", "What to hash:", "Manifest:", "Output:", "Speed and memory:", "Other flags:"}},
	} {
		help := command(t, succeeds, "", name, "--help").stdout
		for _, flag := range strings.Fields(c.flags) {
			if !strings.Contains(help, " "+flag) {
				t.Errorf("%s: %s is missing", name, flag)
			}
		}
		var at []int
		for _, heading := range c.headings {
			at = append(at, strings.Index(help, "\n"+heading+"\n"))
		}
		if at[0] < 0 || !slices.IsSorted(at) {
			t.Errorf("%s: headings at %v", name, at)
		}
	}
	help := command(t, succeeds, "", "verify", "--help").stdout
	if !strings.Contains(strings.Join(strings.Fields(help), " "), "FILE is searched for in the current directory, then in each PATH.") {
		t.Errorf("where --manifest is looked for:\n%s", help)
	}
	if !strings.Contains(help, "--hash-file is another name of --manifest") {
		t.Errorf("the other name of --manifest:\n%s", help)
	}
}
