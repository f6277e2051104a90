package cli

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/engine"
)

// ran returns a run with the given summary.
func ran(s engine.Summary) runCopy {
	return func(context.Context, *engine.Options, *counters.Set) (*engine.Summary, error) { return &s, nil }
}

func TestTheSummarySaysWhatHasLimitedTheRun(t *testing.T) {
	one, two := []engine.TargetSummary{{Path: "a"}}, []engine.TargetSummary{{Path: "a"}, {Path: "b c"}}
	for _, c := range []struct {
		summary engine.Summary
		want    string
	}{
		{engine.Summary{Totals: engine.Totals{Files: 1}, Targets: one, Limit: engine.Share{Place: "source", Share: 0.804}}, "the source, 80 % of the time"},
		{engine.Summary{Totals: engine.Totals{Links: 1}, Targets: one, Limit: engine.Share{Place: "cpu", Share: 0.5}}, "the CPU, 50 % of the time"},
		{engine.Summary{Totals: engine.Totals{Files: 1}, Targets: one, Limit: engine.Share{Place: "limit", Share: 0.999}}, "--bwlimit, 100 % of the time"},
		{engine.Summary{Totals: engine.Totals{Files: 1}, Targets: one, Limit: engine.Share{Place: "destination", Target: "a", Share: 0.92}}, "the destination, 92 % of the time"},
		{engine.Summary{Totals: engine.Totals{Files: 1}, Targets: two, Limit: engine.Share{Place: "destination", Target: "b c", Share: 0.92}}, "the destination 'b c', 92 % of the time"},
		{engine.Summary{Totals: engine.Totals{Directories: 1}, Targets: two, Limit: engine.Share{Place: "destination", Share: 0.92}}, "the destinations, 92 % of the time"},
		{engine.Summary{Totals: engine.Totals{Skipped: 9}, Targets: one, Limit: engine.Share{Place: "source", Share: 1}}, ""},
		{engine.Summary{Totals: engine.Totals{Files: 1}, Targets: one, DryRun: true, Limit: engine.Share{Place: "source", Share: 1}}, ""},
		{engine.Summary{Totals: engine.Totals{Files: 1}, Targets: one}, ""},
	} {
		c.summary.Elapsed = time.Second
		out := command(t, ran(c.summary), "", "copy", "src", "a").stdout
		row := ""
		for line := range strings.Lines(out) {
			if rest, ok := strings.CutPrefix(line, "limited by  "); ok {
				row = strings.TrimSuffix(rest, "\n")
			}
		}
		require.Equal(t, c.want, row, "%+v", c.summary)
	}
}

// --debug prints the shares and the counters on standard error, with any other output flags.
func TestDebugPrintsSharesAndCounters(t *testing.T) {
	run := func(_ context.Context, _ *engine.Options, c *counters.Set) (*engine.Summary, error) {
		c.Files.Store(152_588)
		c.Bytes.Store(20e9)
		c.Unread.Store(5e9)
		c.ReadBack.Bytes.Store(15e9)
		c.DeviceRate.Store(571e6)
		return &engine.Summary{
			Totals:  engine.Totals{Files: 1},
			Elapsed: 20 * time.Second,
			Targets: []engine.TargetSummary{{Path: "a"}, {Path: "/mnt/b"}},
			Shares:  []engine.Share{{Place: "source", Share: 0.2}, {Place: "cpu", Share: 0.001}, {Place: "limit", Share: 0.05}, {Place: "destination", Target: "/mnt/b", Share: 0.749}},
		}, nil
	}
	for _, flags := range []string{"--debug", "--debug -q", "--debug --json"} {
		r := command(t, run, "", append(strings.Fields("copy --progress=none "+flags), "src", "a")...)
		require.Equal(t, "waited for: source 20 %, --bwlimit 5 %, '/mnt/b' 75 %\n"+
			"counted: 152,588 files, 20.0 GB, 5.00 GB of it not read, 15.0 GB read back, slowest device 571 MB/s\n", r.stderr, flags)
	}
	require.Empty(t, command(t, run, "", "copy", "--progress=none", "src", "a").stderr)
	require.Equal(t, "counted: 0 files, 0 B\n", command(t, ran(engine.Summary{}), "", "copy", "--progress=none", "--debug", "src", "a").stderr)
}

// parseLog splits a line of a log into its fields, as a program would. A field is a name, an
// equals sign and a value, which may be quoted in the syntax of Go. File names may also be
// quoted for a shell.
func parseLog(t *testing.T, line string) map[string]string {
	t.Helper()
	fields := map[string]string{}
	for rest := line; rest != ""; {
		key, value, ok := strings.Cut(rest, "=")
		require.True(t, ok, "%q in %q", rest, line)
		require.Regexp(t, `^[a-z0-9_]+$`, key)
		require.NotContains(t, fields, key, line)
		if strings.HasPrefix(value, `"`) {
			quoted, err := strconv.QuotedPrefix(value)
			require.NoError(t, err, line)
			fields[key], err = strconv.Unquote(quoted)
			require.NoError(t, err, line)
			rest = value[len(quoted):]
		} else {
			fields[key], rest, _ = strings.Cut(value, " ")
			require.NotContains(t, fields[key], `"`)
			rest = " " + rest
		}
		if key == "path" || key == "destination" || key == "source" {
			fields[key] = unquoteShell(t, fields[key])
		}
		if rest = strings.TrimPrefix(rest, " "); rest == "" {
			break
		}
	}
	return fields
}

// unquoteShell removes the quotes from a word, as bash does.
func unquoteShell(t *testing.T, word string) string {
	t.Helper()
	if plain, ok := strings.CutPrefix(word, "'"); ok {
		return strings.TrimSuffix(plain, "'")
	}
	escaped, ok := strings.CutPrefix(word, "$'")
	if !ok {
		return word
	}
	escaped = strings.ReplaceAll(strings.TrimSuffix(escaped, "'"), `"`, `\"`)
	name, err := strconv.Unquote(`"` + strings.ReplaceAll(escaped, `\'`, `'`) + `"`) // all other escapes are those of Go
	require.NoError(t, err, word)
	return name
}

// The log of a copy with hostile names can be read back, byte for byte.
func TestEveryLineOfALogCanBeRead(t *testing.T) {
	dir := t.TempDir()
	source := filepath.Join(dir, "src")
	require.NoError(t, os.Mkdir(source, 0o755))
	names := map[string]bool{}
	for _, name := range []string{
		"plain", "a b", "new\nline", "tab\t", `back\slash`, `"quoted"`, "it's", "k=v", "=", "\xff\xfe", "\u00ff", "\u2028", "\u202e", "\x1b[2J", "é", "\ufffd", " ",
	} {
		if err := os.WriteFile(filepath.Join(source, name), []byte(name), 0o644); err != nil {
			t.Logf("%q cannot be made here: %v", name, err)
			continue
		}
		if runtime.GOOS == "windows" { // its names are UTF-16
			name = strings.ToValidUTF8(name, "\ufffd\ufffd")
		}
		names[name] = true
	}
	// One entry fails, and one is a conflict.
	target, second := filepath.Join(dir, "d\nst=\xff"), filepath.Join(dir, "second")
	if os.Mkdir(target, 0o755) != nil {
		target = filepath.Join(dir, "dst")
	}
	require.NoError(t, os.MkdirAll(filepath.Join(target, "a b", "c"), 0o755))
	log := filepath.Join(dir, "log")
	r := command(t, engine.Run, "", "copy", "--log-file", log, source, target, "-o", second)
	require.Equal(t, 4, r.code, r.stderr)
	content, err := os.ReadFile(log)
	require.NoError(t, err)
	created, conflicts, first, last, destinations := map[string]bool{}, 0, "", "", 0
	for line := range strings.Lines(string(content)) {
		for _, b := range []byte(strings.TrimSuffix(line, "\n")) {
			require.False(t, b < ' ' || b == 0x7f, "%q", line)
		}
		fields := parseLog(t, strings.TrimSuffix(line, "\n"))
		_, err := time.Parse(time.RFC3339Nano, fields["time"])
		require.NoError(t, err)
		require.Contains(t, []string{"INFO", "WARN", "ERROR"}, fields["level"])
		last = fields["event"]
		if first == "" {
			first = last
		}
		switch last {
		case "destination":
			destinations++
			require.Contains(t, []string{target, second}, fields["destination"])
		case "created":
			if fields["destination"] == second {
				created[fields["path"]] = true
			}
		case "conflict":
			conflicts++
			require.Equal(t, "a b", fields["path"])
			require.Equal(t, target, fields["destination"])
			require.NotEmpty(t, fields["error"])
		case "limit":
			share, err := strconv.ParseFloat(fields["share"], 64)
			require.NoError(t, err)
			require.LessOrEqual(t, share, 1.0)
		}
	}
	require.Equal(t, names, created)
	require.Equal(t, "start", first)
	require.Equal(t, "finish", last)
	require.Equal(t, 2, destinations)
	require.Equal(t, 1, conflicts)
}

// A run that has waited for something else has no place with a share of the time.
func TestNoPlaceWithoutAShareOfTheTime(t *testing.T) {
	s := &engine.Summary{Totals: engine.Totals{Files: 1}, Elapsed: time.Hour, Limit: engine.Share{Place: "source", Share: 0.004}}
	require.Nil(t, limitOf(s))
	s.Limit.Share = 0.006
	require.Equal(t, "the source, 1 % of the time", limited(limitOf(s), false))
}
