package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/usage"
)

// measures returns a run that emits the given entries. Its total is the sum of the entries at
// depth 0.
func measures(entries ...usage.Entry) runDu {
	return func(_ context.Context, o *usage.Options) (*usage.Summary, error) {
		s := &usage.Summary{}
		for _, e := range entries {
			o.Emit(e)
			if e.Depth == 0 {
				s.Size += e.Size
			}
		}
		return s, nil
	}
}

func directory(path string, bytes uint64, depth int) usage.Entry {
	return usage.Entry{Path: path, Kind: fsys.Directory, Amount: usage.Amount{Size: bytes}, Depth: depth}
}

func file(path string, bytes uint64, depth int) usage.Entry {
	return usage.Entry{Path: path, Kind: fsys.Regular, Amount: usage.Amount{Size: bytes}, Depth: depth}
}

// eventfulDu emits two paths, with a failure between them.
func eventfulDu(_ context.Context, o *usage.Options) (*usage.Summary, error) {
	o.Emit(directory("d/e\n", 4096, 1))
	o.Report("d/it's", errors.New("permission \u202edenied"))
	o.Emit(directory("d", 1_536_000, 0))
	o.Report("gone", errors.New("no such file or directory"))
	o.Emit(file("\xff", 731, 0))
	return &usage.Summary{Amount: usage.Amount{Size: 1_536_731}, Errors: 2}, nil
}

func TestLinesAndMessagesOfDu(t *testing.T) {
	const failed = "sealift: $'d/it\\'s': scan: permission \\u202edenied\nsealift: 'gone': scan: no such file or directory\n"
	for flags, want := range map[string]string{
		"":                    "4\td/e\n\n1500\td\n1\t\xff\n",
		"-d 3":                "4\td/e\n\n1500\td\n1\t\xff\n",
		"-c":                  "4\td/e\n\n1500\td\n1\t\xff\n1501\ttotal\n",
		"-ch":                 "4.0K\td/e\n\n1.5M\td\n731\t\xff\n1.5M\ttotal\n",
		"-0c":                 "4\td/e\n\x001500\td\x001\t\xff\x001501\ttotal\x00",
		"-b":                  "4096\td/e\n\n1536000\td\n731\t\xff\n",
		"-B M":                "1M\td/e\n\n2M\td\n1M\t\xff\n",
		"-h -k":               "4\td/e\n\n1500\td\n1\t\xff\n",
		"-k -h":               "4.0K\td/e\n\n1.5M\td\n731\t\xff\n",
		"-b -B1K":             "4\td/e\n\n1500\td\n1\t\xff\n",
		"-B 1K -b":            "4096\td/e\n\n1536000\td\n731\t\xff\n",
		"-B si":               "4.1k\td/e\n\n1.6M\td\n731\t\xff\n",
		"-h --bytes=false":    "4.0K\td/e\n\n1.5M\td\n731\t\xff\n",
		"--human-readable -x": "4.0K\td/e\n\n1.5M\td\n731\t\xff\n",
	} {
		r := duCommand(t, eventfulDu, strings.Fields(flags)...)
		if r.code != 1 || headless(t, r.stdout) != want || r.stderr != failed {
			t.Errorf("%q: exit code %d\nstdout\n%q want\n%q\nstderr\n%swant\n%s", flags, r.code, r.stdout, want, r.stderr, failed)
		}
	}
}

func TestExitCodesOfDu(t *testing.T) {
	ends := func(s *usage.Summary, err error) runDu {
		return func(_ context.Context, o *usage.Options) (*usage.Summary, error) {
			o.Emit(file("f", 1, 0))
			return s, err
		}
	}
	for name, c := range map[string]struct {
		run            runDu
		code           int
		stdout, stderr string
	}{
		"all well": {ends(&usage.Summary{Amount: usage.Amount{Size: 2048}}, nil), 0, "1\tf\n2\ttotal\n", ""},
		"failed":   {ends(&usage.Summary{Errors: 1}, nil), 1, "1\tf\n0\ttotal\n", ""},
		// A partial total would look like a complete one.
		"interrupted": {ends(&usage.Summary{Amount: usage.Amount{Size: 1}}, Interrupt{os.Interrupt}), 130, "1\tf\n", "sealift: stopped by SIGINT; the numbers are incomplete\n"},
		"cancelled":   {ends(nil, context.Canceled), 1, "1\tf\n", "sealift: stopped\n"},
	} {
		if r := duCommand(t, c.run, "-c"); r.code != c.code || r.stderr != c.stderr || r.stdout != c.stdout {
			t.Errorf("%s: exit code %d, stderr %q, stdout %q; want %d, %q, %q", name, r.code, r.stderr, r.stdout, c.code, c.stderr, c.stdout)
		}
	}
	r := duCommand(t, ends(&usage.Summary{Amount: usage.Amount{Size: 1}}, Interrupt{os.Interrupt}), "-c", "--top=3")
	if r.code != 130 || strings.Contains(r.stdout, "total") {
		t.Errorf("chart: exit code %d, stdout %q", r.code, r.stdout)
	}
}

// A write error of standard output ends the walk, and is reported once.
func TestAWriteErrorEndsDu(t *testing.T) {
	many := func(ctx context.Context, o *usage.Options) (*usage.Summary, error) {
		for i := range 1_000_000 {
			if ctx.Err() != nil {
				return &usage.Summary{}, context.Cause(ctx)
			}
			o.Emit(file(fmt.Sprint("a/", i), 1, 1))
			o.Emit(file("a", 1, 0))
		}
		t.Error("no error")
		return &usage.Summary{}, nil
	}
	for name, run := range map[string]runDu{"many": many, "few": measures(file("file", 1, 0))} {
		for _, flags := range []string{"-a", "-0", "--top=1"} {
			r := duCommandTo(t, &fullDisk{free: 3}, run, flags)
			if want := "sealift: standard output: no space left on device\n"; r.code != 1 || r.stderr != want {
				t.Errorf("%s %s: exit code %d, stderr %q", name, flags, r.code, r.stderr)
			}
		}
	}
}

func TestDefaultsOfDu(t *testing.T) {
	o := duCommand(t, measures()).options
	if o == nil || o.Report == nil || o.Emit == nil {
		t.Fatalf("options %+v", o)
	}
	o.Report, o.Emit = nil, nil
	if want := (usage.Options{Paths: []string{"."}}); !reflect.DeepEqual(*o, want) {
		t.Errorf("\n got %+v\nwant %+v", *o, want)
	}
}

func TestEachFlagOfDuReachesItsOption(t *testing.T) {
	depth := func(o *usage.Options) any { return o.MaxDepth }
	for _, c := range []struct {
		line string
		get  func(*usage.Options) any
		want any
	}{
		{"a - b", func(o *usage.Options) any { return o.Paths }, []string{"a", "-", "b"}},
		{"-- -a", func(o *usage.Options) any { return o.Paths }, []string{"-a"}},
		{"-s", depth, 0},
		{"-sd0", depth, 0},
		{"-d 2", depth, 2},
		{"--max-depth=0", depth, 0},
		{"-a", depth, -1},
		{"-ad1", depth, 1},
		{"-a -d 0", depth, 0},
		{"--top=3", depth, -1},
		{"--top=3 -d 2", depth, 2},
		{"-d 2", func(o *usage.Options) any { return o.Files }, false},
		{"-a", func(o *usage.Options) any { return o.Files }, true},
		{"-b", func(o *usage.Options) any { return o.Apparent }, true},
		{"-b -k", func(o *usage.Options) any { return o.Apparent }, true},
		{"--apparent-size", func(o *usage.Options) any { return o.Apparent }, true},
		{"-k", func(o *usage.Options) any { return o.Apparent }, false},
		{"-l", func(o *usage.Options) any { return o.CountLinks }, true},
		{"--count-links", func(o *usage.Options) any { return o.CountLinks }, true},
		{"-x", func(o *usage.Options) any { return o.OneFileSystem }, true},
		{"-S", func(o *usage.Options) any { return o.Separate }, true},
		{"--inodes", func(o *usage.Options) any { return o.Inodes }, true},
		{"-t 4K", func(o *usage.Options) any { return o.Threshold }, int64(4096)},
		{"-t -1MB", func(o *usage.Options) any { return o.Threshold }, int64(-1_000_000)},
		{"--time", func(o *usage.Options) any { return o.Time }, usage.Modified},
		{"--time=use", func(o *usage.Options) any { return o.Time }, usage.Accessed},
		{"--time=status", func(o *usage.Options) any { return o.Time }, usage.Changed},
		{"-L", func(o *usage.Options) any { return []bool{o.FollowPaths, o.FollowAll} }, []bool{false, true}},
		{"-L -D", func(o *usage.Options) any { return []bool{o.FollowPaths, o.FollowAll} }, []bool{true, false}},
		{"-D --dereference", func(o *usage.Options) any { return []bool{o.FollowPaths, o.FollowAll} }, []bool{false, true}},
		{"--workers=3", func(o *usage.Options) any { return o.Workers }, 3},
		{"--top=off", func(o *usage.Options) any { return o.Top }, 0},
		{"--top 20", func(o *usage.Options) any { return o.Top }, 20},
		{"--exclude=*.c", func(o *usage.Options) any { return o.Filter.Match("a.c", false, o.Filter.Root()).Selected }, false},
		{"--exclude=*.c", func(o *usage.Options) any { return o.Filter.Match("a.h", false, o.Filter.Root()).Selected }, true},
		{"--include=*.c --exclude=*", func(o *usage.Options) any { return o.Filter.Match("a.h", false, o.Filter.Root()).Selected }, false},
	} {
		r := duCommand(t, measures(), strings.Fields(c.line)...)
		if r.code != 0 || r.options == nil {
			t.Errorf("%s: exit code %d, stderr %q", c.line, r.code, r.stderr)
			continue
		}
		if got := c.get(r.options); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s gives %v, want %v", c.line, got, c.want)
		}
	}
}

func TestUsageErrorsOfDu(t *testing.T) {
	for line, want := range map[string]string{
		"-s -a":                     "--summarize and --all contradict each other",
		"-s -d 1":                   "--summarize and --max-depth 1 contradict each other",
		"-s --top=1":                "--summarize and --top contradict each other",
		"-0 --top=1":                "--null and --top contradict each other",
		"-0 --json":                 "--null and --json contradict each other",
		"-d -1":                     "-d/--max-depth: -1 is out of range; it must be 0 to 2147483647",
		"-d all":                    "-d/--max-depth: \"all\" is not a whole number",
		"--top=0":                   "--top: 0 is out of range; it must be 1 to 1000000",
		"-B 0":                      "-B/--block-size: 0 cannot be a unit",
		"--block-size=":             "-B/--block-size: \"\" is neither a size",
		"-B":                        "-B/--block-size needs a value",
		"-h=maybe":                  "-h/--human-readable: \"maybe\" is neither true nor false",
		"--exclude=[":               "--exclude: pattern \"[\"",
		"--workers=0":               "--workers: 0 is out of range",
		"--apparnt-size":            "unknown flag --apparnt-size; did you mean --apparent-size?",
		"-t -0":                     "-t/--threshold: -0 is not a threshold",
		"-t 1X":                     "-t/--threshold: \"1X\" is not a size",
		"--time=birth":              "--time: \"birth\" is not a time; choose from mtime, atime and ctime",
		"--files0-from=/dev/null a": "--files0-from and a PATH contradict each other",
		"--files0-from=/none":       "--files0-from: '/none': no such file",
		"--helo":                    "unknown flag --helo; did you mean --help?",
	} {
		r := duCommand(t, measures(), strings.Fields(line)...)
		if r.code != 2 || r.options != nil || r.stdout != "" && !strings.Contains(line, "json") {
			t.Errorf("%s: exit code %d, options %v, stdout %q", line, r.code, r.options, r.stdout)
		}
		if !strings.HasPrefix(r.stderr, "sealift: ") || !strings.Contains(r.stderr, want) || !strings.HasSuffix(r.stderr, "Try 'sealift du --help'.\n") {
			t.Errorf("%s: stderr %q lacks %q", line, r.stderr, want)
		}
	}
	if r := duCommand(t, measures(), "a", ""); r.code != 2 || !strings.Contains(r.stderr, "the name of a path is empty") {
		t.Errorf("empty name: exit code %d, stderr %q", r.code, r.stderr)
	}
}

func TestHelpOfDuListsItsFlags(t *testing.T) {
	help := duCommand(t, measures(), "--help").stdout
	for _, flag := range strings.Fields(`-s, --summarize -d, --max-depth -a, --all -b, --bytes --apparent-size -c, --total -h, --human-readable -k,
		-B, --block-size -x, --one-file-system -l, --count-links -0, --null --exclude --top --json --workers --help`) {
		if !strings.Contains(help, " "+flag) {
			t.Errorf("%s is missing", flag)
		}
	}
	var at []int
	for _, heading := range []string{"Usage:", "What to measure:", "Output:", "Sizes in the output:", "Speed and memory:", "Other flags:"} {
		at = append(at, strings.Index(help, "\n"+heading+"\n"))
	}
	if at[0] < 0 || !slices.IsSorted(at) {
		t.Errorf("headings at %v", at)
	}
	if strings.Contains(help, "-h, --help") || !strings.Contains(strings.Join(strings.Fields(help), " "), "(--help prints this help)") {
		t.Errorf("what -h is:\n%s", help)
	}
}

// Flags of GNU du that change lines. TestLikeDu compares the numbers.
func TestLinesOfDu(t *testing.T) {
	t.Setenv("TZ", "UTC")
	time.Local = time.UTC
	entry := func(path string, size uint64, depth int) usage.Entry {
		return usage.Entry{Path: path, Kind: fsys.Directory, Amount: usage.Amount{Size: size, Newest: 1_600_000_000}, Depth: depth}
	}
	run := measures(entry("d/e", 2_000_000, 1), entry("d", 3_000_000, 0), entry("f", 7, 0))
	for line, want := range map[string]string{
		"--si -d1":          "2.0M\td/e\n3.0M\td\n7\tf\n",
		"-h --si -d1":       "2.0M\td/e\n3.0M\td\n7\tf\n",
		"--si -h -d1":       "2.0M\td/e\n2.9M\td\n7\tf\n",
		"--inodes -d1 -BM":  "2000000\td/e\n3000000\td\n7\tf\n",
		"--inodes -d1 --si": "2.0M\td/e\n3.0M\td\n7\tf\n",
		"-b --time -c":      "2000000\t2020-09-13 12:26\td/e\n3000000\t2020-09-13 12:26\td\n7\t2020-09-13 12:26\tf\n3000007\t1970-01-01 00:00\ttotal\n",
		"-b -t 1K":          "2000000\td/e\n3000000\td\n",
		"-b -c -t -1K":      "7\tf\n3000007\ttotal\n",
	} {
		r := duCommand(t, run, strings.Fields(line)...)
		if r.code != 0 || r.stdout != want {
			t.Errorf("%s: exit code %d, stdout %q, want %q", line, r.code, r.stdout, want)
		}
	}
	r := duCommand(t, run, "-b", "--inodes")
	if want := "sealift: warning: --apparent-size and -b have no effect with --inodes\n"; r.stderr != want {
		t.Errorf("stderr %q, want %q", r.stderr, want)
	}
	r = duCommand(t, run, "--inodes", "--time", "--json", "-t", "1K")
	want := `{"schema":1,"verdict":"complete","causes":[],"next":null,"apparent":false,"paths":[{"path":"d","kind":"directory","inodes":3000000,"time":"2020-09-13T12:26:40Z","entries":[` +
		`{"path":"d/e","kind":"directory","inodes":2000000,"time":"2020-09-13T12:26:40Z","depth":1}]},` +
		`{"path":"f","kind":"directory","inodes":7,"time":"2020-09-13T12:26:40Z","entries":[]}],"total":3000007,"left_out":0,"failures":[],"warnings":[],"exit_code":0}` + "\n"
	if headless(t, r.stdout) != want {
		t.Errorf("with --inodes\n got %s\nwant %s", r.stdout, want)
	}
}

// An empty name in the list is an error, and the other paths are measured.
func TestDuReadsPathsFromAFile(t *testing.T) {
	list := filepath.Join(t.TempDir(), "list")
	for content, want := range map[string]struct {
		paths []string
		code  int
	}{
		"":                   {nil, 0},
		"a":                  {[]string{"a"}, 0},
		"a\x00-\x00b\nc\x00": {[]string{"a", "-", "b\nc"}, 0},
		"a\x00\x00b":         {[]string{"a", "b"}, 1},
	} {
		if err := os.WriteFile(list, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		r := duCommand(t, measures(), "--files0-from", list)
		if r.code != want.code || r.options == nil || !slices.Equal(r.options.Paths, want.paths) {
			t.Errorf("%q: exit code %d, options %+v", content, r.code, r.options)
		}
		if want.code == 1 && !strings.Contains(r.stderr, "the name of path 2 is empty") {
			t.Errorf("%q: stderr %q", content, r.stderr)
		}
	}
}

func TestJSONOfDuHasEveryField(t *testing.T) {
	r := duCommand(t, eventfulDu, "--json", "-abch")
	want := `{"schema":1,"verdict":"not_complete","causes":[{"cause":"failed"}],"next":null,"apparent":true,"paths":[` +
		`{"path":"d","kind":"directory","bytes":1536000,"entries":[{"path":"d/e\n","kind":"directory","bytes":4096,"depth":1}]},` +
		`{"path":"\ufffd","path_base64":"/w==","kind":"regular file","bytes":731,"entries":[]}],"total":1536731,"left_out":0,"failures":[` +
		`{"path":"d/it's","event":"failed","stage":"scan","error":"permission \u202edenied"},` +
		`{"path":"gone","event":"failed","stage":"scan","error":"no such file or directory"}],"warnings":[],"exit_code":1}` + "\n"
	if r.code != 1 || headless(t, r.stdout) != want {
		t.Errorf("exit code %d\n got %s\nwant %s", r.code, r.stdout, want)
	}
	if strings.Count(r.stderr, "sealift: ") != 2 {
		t.Errorf("stderr %q", r.stderr)
	}

	r = duCommand(t, measures(directory("a", 9, 0), file("a/b", 8, 1), directory("c", 7, 0), file("c/d/e", 6, 2)), "--json", "--top=1")
	want = `{"schema":1,"verdict":"complete","causes":[],"next":null,"apparent":false,"paths":[` +
		`{"path":"a","kind":"directory","bytes":9,"entries":[{"path":"a/b","kind":"regular file","bytes":8,"depth":1}]},` +
		`{"path":"c","kind":"directory","bytes":7,"entries":[{"path":"c/d/e","kind":"regular file","bytes":6,"depth":2}]}],"total":16,"left_out":0,"failures":[],"warnings":[],"exit_code":0}` + "\n"
	if headless(t, r.stdout) != want {
		t.Errorf("with --top\n got %s\nwant %s", r.stdout, want)
	}

	// Entries below a path of unknown size are left out.
	interrupted := func(_ context.Context, o *usage.Options) (*usage.Summary, error) {
		o.Emit(file("a/b", 1, 1))
		return &usage.Summary{}, Interrupt{os.Interrupt}
	}
	r = duCommand(t, interrupted, "--json", "-a")
	want = `{"schema":1,"verdict":"not_complete","causes":[{"cause":"interrupted"}],"next":null,"apparent":false,"paths":[],"total":0,"left_out":0,"failures":[],"warnings":[],"exit_code":130}` + "\n"
	if headless(t, r.stdout) != want || r.code != 130 || r.stderr != "sealift: stopped by SIGINT; the numbers are incomplete\n" {
		t.Errorf("interrupted: exit code %d, stderr %q\n got %s\nwant %s", r.code, r.stderr, r.stdout, want)
	}

	r = duCommand(t, measures(), "--json", "-s", "-a")
	if want := `{"schema":1,"exit_code":2,"error":"--summarize and --all contradict each other"}` + "\n"; headless(t, r.stdout) != want {
		t.Errorf("refused: %s", r.stdout)
	}
}
