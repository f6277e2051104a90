package cli

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/failure"
	outcomes "github.com/seed65876f4f/sealift/internal/outcome"
	"github.com/seed65876f4f/sealift/internal/progress"
)

type (
	countOptions struct {
		paths   []string
		workers int
	}
	countSummary struct{ files int64 }
)

// countOutcome is its outcome.
type countOutcome struct {
	headJSON
	verdict
	Files int64 `json:"files"`
	endJSON
}

func (d *countOutcome) logged() []any { return []any{"files", d.Files} }

func (d *countOutcome) summary() summary {
	s := summary{verdict: &d.verdict}
	s.rows.Add("counted", outcomes.Plural(d.Files, "file", "files"))
	return s
}

// newCountCmd is an example of a complete new command.
func newCountCmd(run runner[countOptions, countSummary]) *cobra.Command {
	options, output := &countOptions{}, &outputFlags{}
	cmd := &cobra.Command{
		Use:         "count [flags] PATH...",
		Short:       "Count files",
		Example:     "  sealift count /mnt/archive",
		Annotations: exits{0: "everything is counted", 1: "a file could not be read"}.annotations(),
	}
	addGroups(cmd, []flagGroup{
		{groupSpeed, func(s *pflag.FlagSet) { workersFlag(s, &options.workers, "count `NUMBER` files at once") }},
		{groupOutput, output.progressFlag},
	})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return usagef("PATH is missing")
		}
		options.paths = args
		r, err := newReporter(cmd, output, usedFiles{})
		if err != nil {
			return err
		}
		return runCommand(cmd, job[countOptions, countSummary]{
			reporter: r,
			run:      run,
			options:  options,
			finish: func(s *countSummary, result outcome) outcome {
				return r.publish(cmd.OutOrStdout(), result, func(result outcome) document {
					d := &countOutcome{headJSON: r.head(), verdict: r.verdict(words{"complete", "complete"}, words{"not_complete", "NOT COMPLETE"}), Files: s.files, endJSON: r.ending(result)}
					d.close(result, r.where)
					return d
				})
			},
		})
	}
	return cmd
}

func TestANewCommandNeedsOneConstructorAndOneLine(t *testing.T) {
	line := func(run runner[countOptions, countSummary], args ...string) (code int, stdout, stderr string) {
		var out, messages bytes.Buffer
		root := newRootCmd(newCountCmd(run), newManCmd(), newCompletionCmd()) // the line
		code = execute(t.Context(), root, args, strings.NewReader(""), &out, &messages)
		return code, out.String(), messages.String()
	}
	counts := func(_ context.Context, o *countOptions, c *counters.Set) (*countSummary, error) {
		c.Files.Store(7)
		return &countSummary{files: int64(len(o.paths) + o.workers)}, nil
	}

	code, stdout, stderr := line(counts, "count", "--workers", "3", "a", "b")
	assert.Zero(t, code)
	assert.Equal(t, "complete\ncounted     5 files\n", stdout)
	assert.Empty(t, stderr)

	_, stdout, _ = line(counts, "--help")
	assert.Contains(t, stdout, "  count        Count files\n")
	_, stdout, _ = line(counts, "count", "--help")
	assert.Contains(t, stdout, "Speed and memory:\n      --workers NUMBER  count NUMBER files at once (default auto)\n\nOther flags:\n")
	assert.Contains(t, stdout, "\n  130  stopped by SIGINT (Ctrl-C)\n")
	_, stdout, _ = line(counts, "__completeNoDesc", "count", "--progress=")
	assert.Equal(t, strings.Join(append(progress.Modes.List(), thenNothing), "\n")+"\n", stdout)
	dir := t.TempDir()
	code, _, _ = line(counts, "man", dir)
	assert.Zero(t, code)
	page, err := os.ReadFile(filepath.Join(dir, "sealift-count.1"))
	require.NoError(t, err)
	assert.Contains(t, string(page), "files at once")

	for _, c := range []struct {
		args   []string
		run    runner[countOptions, countSummary]
		code   int
		stderr string
	}{
		{[]string{"count"}, counts, 2, "sealift: PATH is missing\nTry 'sealift count --help'.\n"},
		{[]string{"count", "--progress=jsno", "a"}, counts, 2, "known are auto, bar, plain, json, none\n"},
		{[]string{"count", "a"}, ends[countOptions, countSummary](nil, failure.Refuse("no")), 2, "sealift: no\n"},
		{[]string{"count", "a"}, ends[countOptions, countSummary](nil, errors.New("broken")), 1, "sealift: broken\n"},
		{[]string{"count", "a"}, ends[countOptions, countSummary](nil, Interrupt{os.Interrupt}), 130, "sealift: stopped by SIGINT\n"},
		{[]string{"count", "--progress=json", "a"}, counts, 0, `"files":7,`},
	} {
		code, _, stderr = line(c.run, c.args...)
		assert.Equal(t, c.code, code, "%q", c.args)
		assert.Contains(t, stderr, c.stderr, "%q", c.args)
	}
}
