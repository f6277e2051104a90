package cli

import (
	"io"
	"reflect"
	"strings"
	"testing"

	"github.com/seed65876f4f/sealift/internal/pipe"
	"github.com/seed65876f4f/sealift/internal/verify"
)

func TestDefaultsOfVerify(t *testing.T) {
	r := verifyCommand(t, ends[verify.Options](&verify.Summary{}, nil), "listed")
	o := r.options
	if o == nil || o.Report == nil {
		t.Fatalf("exit code %d, stderr %q", r.code, r.stderr)
	}
	if in, err := io.ReadAll(o.Stdin); err != nil || string(in) != "listed" {
		t.Errorf("standard input %q, %v", in, err)
	}
	o.Report, o.Stdin = nil, nil
	if want := (verify.Options{Paths: []string{"."}, ConvertPaths: true}); !reflect.DeepEqual(*o, want) {
		t.Errorf("\n got %+v\nwant %+v", *o, want)
	}
}

func TestEachFlagOfVerifyReachesItsOption(t *testing.T) {
	for _, c := range []struct {
		line string
		get  func(*verify.Options) any
		want any
	}{
		{"a b", func(o *verify.Options) any { return o.Paths }, []string{"a", "b"}},
		{"-- -a", func(o *verify.Options) any { return o.Paths }, []string{"-a"}},
		{"--manifest=x", func(o *verify.Options) any { return o.Manifest }, "x"},
		{"--hash-file x", func(o *verify.Options) any { return o.Manifest }, "x"},
		{"--manifest -", func(o *verify.Options) any { return o.Manifest }, "-"},
		{"--unlisted", func(o *verify.Options) any { return o.Unlisted }, true},
		{"--no-convert-paths", func(o *verify.Options) any { return o.ConvertPaths }, false},
		{"--strict", func(o *verify.Options) any { return o.Strict }, true},
		{"--workers=7", func(o *verify.Options) any { return o.Workers }, 7},
		{"--workers=auto", func(o *verify.Options) any { return o.Workers }, 0},
		{"--cache=drop", func(o *verify.Options) any { return o.Cache }, pipe.CacheDrop},
		{"--cache=direct", func(o *verify.Options) any { return o.Cache }, pipe.CacheDirect},
		{"-v", func(o *verify.Options) any { return o.Verbose }, true},
		{"--verbose --json", func(o *verify.Options) any { return o.Verbose }, true},
		{"-q", func(o *verify.Options) any { return o.Verbose }, false},
		{"--bwlimit=80MB", func(o *verify.Options) any { return o.BytesPerSecond }, int64(80e6)},
		{"--include *.mov --exclude *", func(o *verify.Options) any { return o.Filter.Match("a.mov", false, o.Filter.Root()).Selected }, true},
		{"--include *.mov --exclude *", func(o *verify.Options) any { return o.Filter.Match("a.txt", false, o.Filter.Root()).Selected }, false},
		{"--files-from -", func(o *verify.Options) any { return o.Only.Root().Names() }, []string{"listed"}},
		{"--ignore-missing", func(o *verify.Options) any { return o.IgnoreMissing }, true},
	} {
		r := verifyCommand(t, ends[verify.Options](&verify.Summary{Counts: verify.Counts{Files: 1}}, nil), "listed\n", strings.Fields(c.line)...)
		if r.code != 0 || r.options == nil {
			t.Errorf("%s: exit code %d, stderr %q", c.line, r.code, r.stderr)
			continue
		}
		if got := c.get(r.options); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s gives %v, want %v", c.line, got, c.want)
		}
	}
}

func TestUsageErrorsOfVerify(t *testing.T) {
	t.Chdir(t.TempDir())
	for line, want := range map[string]string{
		"--silent -v":                 "--silent and --verbose contradict each other",
		"--silent --json":             "--silent and --json contradict each other",
		"--manifest=":                 "--manifest: the name is empty",
		"--hash-file=":                "--hash-file: the name is empty",
		"--manifest=a --hash-file=b":  "--hash-file: it is given twice",
		"--cache=keep":                "--cache: unknown cache mode \"keep\"; known are auto, drop, direct",
		"--workers=0":                 "--workers: 0 is out of range; it must be 1 to 1024",
		"--progress=fancy":            "--progress: unknown progress mode \"fancy\"",
		"--unlistd":                   "unknown flag --unlistd; did you mean --unlisted?",
		"-q -v":                       "--quiet and --verbose contradict each other",
		"--from0":                     "--from0 needs --files-from",
		"--manifest - --files-from -": "--manifest - and --files-from - both need standard input",
		"--log-file=":                 "--log-file: the name is empty",
		"--log-file=no/log":           "--log-file: 'no/log': ",
		"--bwlimit=80":                "--bwlimit: 80 needs a unit; write it as 80B, 80K or 80M",
	} {
		r := verifyCommand(t, ends[verify.Options](&verify.Summary{}, nil), "", strings.Fields(line)...)
		if r.code != 2 || r.options != nil {
			t.Errorf("%s: exit code %d, options %v", line, r.code, r.options)
		}
		if !strings.HasPrefix(r.stderr, "sealift: ") || !strings.Contains(r.stderr, want) || !strings.HasSuffix(r.stderr, "Try 'sealift verify --help'.\n") {
			t.Errorf("%s: stderr %q lacks %q", line, r.stderr, want)
		}
		if strings.Contains(line, "--json") != strings.Contains(r.stdout, `"exit_code":2`) {
			t.Errorf("%s: stdout %q", line, r.stdout)
		}
	}
	if r := verifyCommand(t, ends[verify.Options](&verify.Summary{}, nil), "", ""); r.code != 2 || !strings.Contains(r.stderr, "the name of a path is empty") {
		t.Errorf("empty name: exit code %d, stderr %q", r.code, r.stderr)
	}
}
