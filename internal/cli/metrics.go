package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/outfile"
	"github.com/seed65876f4f/sealift/internal/quote"
)

// This file writes the outcome of a command for the textfile collector of node_exporter. The metrics are
// fields of the JSON output, so that a command needs no code for them.

// metric is one row of docs/metrics.md, and the field of the JSON output that has its value.
type metric struct {
	name, help string

	// field is the path of a number, of a time, or of an object with numbers. Each number of an object
	// is a series, whose label outcome is its name. Below "destinations" are series for each destination.
	// "A / B" is the ratio of two numbers. A command whose output lacks the field has no such metric.
	field string
	value string // if not empty: the metric is 1 if the field has this value, and otherwise 0
}

const metricPrefix = "sealift_"

var metricTable = []metric{
	{"run_end_timestamp_seconds", "Time at which the run ended.", "end", ""},
	{"run_success", "1 if the exit code is 0, otherwise 0.", "exit_code", "0"},
	{"run_exit_code", "Exit code of the program.", "exit_code", ""},
	{"run_duration_seconds", "Elapsed time of the run.", "seconds", ""},
	{"run_bytes", "Bytes that were copied, checked or repaired.", "bytes", ""},
	{"run_bytes_per_second", "Average rate of copying, checking or repairing.", "rate", ""},
	{"run_read_back_bytes_per_second", "Average rate of reading the copies back.", "read_back_rate", ""},
	{"run_outcomes", "Number of files, lines or messages with this outcome.", "counts", ""},
	{"destination_complete", "1 if the destination has everything that was requested, otherwise 0.", "destinations.verdict", "complete"},
	{"destination_outcomes", "Number of entries with this outcome at the destination.", "destinations.counts", ""},
	{"destination_present_files", "Files that exist at the destination and equal the source.", "destinations.present", ""},
	{"destination_missing_files", "Files that the destination lacks.", "destinations.missing", ""},
	{"destination_verified_files", "Files that were read back and are equal.", "destinations.verified", ""},
	{"destination_conflicts", "Entries that the overwrite policy left alone.", "destinations.conflicts", ""},
	{"destination_failures", "Failures and mismatches that concern only this destination.", "destinations.failures", ""},
	{"destination_bytes", "Bytes that were written to the destination.", "destinations.bytes", ""},
	{"destination_bytes_per_second", "Average rate of copying to the destination.", "destinations.rate", ""},
	{"destination_read_back_bytes_per_second", "Average rate of reading the destination back.", "destinations.read_back_rate", ""},
	{"scrub_checked_ratio", "Part of the listed files that the run has checked, from 0 to 1.", "counts.files / counts.listed", ""},
	{"scrub_listed_bytes", "Size of all listed files; an estimate while some were never checked.", "total_bytes", ""},
	{"scrub_oldest_check_timestamp_seconds", "Time of the oldest check of a listed file.", "oldest_check", ""},
	{"scrub_runs", "Runs like this one that check every file once; 0 if unknown.", "runs", ""},
	{"scrub_complete_timestamp_seconds", "Time at which every file will have been checked at this pace.", "until", ""},
}

// metricsForm recognizes earlier files. The format reads its mark as a comment.
var metricsForm = outfile.Form{Name: "a metrics file of Sealift", Mark: "# sealift metrics\n", Mode: 0o644}

// metricsFile writes the file of --metrics. A nil *metricsFile writes nothing.
type metricsFile struct {
	place                         *outfile.Place
	command, source, destinations string // labels
	written                       []string
}

// metricsFlag defines --metrics.
func (f *outputFlags) metricsFlag(s *pflag.FlagSet) {
	s.StringVar(&f.metrics, "metrics", "", "write metrics for Prometheus to `FILE`, also if the run fails")
}

// openMetrics checks that the file of --metrics can be written. It returns nil if the flag was not given. The
// error is a refusal.
func openMetrics(cmd *cobra.Command, sys *fsys.FS, file string, used usedFiles) (*metricsFile, error) {
	dryRun := cmd.Flag("dry-run")
	switch {
	case file == "" && (cmd.Flag("metrics") == nil || !cmd.Flag("metrics").Changed):
		return nil, nil //nolint:nilnil // a nil *metricsFile writes nothing
	case file == "":
		return nil, usagef("--metrics: the name is empty")
	case file == "-":
		return nil, usagef("--metrics needs a file; to write metrics to a file of that name, use ./-")
	case dryRun != nil && dryRun.Value.String() == "true":
		return nil, usagef("--metrics and --dry-run contradict each other: metrics are about runs that change something")
	}
	place, err := outfile.Open(sys, file, metricsForm)
	if err != nil {
		return nil, failure.Refuse("--metrics %s: %s", quote.Name(file), quote.Text(fsys.BareError(err).Error()))
	}
	return &metricsFile{place, cmd.Name(), namesLabel(used.read), namesLabel(used.written), used.written}, nil
}

// namesLabel returns names as the value of a label: one name is unchanged if it is plain, several are quoted for
// a shell. So the value is valid UTF-8, and different names have different values.
func namesLabel(names []string) string {
	if len(names) == 1 {
		return quote.Plain(names[0])
	}
	var words []string
	for _, name := range names {
		words = append(words, quote.Word(name))
	}
	return strings.Join(words, " ")
}

// publish writes the metrics of a run. If they cannot be written, it reports that and returns a failed outcome.
func (m *metricsFile) publish(r *reporter, result outcome, build func(outcome) document) outcome {
	if m == nil {
		return result
	}
	if err := m.write(build(result)); err != nil {
		r.failure("", "", err)
		result.failed = true
	}
	return result
}

// refused writes the metrics of a run that was refused.
func (m *metricsFile) refused(r *reporter) error {
	if m == nil {
		return nil
	}
	return m.write(struct {
		headJSON
		ExitCode int `json:"exit_code"`
	}{r.head(), outcome{refused: true}.code()})
}

// write writes the metrics of a document.
func (m *metricsFile) write(document any) error {
	text, err := json.Marshal(document)
	if err != nil {
		return err
	}
	var fields map[string]any
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&fields); err != nil {
		return err
	}
	err = m.place.Write(func(w io.Writer) error {
		_, err := io.WriteString(w, m.render(fields))
		return err
	})
	if err != nil {
		return fmt.Errorf("--metrics %s: %w", quote.Name(m.place.Path), fsys.BareError(err))
	}
	return nil
}

// render returns the text of the file.
func (m *metricsFile) render(fields map[string]any) string {
	var sb strings.Builder
	sb.WriteString(metricsForm.Mark)
	for i := range metricTable {
		row := &metricTable[i]
		series := m.series(row, fields)
		if len(series) == 0 {
			continue
		}
		name := metricPrefix + row.name
		fmt.Fprintf(&sb, "# HELP %s %s\n# TYPE %s gauge\n", name, row.help, name)
		for _, line := range series {
			sb.WriteString(name + line + "\n")
		}
	}
	return sb.String()
}

// series returns the series of a metric: labels and values.
func (m *metricsFile) series(row *metric, fields map[string]any) (lines []string) {
	field, ofDestination := strings.CutPrefix(row.field, "destinations.")
	if !ofDestination {
		return m.values(row, fieldAt(fields, field), m.destinations)
	}
	list, _ := fields["destinations"].([]any)
	for i, d := range list {
		lines = append(lines, m.values(row, fieldAt(d, field), namesLabel(m.written[i:i+1]))...)
	}
	return lines
}

// values returns one series, or one for each field of an object.
func (m *metricsFile) values(row *metric, field any, destination string) (lines []string) {
	counts, several := field.(map[string]any)
	if !several {
		counts = map[string]any{"": field}
	}
	for _, outcome := range slices.Sorted(maps.Keys(counts)) {
		if number := row.number(counts[outcome]); number != "" {
			labels := ""
			for _, label := range [][2]string{{"command", m.command}, {"source", m.source}, {"destination", destination}, {"outcome", outcome}} {
				if label[1] != "" {
					labels += "," + label[0] + `="` + labelEscapes.Replace(label[1]) + `"`
				}
			}
			lines = append(lines, "{"+labels[1:]+"} "+number)
		}
	}
	return lines
}

// labelEscapes are those of the text format. [namesLabel] leaves no line feed.
var labelEscapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`)

// number returns the value of a metric for a field; "" if the field has none.
func (row *metric) number(field any) string {
	switch v := field.(type) {
	case nil:
		return ""
	case json.Number:
		field = v.String()
	}
	text, _ := field.(string)
	if row.value != "" {
		return strconv.Itoa(map[bool]int{true: 1}[text == row.value])
	}
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		const perSecond = 1000
		return strconv.FormatFloat(float64(t.UnixMilli())/perSecond, 'f', -1, 64)
	}
	return text
}

// fieldAt returns a field of a decoded object, or the ratio of two; nil if there is none.
func fieldAt(object any, path string) any {
	if part, all, isRatio := strings.Cut(path, " / "); isRatio {
		a, b := fieldAt(object, part), fieldAt(object, all)
		if a == nil || b == nil || b == json.Number("0") {
			return nil
		}
		x, _ := a.(json.Number).Float64()
		y, _ := b.(json.Number).Float64()
		return json.Number(strconv.FormatFloat(x/y, 'g', 6, 64))
	}
	for key := range strings.SplitSeq(path, ".") {
		fields, _ := object.(map[string]any)
		object = fields[key]
	}
	return object
}
