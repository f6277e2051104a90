package cli

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/engine"
	"github.com/seed65876f4f/sealift/internal/failure"
)

func TestAFailedWriteToStandardOutputFailsTheRun(t *testing.T) {
	conflicts := func(context.Context, *engine.Options, *counters.Set) (*engine.Summary, error) {
		return &engine.Summary{Totals: engine.Totals{Conflicts: 1}}, nil
	}
	for name, c := range map[string]struct {
		run  runCopy
		args []string
	}{
		"summary":    {succeeds, []string{"copy", "a", "b"}},
		"conflicts":  {conflicts, []string{"copy", "a", "b"}},
		"json":       {succeeds, []string{"copy", "--json", "a", "b"}},
		"help":       {succeeds, []string{"copy", "--help"}},
		"version":    {succeeds, []string{"version"}},
		"--version":  {succeeds, []string{"--version"}},
		"completion": {succeeds, []string{"completion", "bash"}},
		"zsh":        {succeeds, []string{"completion", "zsh"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := commandTo(t, &fullDisk{free: 5}, c.run, "", c.args...)
			if r.code != 1 {
				t.Errorf("exit code %d, want 1", r.code)
			}
			if want := "sealift: standard output: no space left on device\n"; r.stderr != want {
				t.Errorf("stderr %q, want %q", r.stderr, want)
			}
		})
	}
}

func TestMainReturnsTheExitCode(t *testing.T) {
	var stdout, stderr bytes.Buffer
	if code := Main(t.Context(), []string{"--version"}, strings.NewReader(""), &stdout, &stderr); code != 0 {
		t.Fatalf("exit code %d: %s", code, &stderr)
	}
	if !strings.HasPrefix(stdout.String(), "sealift ") {
		t.Errorf("stdout %q", &stdout)
	}
	// Without arguments it must not fall back on those of the process.
	stdout.Reset()
	if code := Main(t.Context(), nil, strings.NewReader(""), &stdout, &stderr); code != 2 {
		t.Errorf("no arguments: exit code %d, want 2", code)
	}
	if !strings.Contains(stderr.String(), "no command is given") {
		t.Errorf("stderr %q", &stderr)
	}
}

func TestUsageErrorsOfCopyAndOthers(t *testing.T) {
	for _, c := range []struct {
		line string
		want string // part of standard error
	}{
		{"", "no command is given"},
		{"copyy a b", "there is no command \"copyy\"; did you mean copy?"},
		{"frobnicate", "there is no command \"frobnicate\"\n"},
		{"vrify a", "there is no command \"vrify\"; did you mean verify?"},
		{"help frobnicate", "there is no command \"frobnicate\"\n"},
		{"help copyy", "there is no command \"copyy\"; did you mean copy?"},
		{"help copy now", "there is no command \"now\"\n"},
		{"copy", "missing operand SRC"},
		{"copy a", "missing operand DST"},
		{"copy -i a", "missing operand DST"},
		{"copy -o a", "missing operand SRC"},
		{"copy a b c", "'c' is one argument too many: copy takes one source; run it once per source"},
		{"copy a b c d", "'c' is one argument too many"},
		{"copy -i a b c", "'c' is one argument too many"},
		{"copy -i a -i b c", "-i/--input: it is given twice"},
		{"copy --input= a", "-i/--input: the name is empty"},
		{"copy a --output=", "the name of a destination is empty"},
		{"copy --sprase=auto a b", "unknown flag --sprase; did you mean --sparse?"},
		{"copy --exclud=x a b", "unknown flag --exclud; did you mean --exclude?"},
		{"copy --zzzzzzzzzz a b", "unknown flag --zzzzzzzzzz\n"},
		{"copy -Z a b", "unknown flag -Z\n"},
		{"copy a b --hash", "--hash needs a value"},
		{"copy --hash=crc a b", "--hash: unknown hash \"crc\"; known are sha256"},
		{"copy --hash=none,md5 a b", "--hash: none cannot be combined"},
		{"copy --overwrite-policy=maybe a b", "--overwrite-policy: unknown overwrite policy \"maybe\"; known are default, never"},
		{"copy --sync=often a b", "--sync: unknown sync mode \"often\""},
		{"copy --sparse=yes a b", "--sparse: unknown sparse mode \"yes\""},
		{"copy --preserve=soul a b", "--preserve: unknown kind of metadata \"soul\""},
		{"copy --preserve= a b", "--preserve: unknown kind of metadata \"\""},
		{"copy --progress=fancy a b", "--progress: unknown progress mode \"fancy\""},
		{"copy --include=[ a b", "--include: pattern \"[\""},
		{"copy --exclude= a b", "--exclude: pattern \"\""},
		{"copy --exclude-from=no/such/file a b", "--exclude-from: 'no/such/file': no such file or directory\n"},
		{"copy --files-from=no/such/file a b", "--files-from: 'no/such/file': no such file or directory\n"},
		{"copy --from0 a b", "--from0 needs --files-from"},
		{"copy --block-size=4095 a b", "--block-size: 4095 is out of range; it must be 4KiB to 1GiB"},
		{"copy --block-size=1025M a b", "--block-size: 1025M is out of range; it must be 4KiB to 1GiB"},
		{"copy --block-size=big a b", "--block-size: \"big\" is not a size"},
		{"copy --queue-size=0 a b", "--queue-size: 0 is out of range; it must be 1 to 65536"},
		{"copy --queue-size=-1 a b", "--queue-size: -1 is out of range"},
		{"copy --queue-size=many a b", "--queue-size: \"many\" is not a whole number"},
		{"copy --workers=0 a b", "--workers: 0 is out of range; it must be 1 to 1024"},
		{"copy --workers=1025 a b", "--workers: 1025 is out of range"},
		{"copy --memory=127K a b", "--memory 127K is less than one block of 128K"},
		{"copy --memory=1M --block-size=2M a b", "--memory 1M is less than one block of 2M"},
		{"copy --memory=0 a b", "--memory: 0 is out of range; it must be at least 1"},
		{"copy --bwlimit=0 a b", "--bwlimit: 0 is out of range; it must be at least 1"},
		{"copy --bwlimit=0/s a b", "--bwlimit: 0 is out of range"},
		{"copy --bwlimit=off/s a b", "--bwlimit: \"off\" is not a size"},
		{"copy --bwlimit=-80MB a b", "--bwlimit: \"-80MB\" is not a size"},
		{"copy --dirty-window=1023K a b", "--dirty-window: 1023K is out of range; it must be at least 1MiB\n"},
		{"copy --dirty-window=1MB a b", "--dirty-window: 1MB is out of range; it must be at least 1MiB\n"},
		{"copy --dirty-window=0 a b", "--dirty-window: 0 is out of range"},
		{"copy --dirty-window=-1 a b", "--dirty-window: \"-1\" is not a size"},
		{"copy --dirty-window=none a b", "--dirty-window: \"none\" is not a size"},
		{"copy --dirty-window= a b", "--dirty-window: \"\" is not a size"},
		{"copy --cache=full a b", "--cache: unknown cache mode \"full\"; known are auto, keep, drop, direct\n"},
		{"copy --cahce=drop a b", "unknown flag --cahce; did you mean --cache?"},
		{"copy --verify=all a b", "--verify: unknown verify mode \"all\"; known are off, dest, full"},
		{"copy --verify full a b", "'full' is read as a path; write the mode of --verify after an equals sign: --verify=full\n"},
		{"copy a b --verify dest", "'dest' is read as a path; write the mode of --verify after an equals sign: --verify=dest\n"},
		{"copy --verify other a b", "'b' is one argument too many"},
		{"copy --verify --hash=none a b", "--verify needs a digest to compare with"},
		{"copy --verify=full --hash=none a b", "--verify needs a digest to compare with"},
		{"copy --source-manifest=maybe a b", "--source-manifest: unknown source manifest mode \"maybe\"; known are check, present, ignore"},
		{"copy --source-manifest=present --hash=none a b", "--source-manifest=present needs a digest to compare with"},
		{"copy --verfy a b", "unknown flag --verfy; did you mean --verify?"},
		{"copy -q -v a b", "--quiet and --verbose contradict each other"},
		{"copy --manifest= a b", "--manifest: the name is empty"},
		{"copy --log-file= a b", "--log-file: the name is empty"},
		{"copy --log-file=no/such/dir/log a b", "--log-file: 'no/such/dir/log': no such file or directory\n"},
		{"completion", "missing operand SHELL"},
		{"completion tcsh", "there is no completion for \"tcsh\""},
		{"completion bash zsh", "'zsh' is one argument too many"},
		{"man", "missing operand DIR"},
		{"version now", "'now' is one argument too many"},
		{"version --jsno", "unknown flag --jsno; did you mean --json?"},
	} {
		t.Run(c.line, func(t *testing.T) {
			r := command(t, succeeds, "", strings.Fields(c.line)...)
			if r.code != 2 {
				t.Errorf("exit code %d, want 2", r.code)
			}
			if !strings.HasPrefix(r.stderr, "sealift: ") || !strings.Contains(r.stderr, c.want) {
				t.Errorf("stderr %q lacks %q", r.stderr, c.want)
			}
			if !strings.HasSuffix(r.stderr, " --help'.\n") {
				t.Errorf("stderr %q does not end in a hint at --help", r.stderr)
			}
			if r.stdout != "" || r.options != nil {
				t.Errorf("stdout %q, engine %v; want neither", r.stdout, r.options)
			}
		})
	}
}

func TestMessagesCannotReachTheTerminalUnescaped(t *testing.T) {
	for _, args := range [][]string{
		{"\x1b[2J"},
		{"copy", "a", "b", "\x1b[2J"},
		{"copy", "--\x1b[2J", "a", "b"},
		{"copy", "--hash", "\x1b[2J", "a", "b"},
		{"copy", "--files-from", "\x1b[2J", "a", "b"},
		{"copy", "--block-size", "\u009b2J", "a", "b"},
		{"copy", "-\x1b", "a", "b"},
		{"man", "/dev/null/\x1b[2J"},
		{"help", "\x1b[2J"},
	} {
		r := command(t, succeeds, "", args...)
		if r.code == 0 || r.stderr == "" || strings.ContainsAny(r.stderr, "\x1b\u009b") {
			t.Errorf("%q: exit code %d, stderr %q", args, r.code, r.stderr)
		}
	}
}

func TestARefusalIsAlsoJSONIfAskedFor(t *testing.T) {
	refuses := func(context.Context, *engine.Options, *counters.Set) (*engine.Summary, error) {
		return nil, &failure.RefusedError{Reason: "destination 'b' is the source or inside it"}
	}
	for _, c := range []struct {
		line, want string
	}{
		{"copy --json a b", `{"schema":1,"exit_code":2,"error":"destination 'b' is the source or inside it"}`},
		{"copy --json a", `{"schema":1,"exit_code":2,"error":"missing operand DST"}`},
		{"copy --zzzzzz --json a b", `{"schema":1,"exit_code":2,"error":"unknown flag --zzzzzz"}`},
		{"copy --zzzzzz a b -- --json", ``},
		{"copy a b", ``},
		{"copy a --json=false", ``},
	} {
		r := command(t, refuses, "", strings.Fields(c.line)...)
		if got := strings.TrimSuffix(r.stdout, "\n"); got != c.want || r.code != 2 {
			t.Errorf("%s: exit code %d, stdout %q, want %q", c.line, r.code, got, c.want)
		}
		if strings.Count(r.stderr, "sealift: ") != 1 {
			t.Errorf("%s: stderr %q, want one message", c.line, r.stderr)
		}
	}
}
