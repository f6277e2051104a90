package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/compare"
	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/pipe"
)

// compareCommand runs the command compare with run in place of the comparison.
func compareCommand(t *testing.T, run runCompare, args ...string) result[compare.Options] {
	t.Helper()
	return compareCommandTo(t, nil, run, args...)
}

func compareCommandTo(t *testing.T, stdout io.Writer, run runCompare, args ...string) result[compare.Options] {
	t.Helper()
	return lineOf(t, stdout, run, func(run runCompare) runs { return runs{compare: run} }, "", append([]string{"compare"}, args...)...)
}

// compares returns a comparison that has the given result.
func compares(s *compare.Summary, err error) runCompare {
	return func(context.Context, *compare.Options, *counters.Set) (*compare.Summary, error) { return s, err }
}

// eventfulComparison is a comparison with an event of every kind.
func eventfulComparison(_ context.Context, o *compare.Options, _ *counters.Set) (*compare.Summary, error) {
	for _, e := range []compare.Event{
		{Verdict: compare.Incomplete, Path: "SEALIFT-INCOMPLETE-\x1b.txt", Trees: []int{1}, Err: errors.New("run \u202eagain")},
		{Verdict: compare.Differs, Path: "clip\xff.mov", Trees: []int{1}, Reason: "content in B differs from byte 17 of 40"},
		{Verdict: compare.Unreadable, Path: "d/it's", Trees: []int{0}, Stage: failure.StageOpen, Err: errors.New("permission denied")},
		{Verdict: compare.Unreadable, Trees: []int{1}, Stage: failure.StageScan, Err: errors.New("input/output error")},
		{Verdict: compare.OnlyIn, Path: "dir/", Trees: []int{0}, Whole: true, Files: 1_312, Bytes: 48_200_000_000},
		{Verdict: compare.OnlyIn, Path: "empty/", Trees: []int{1}, Whole: true},
		{Verdict: compare.OnlyIn, Path: "file\x1b[31m", Trees: []int{0}, Bytes: 12},
		{Verdict: compare.TypeDiffers, Path: "t", Trees: []int{1}, Reason: "regular file in A, fifo in B"},
		{Verdict: compare.MetadataDiffers, Path: "m", Trees: []int{1}, Reason: "mode 0644 in A, 0600 in B"},
	} {
		o.Report(e)
	}
	if o.Verbose {
		o.Report(compare.Event{Verdict: compare.Equal, Path: "z"})
	}
	return &compare.Summary{
		Counts:  compare.Counts{Files: 20_001, Directories: 2, Others: 3, Differ: 1, TypeDiffers: 1, MetadataDiffers: 1, Unreadable: 2, Incomplete: 1, LeftOut: 3, Own: 1, Cached: 5},
		Bytes:   27_123_456_789,
		Only:    []compare.Only{{Trees: []int{0}, Files: 1_313, Bytes: 48_200_000_012, Others: 1}, {Trees: []int{1}, Others: 1}},
		Elapsed: 20500 * time.Millisecond,
	}, nil
}

const (
	compareTrouble = "sealift: $'b/SEALIFT-INCOMPLETE-\\x1b.txt': run \\u202eagain\n" +
		"sealift: $'/a/d/it\\'s': open: permission denied\n" +
		"sealift: 'b': scan: input/output error\n"
	compareLines = `differs           $'clip\377.mov' (content in B differs from byte 17 of 40)
only in A         dir/ (1,312 files, 48.2 GB)
only in B         empty/ (a directory without files)
only in A         $'file\x1b[31m' (12 B)
type differs      t (regular file in A, fifo in B)
metadata differs  m (mode 0644 in A, 0600 in B)
`
	compareSummary = `
NOT EQUAL: 1,318 entries differ or are missing, a copy is incomplete, 2 entries could not be compared
A           '/a/'
B           'b'
compared    20,001 files, 2 directories, 3 other entries
size        27.1 GB in 20.5 s, 1.32 GB/s
differ      1
types       1
metadata    1
only in A   1,313 files, 48.2 GB, 1 other entry
only in B   1 other entry
unreadable  2
incomplete  1
left out    3 entries of A, by filters
skipped     1 entry: manifests, journals, markers and temporaries of Sealift
cached      5 files, perhaps read from memory and not from the device
`
)

func TestDifferencesAndTheirSummary(t *testing.T) {
	for flags, want := range map[string]string{
		"":             compareLines + compareSummary,
		"-v":           compareLines + "equal             z\n" + compareSummary,
		"-q":           compareLines,
		"--cache keep": compareLines + compareSummary[:strings.Index(compareSummary, "cached")],
	} {
		r := compareCommand(t, eventfulComparison, append(strings.Fields(flags), "/a/", "b")...)
		assert.Equal(t, 3, r.code, flags)
		assert.Equal(t, want, r.stdout, flags)
		assert.Equal(t, compareTrouble, r.stderr, flags)
	}
}

func TestTheVerdictOfAComparison(t *testing.T) {
	many := &compare.Summary{Counts: compare.Counts{Files: 2}}
	for _, c := range []struct {
		flags string
		s     *compare.Summary
		err   error
		code  int
		want  string
	}{
		{"", many, nil, 0, "equal: A and B\n"},
		{"c", many, nil, 0, "equal: A, B and C\n"},
		{"c d", many, nil, 0, "equal: A to D\n"},
		{"--one-way", many, nil, 0, "equal: B has everything that is in A\n"},
		{"--one-way c", many, nil, 0, "equal: B and C have everything that is in A\n"},
		{"--quick --one-way c d", many, nil, 0, "equal in size and time: B to D have everything that is in A, but no content was read\n"},
		{"--quick", many, nil, 0, "equal in size and time: A and B, but no content was read\n"},
		{"--quick --one-way", many, nil, 0, "equal in size and time: B has everything that is in A, but no content was read\n"},
		{"", &compare.Summary{Counts: compare.Counts{Differ: 1}}, nil, 3, "\nNOT EQUAL: 1 entry differs or is missing\n"},
		{"", &compare.Summary{Counts: compare.Counts{Incomplete: 1}}, nil, 3, "NOT EQUAL: a copy is incomplete\n"},
		{"", &compare.Summary{Counts: compare.Counts{Unreadable: 1}}, nil, 1, "NOT COMPARED COMPLETELY: 1 entry could not be compared\n"},
		{"", many, Interrupt{syscall.SIGINT}, 130, "NOT COMPARED COMPLETELY: stopped by SIGINT\n"},
		{"", &compare.Summary{Counts: compare.Counts{Differ: 2}}, Interrupt{syscall.SIGTERM}, 143, "\nNOT EQUAL: 2 entries differ or are missing, stopped by SIGTERM\n"},
		{"", nil, errors.New("broken"), 1, "NOT COMPARED COMPLETELY: stopped before the end\n"},
	} {
		r := compareCommand(t, compares(c.s, c.err), append([]string{"a", "b"}, strings.Fields(c.flags)...)...)
		assert.Equal(t, c.code, r.code, c.want)
		assert.True(t, strings.HasPrefix(r.stdout, c.want), "%q does not begin with %q", r.stdout, c.want)
	}
	r := compareCommand(t, compares(&compare.Summary{Only: []compare.Only{{Trees: []int{0, 2}, Files: 1, Bytes: 7}}}, nil), "--quick", "a", "b", "c")
	assert.Contains(t, r.stdout, "\ncontent     not read, because of --quick\n")
	assert.Contains(t, r.stdout, "\nonly in     A, C: 1 file, 7 B\n")
}

func TestJSONOfAComparison(t *testing.T) {
	r := compareCommand(t, eventfulComparison, "--json", "/a/", "b")
	assert.Equal(t, 3, r.code)
	assert.Equal(t, `{"schema":1,"verdict":"not_equal","causes":[{"cause":"partial","directory":"b"},{"cause":"failed","directory":"/a/"},{"cause":"failed","directory":"b"},{"cause":"differs","directory":""}],"next":null,`+
		`"equal":false,"trees":[{"tree":"A","path":"/a/"},{"tree":"B","path":"b"}],"one_way":false,"quick":false,"metadata":false,`+
		`"counts":{"files":20001,"directories":2,"others":3,"differ":1,"type_differs":1,"metadata_differs":1,`+
		`"unreadable":2,"incomplete":1,"left_out":3,"own":1,"compared_through_cache":5,`+
		`"only_in":[{"trees":["A"],"files":1313,"bytes":48200000012,"others":1},{"trees":["B"],"files":0,"bytes":0,"others":1}]},"bytes":27123456789,"seconds":20.5,"rate":1323095453,`+
		`"differences":[{"path":"clip\ufffd.mov","path_base64":"Y2xpcP8ubW92","event":"differs","trees":["B"],"reason":"content in B differs from byte 17 of 40"},`+
		`{"path":"dir/","event":"only_in","trees":["A"],"files":1312,"bytes":48200000000},{"path":"empty/","event":"only_in","trees":["B"],"files":0,"bytes":0},`+
		`{"path":"file\u001b[31m","event":"only_in","trees":["A"],"bytes":12},`+
		`{"path":"t","event":"type_differs","trees":["B"],"reason":"regular file in A, fifo in B"},`+
		`{"path":"m","event":"metadata_differs","trees":["B"],"reason":"mode 0644 in A, 0600 in B"}],`+
		`"failures":[{"path":"SEALIFT-INCOMPLETE-\u001b.txt","directory":"b","event":"incomplete","stage":"check","error":"run \u202eagain"},`+
		`{"path":"d/it's","directory":"/a/","event":"failed","stage":"open","error":"permission denied"},{"path":".","directory":"b","event":"failed","stage":"scan","error":"input/output error"}],`+
		`"warnings":[],"exit_code":3}`+"\n", headless(t, r.stdout))
	for line := range strings.Lines(compareLines + compareTrouble) {
		assert.Contains(t, r.stderr, line, "on standard error as well")
	}
	r = compareCommand(t, compares(&compare.Summary{}, nil), "--json", "a", "b")
	assert.Contains(t, r.stdout, `"equal":true,`)
	assert.Contains(t, r.stdout, `"only_in":[]}`)
	assert.Contains(t, r.stdout, `"differences":[],"failures":[],"warnings":[],"exit_code":0}`)
}

func TestLogOfAComparison(t *testing.T) {
	name := filepath.Join(t.TempDir(), "log")
	r := compareCommand(t, eventfulComparison, "-v", "--log-file", name, "/a/", "b")
	require.Equal(t, 3, r.code)
	log, err := os.ReadFile(name) //nolint:gosec // ours
	require.NoError(t, err)
	assert.Equal(t, 10, strings.Count(string(log), "\n"), "nothing about what is equal:\n%s", log)
	for _, want := range []string{
		`level=WARN event=differs path=$'clip\377.mov' reason="content in B differs from byte 17 of 40"`, `level=WARN event=only_in path=dir/ reason="1,312 files, 48.2 GB" trees=A`,
		`level=ERROR event=failed path=d/it's directory=/a/ stage=open error="permission denied"`, `level=ERROR event=incomplete path=`,
		`level=INFO event=finish exit_code=3 verdict=not_equal files=20001 bytes=27123456789 differences=1318 errors=2 elapsed=20.5s`,
	} {
		assert.Contains(t, string(log), want)
	}
	r = compareCommand(t, compares(nil, failure.Refuse("no")), "--log-file", name, "a", "b")
	require.Equal(t, 2, r.code)
	assert.Equal(t, "sealift: no\n", r.stderr)
	log, _ = os.ReadFile(name) //nolint:gosec // as above
	assert.Contains(t, string(log), "level=ERROR event=refused error=no")
}

func TestEachFlagOfCompareReachesItsOption(t *testing.T) {
	for _, c := range []struct {
		line string
		get  func(*compare.Options) any
		want any
	}{
		{"a b", func(o *compare.Options) any { return o.Trees }, []string{"a", "b"}},
		{"a b c", func(o *compare.Options) any { return o.Trees }, []string{"a", "b", "c"}},
		{"--one-way a b", func(o *compare.Options) any { return o.OneWay }, true},
		{"--quick a b", func(o *compare.Options) any { return o.Quick }, true},
		{"--metadata a b", func(o *compare.Options) any { return o.Metadata }, true},
		{"-v a b", func(o *compare.Options) any { return o.Verbose }, true},
		{"-x a b", func(o *compare.Options) any { return o.OneFileSystem }, true},
		{"a b", func(o *compare.Options) any { return o.Cache }, pipe.CacheDrop},
		{"--cache keep a b", func(o *compare.Options) any { return o.Cache }, pipe.CacheKeep},
		{"--cache direct a b", func(o *compare.Options) any { return o.Cache }, pipe.CacheDirect},
		{"--workers 7 a b", func(o *compare.Options) any { return o.Workers }, 7},
		{"--bwlimit 80MB a b", func(o *compare.Options) any { return o.BytesPerSecond }, int64(80_000_000)},
		{"a b", func(o *compare.Options) any { return o.Filter == nil && o.Only == nil }, true},
		{"--exclude x a b", func(o *compare.Options) any { return o.Filter != nil }, true},
		{"--files-from - a b", func(o *compare.Options) any { return o.Only != nil }, true},
	} {
		r := compareCommand(t, compares(&compare.Summary{Counts: compare.Counts{Files: 1}}, nil), strings.Fields(c.line)...)
		if r.code != 0 || r.options == nil {
			t.Errorf("%s: exit code %d, stderr %q", c.line, r.code, r.stderr)
			continue
		}
		if got := c.get(r.options); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s gives %v, want %v", c.line, got, c.want)
		}
	}
}

func TestUsageErrorsOfCompare(t *testing.T) {
	for line, want := range map[string]string{
		"":                           "missing operands A and B",
		"a":                          `missing operand B, the directory to compare 'a' with`,
		strings.Repeat("a ", 27):     "27 directories are too many; at most 26 can be compared",
		"-q -v a b":                  "--quiet and --verbose contradict each other",
		"--quick --cache drop a b":   "--cache has no effect with --quick, which reads no content",
		"--cache=auto a b":           `--cache: unknown cache mode "auto"; known are keep, drop, direct`,
		"--log-file= a b":            "--log-file: the name is empty",
		"--from0 a b":                "--from0 needs --files-from",
		"--bwlimit=0 a b":            "--bwlimit: 0 is out of range",
		"--one-wya a b":              "unknown flag --one-wya; did you mean --one-way?",
		"--json --workers=0 a b":     "--workers: 0 is out of range",
		"--log-file no/such/log a b": "--log-file: 'no/such/log': no such file or directory",
	} {
		r := compareCommand(t, compares(&compare.Summary{}, nil), strings.Fields(line)...)
		if r.code != 2 || r.options != nil {
			t.Errorf("%s: exit code %d, options %v", line, r.code, r.options)
		}
		if !strings.HasPrefix(r.stderr, "sealift: ") || !strings.Contains(r.stderr, want) || !strings.HasSuffix(r.stderr, "Try 'sealift compare --help'.\n") {
			t.Errorf("%s: stderr %q lacks %q", line, r.stderr, want)
		}
	}
	if r := compareCommand(t, compares(&compare.Summary{}, nil), "a", ""); r.code != 2 || !strings.Contains(r.stderr, "the name of a directory is empty") {
		t.Errorf("empty name: exit code %d, stderr %q", r.code, r.stderr)
	}
}

// A write error of standard output ends the comparison.
func TestAWriteErrorEndsAComparison(t *testing.T) {
	endless := func(ctx context.Context, o *compare.Options, _ *counters.Set) (*compare.Summary, error) {
		for ctx.Err() == nil {
			o.Report(compare.Event{Verdict: compare.Differs, Path: "x", Trees: []int{1}})
		}
		return &compare.Summary{}, context.Cause(ctx)
	}
	r := compareCommandTo(t, &fullDisk{free: 100}, endless, "a", "b")
	if r.code != 1 || r.stderr != "sealift: standard output: no space left on device\n" {
		t.Errorf("exit code %d, stderr %q", r.code, r.stderr)
	}
}
