//go:build unix

package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/engine"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/treetest"
)

var metricLine = regexp.MustCompile(`(?m)^(sealift_\w+)(\{.*\}) (\S+)$`)

// readMetrics returns the text of a metrics file, and its values by name and labels.
func readMetrics(t *testing.T, file string) (text string, values map[string]string) {
	t.Helper()
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	values = map[string]string{}
	for _, m := range metricLine.FindAllStringSubmatch(string(content), -1) {
		require.NotContains(t, values, m[1]+m[2])
		values[m[1]+m[2]] = m[3]
	}
	require.Equal(t, len(values), strings.Count(string(content), "\nsealift_"), string(content))
	return string(content), values
}

// judgedByPromtool checks files with the program of Prometheus, if it is installed.
func judgedByPromtool(t *testing.T, command string, text string) {
	t.Helper()
	t.Run("promtool", func(t *testing.T) {
		program, err := exec.LookPath("promtool")
		if err != nil {
			t.Skip("promtool is not installed, so nothing judges the format of metrics")
		}
		file := filepath.Join(t.TempDir(), "text")
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		input, err := os.Open(file)
		require.NoError(t, err)
		defer input.Close()
		cmd := exec.CommandContext(t.Context(), program, "check", command)
		if command == "rules" {
			cmd.Args = append(cmd.Args, file)
		}
		cmd.Stdin = input
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s\n%s", out, text)
		require.NotContains(t, string(out), "FAILED")
		if command == "metrics" {
			require.Empty(t, string(out)) // a name that breaks a rule of Prometheus is only a line here
		}
	})
}

// hostileNames returns names that the file system allows, as given and as values of labels.
func hostileNames() [][2]string {
	if runtime.GOOS != "linux" {
		return [][2]string{{"card", "card"}, {"disk", "disk"}}
	}
	return [][2]string{
		{"card \"1\" \\n", `card \"1\" \\n`},
		{"disk\n} 1\n\xff", `$'disk\\n} 1\\n\\377'`},
		{"Öl {a=\"b\"}", `Öl {a=\"b\"}`},
	}
}

// Each command writes metrics with the numbers of its JSON output, beside all other outputs. The table has
// each name, and no other.
func TestMetricsHaveTheNumbersOfTheJSON(t *testing.T) {
	t.Chdir(t.TempDir())
	names := hostileNames()
	src, srcLabel, dst, dstLabel, second := names[0][0], names[0][1], names[1][0], names[1][1], names[len(names)-1]
	treetest.Create(t, src, treetest.Dir{"clip.mov": treetest.File(string(treetest.Pattern(300_000, 1))), "a": treetest.File("1"), "b": treetest.File("2")})
	if second[0] == dst {
		second = [2]string{"disk2", "disk2"}
	}
	both := namesLabel([]string{dst, second[0]})
	both = labelEscapes.Replace(both)
	found := map[string]bool{}
	check := func(code int, labels string, args ...string) map[string]string {
		t.Helper()
		got, stdout, stderr := whole(t.Context(), append(args, "--json", "--quiet", "--log-file", "log", "--metrics", "m.prom")...)
		require.Equal(t, code, got, stderr)
		text, values := readMetrics(t, "m.prom")
		judgedByPromtool(t, "metrics", text)
		for name := range values {
			name, _, _ = strings.Cut(strings.TrimPrefix(name, metricPrefix), "{")
			found[name] = true
		}
		var output struct {
			End      time.Time
			Seconds  json.Number
			Bytes    json.Number
			Rate     json.Number
			ExitCode json.Number `json:"exit_code"`
			Counts   map[string]json.Number
		}
		require.NoError(t, json.Unmarshal([]byte(stdout), &output))
		labels = `{command="` + args[0] + `",` + labels
		require.Equal(t, fmt.Sprint(code), values["sealift_run_exit_code"+labels+"}"], text)
		require.Equal(t, map[bool]string{true: "1", false: "0"}[code == 0], values["sealift_run_success"+labels+"}"])
		for name, want := range map[string]json.Number{"bytes": output.Bytes, "bytes_per_second": output.Rate, "duration_seconds": output.Seconds} {
			require.Equal(t, want.String(), values["sealift_run_"+name+labels+"}"], name)
		}
		require.NotEmpty(t, output.Counts)
		for name, want := range output.Counts {
			require.Equal(t, want.String(), values["sealift_run_outcomes"+labels+`,outcome="`+name+`"}`], name)
		}
		ended, err := json.Number(values["sealift_run_end_timestamp_seconds"+labels+"}"]).Float64()
		require.NoError(t, err)
		require.InDelta(t, float64(time.Now().UnixMilli())/1000, ended, 3600)
		return values
	}

	values := check(0, `source="`+srcLabel+`",destination="`+both+`"`, "copy", "--verify", src, dst, "-o", second[0])
	for _, label := range []string{dstLabel, second[1]} {
		labels := `{command="copy",source="` + srcLabel + `",destination="` + label + `"`
		require.Equal(t, "1", values["sealift_destination_complete"+labels+"}"])
		require.Equal(t, "3", values["sealift_destination_verified_files"+labels+"}"])
		require.Equal(t, "3", values["sealift_destination_outcomes"+labels+`,outcome="created"}`])
		require.Equal(t, "300002", values["sealift_destination_bytes"+labels+"}"])
	}
	check(0, `source="`+both+`"`, "verify", dst, second[0])

	require.NoError(t, os.WriteFile(filepath.Join(dst, "a"), []byte("x"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dst, "b"), []byte("xyz"), 0o600))
	check(3, `source="`+dstLabel+`"`, "verify", dst)
	scrubbed := `{command="scrub",source="` + dstLabel + `"`
	yesterday := time.Now().Add(-24 * time.Hour).UTC().Truncate(time.Second)
	require.NoError(t, os.Chtimes(filepath.Join(dst, "a"), yesterday, yesterday))
	date := yesterday.Format(time.RFC3339)
	require.NoError(t, os.WriteFile("state", fmt.Appendf(nil, "# sealift scrub state 1\n# run %[1]s\ngood %[1]s %[1]s 1 %[2]d.000000000  a\n", date, yesterday.Unix()), 0o600))
	values = check(3, `source="`+dstLabel+`"`, "scrub", "--for", "1h", "--state", "state", dst)
	require.Equal(t, "1", values["sealift_run_outcomes"+scrubbed+`,outcome="rotted"}`])
	require.Equal(t, "1", values["sealift_scrub_checked_ratio"+scrubbed+"}"])
	oldest, err := json.Number(values["sealift_scrub_oldest_check_timestamp_seconds"+scrubbed+"}"]).Int64()
	require.NoError(t, err)
	require.InDelta(t, time.Now().Unix(), oldest, 3600)

	check(0, `source="`+srcLabel+`",destination="`+dstLabel+`"`, "repair", dst, "--from", src)
	for _, row := range metricTable {
		require.Contains(t, found, row.name)
		delete(found, row.name)
	}
	require.Empty(t, found)
}

// A number, a time, a value to compare with, a ratio, or nothing.
func TestValuesOfMetrics(t *testing.T) {
	fields := map[string]any{
		"n": json.Number("3"), "zero": json.Number("0"), "null": nil, "none": "",
		"time": "2026-11-26T06:19:29.250Z", "word": "complete", "counts": map[string]any{"a": json.Number("1")},
	}
	for _, c := range []struct{ field, value, want string }{
		{"n", "", "3"},
		{"n", "3", "1"},
		{"zero", "3", "0"},
		{"time", "", "1795673969.25"},
		{"word", "complete", "1"},
		{"word", "not_complete", "0"},
		{"null", "", ""},
		{"none", "", ""},
		{"absent", "complete", ""},
		{"counts.a", "", "1"},
		{"counts.absent.deeper", "", ""},
		{"counts.a / n", "", "0.333333"},
		{"counts.a / zero", "", ""},
		{"counts.a / absent", "", ""},
	} {
		require.Equal(t, c.want, (&metric{value: c.value}).number(fieldAt(fields, c.field)), c)
	}
}

// A run that is refused, fails or is interrupted writes metrics, too.
func TestMetricsOfBadRuns(t *testing.T) {
	t.Chdir(t.TempDir())
	treetest.Create(t, "card", treetest.Dir{"clip.mov": treetest.File(string(treetest.Pattern(8<<20, 1)))})
	labels := `{command="copy",source="card",destination="dst"}`
	code, _, stderr := whole(t.Context(), "copy", "--metrics", "m.prom", "nowhere", "dst")
	require.Equal(t, 2, code, stderr)
	_, values := readMetrics(t, "m.prom")
	refused := `{command="copy",source="nowhere",destination="dst"}`
	require.Equal(t, "2", values["sealift_run_exit_code"+refused])
	require.Equal(t, "0", values["sealift_run_success"+refused])
	require.Len(t, values, 3) // nothing was counted

	ctx, cancel := context.WithCancelCause(t.Context())
	defer time.AfterFunc(300*time.Millisecond, func() { cancel(Interrupt{syscall.SIGTERM}) }).Stop()
	code, _, _ = whole(ctx, "copy", "--bwlimit=4MB", "--metrics", "m.prom", "card", "dst")
	require.Equal(t, 143, code)
	_, values = readMetrics(t, "m.prom")
	require.Equal(t, "143", values["sealift_run_exit_code"+labels])
	require.Equal(t, "0", values["sealift_run_success"+labels])
	require.Equal(t, "0", values["sealift_destination_complete"+labels])

	if _, err := os.Stat("/dev/full"); err == nil {
		code, _, _ = whole(t.Context(), "copy", "--log-file", "/dev/full", "--metrics", "m.prom", "card", "dst")
		require.Equal(t, 1, code)
		_, values = readMetrics(t, "m.prom")
		require.Equal(t, "1", values["sealift_run_exit_code"+labels], "the log is written last")
	}
}

// If the path of the metrics is refused, nothing is written.
func TestMetricsAreRefused(t *testing.T) {
	t.Chdir(t.TempDir())
	treetest.Create(t, "card", treetest.Dir{"f": treetest.File("1")})
	treetest.Create(t, "dir", treetest.Dir{})
	require.NoError(t, os.WriteFile("mine", []byte("sealift_run_success 1\n"), 0o600))
	require.NoError(t, os.WriteFile("page", []byte("<html>"), 0o600))
	for args, want := range map[string]string{
		"copy --metrics mine card dst":                       "it exists and is not a metrics file of Sealift; choose another name",
		"copy --metrics new/m card dst":                      "its directory does not exist; create it, or choose another",
		"copy --metrics dir card dst":                        "it is a directory",
		"copy --metrics card/m card dst":                     "is inside the source",
		"copy --metrics= card dst":                           "the name is empty",
		"copy --metrics - card dst":                          "use ./-",
		"copy -n --metrics m card dst":                       "--metrics and --dry-run contradict each other",
		"copy --metrics m --log-file m card dst":             "is also --metrics",
		"copy --metrics m --report m card dst":               "is also --metrics",
		"copy --metrics dst/SHA256SUMS card dst":             "has the name of a manifest",
		"verify --metrics page card":                         "it exists and is not a metrics file",
		"scrub --state s --for 1s --metrics s card":          "is also the state",
		"scrub --state s --for 1s --metrics page card":       "it exists and is not a metrics file",
		"repair --metrics card/m card --from dir":            "is inside the directory to repair",
		"repair --metrics dir/m card --from dir":             "is inside 'dir'",
		"repair --metrics m --dry-run card --from dir":       "contradict each other",
		"repair --metrics page --log-file l card --from dir": "it exists and is not a metrics file",
	} {
		before := treeOf(t)
		code, _, stderr := whole(t.Context(), strings.Fields(args)...)
		require.Equal(t, 2, code, "%s: %s", args, stderr)
		require.Contains(t, stderr, want, args)
		require.Equal(t, before, treeOf(t), args)
	}
}

// The run goes on if the metrics cannot be written, and then fails.
func TestMetricsThatCannotBeWritten(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "new", "m.prom")
	require.NoError(t, os.Mkdir(filepath.Dir(file), 0o700))
	meanwhile := func(context.Context, *engine.Options, *counters.Set) (*engine.Summary, error) {
		return &engine.Summary{}, os.Remove(filepath.Dir(file))
	}
	r := command(t, meanwhile, "", "copy", "--json", "--metrics", file, dir+"/card", dir+"/dst")
	require.Equal(t, 1, r.code)
	require.Equal(t, 1, strings.Count(r.stderr, "sealift: --metrics '"+file+"': "), r.stderr)
	require.Contains(t, r.stdout, `"errors":1`)
}

// If any operation fails, the file has the old metrics or the new ones, and no other file is left.
func TestMetricsAreCompleteOrOld(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "m.prom")
	cmd := &cobra.Command{Use: "scrub"}
	used := usedFiles{read: []string{"/archive"}}
	text := func(n int) string {
		m := &metricsFile{command: "scrub", source: "/archive"}
		return m.render(map[string]any{"bytes": json.Number(fmt.Sprint(n))})
	}
	failed := 0
	for n := 1; ; n++ {
		require.NoError(t, os.WriteFile(file, []byte(text(0)), 0o600))
		calls, armed := 0, false
		sys := &fsys.FS{Fault: func(fsys.Call) error {
			if armed {
				calls++
			}
			if calls == n {
				return syscall.ENOSPC
			}
			return nil
		}}
		m, err := openMetrics(cmd, sys, file, used)
		require.NoError(t, err)
		armed = true
		err = m.write(struct {
			Bytes int `json:"bytes"`
		}{1})
		content, readErr := os.ReadFile(file)
		require.NoError(t, readErr)
		if calls < n {
			require.NoError(t, err)
			require.Equal(t, text(1), string(content))
			break
		}
		require.ErrorContains(t, err, "--metrics '"+file+"': ", "operation %d", n)
		require.Contains(t, []string{text(0), text(1)}, string(content))
		names, err := os.ReadDir(dir)
		require.NoError(t, err)
		require.Len(t, names, 1)
		failed++
	}
	require.Greater(t, failed, 5)
	info, err := os.Stat(file)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o644), info.Mode(), "node_exporter is another user")
}

// The documentation has a table with each metric, and alerts that Prometheus accepts.
func TestDocsListEveryMetric(t *testing.T) {
	content, err := os.ReadFile(filepath.FromSlash("../../docs/metrics.md"))
	require.NoError(t, err)
	var want strings.Builder
	for _, row := range metricTable {
		fmt.Fprintf(&want, "| `%s%s` | %s |\n", metricPrefix, row.name, strings.TrimSuffix(row.help, "."))
	}
	_, table, _ := strings.Cut(string(content), "|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	require.Equal(t, want.String(), table+"\n", "the table of docs/metrics.md; the expected rows are those of the program")
	_, rules, found := strings.Cut(string(content), "```yaml\n")
	require.True(t, found)
	rules, _, _ = strings.Cut(rules, "```\n")
	judgedByPromtool(t, "rules", rules)
	known := map[string]bool{}
	for _, row := range metricTable {
		known[metricPrefix+row.name] = true
	}
	for _, name := range regexp.MustCompile(`sealift_\w+`).FindAllString(string(content), -1) {
		require.True(t, known[name], name)
	}
}
