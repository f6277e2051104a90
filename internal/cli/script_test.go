package cli

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/shard"
)

// planOfFiles makes a plan with one shard for each of some files.
func planOfFiles(t *testing.T, files int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "the plan")
	require.NoError(t, os.Mkdir(path, 0o700))
	dir, err := fsys.OpenRoot(path)
	require.NoError(t, err)
	defer dir.Close()
	p, err := shard.NewPlanner(dir, shard.PlanOptions{
		Source:  shard.Root{Path: "/source"},
		Targets: []shard.Root{{Path: "/destination"}},
		Shards:  files,
	})
	require.NoError(t, err)
	defer p.Close()
	require.NoError(t, p.AddDirectory(shard.Directory{}))
	for i := range files {
		e := shard.Entry{Path: fmt.Sprintf("file %d", i), Kind: fsys.Regular, Size: 1 << 30}
		require.NoError(t, p.Add(e, fsys.ID{Ino: uint64(i) + 3}, 1))
	}
	_, err = p.Write(t.Context())
	require.NoError(t, err)
	return path
}

// finish finishes a shard with some failures.
func finish(t *testing.T, plan string, index int, failures int64) {
	t.Helper()
	dir, err := fsys.OpenRoot(plan)
	require.NoError(t, err)
	defer dir.Close()
	store, err := shard.Open(dir)
	require.NoError(t, err)
	attempt, err := store.Begin(t.Context(), index, shard.AttemptOptions{})
	require.NoError(t, err)
	defer attempt.Close()
	require.NoError(t, attempt.Finish(shard.Finished{Failures: failures}))
}

// script parses a command line of plan that asks for a script.
func script(t *testing.T, plan string, args ...string) (string, error) {
	t.Helper()
	flags := &scriptFlags{}
	cmd := &cobra.Command{Use: "plan", SilenceErrors: true, SilenceUsage: true, RunE: func(cmd *cobra.Command, args []string) error {
		if err := flags.check(cmd, args); err != nil || !flags.given() {
			return err
		}
		return flags.print(cmd, plan)
	}}
	addGroups(cmd, []flagGroup{{"Scripts", flags.define}, {"Others", func(s *pflag.FlagSet) { s.Bool("verify", false, "") }}})
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetArgs(args)
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

func TestAScriptSubmitsTheRemainingShards(t *testing.T) {
	plan := planOfFiles(t, 4)
	text, err := script(t, plan, "--script=slurm", "--tasks=2", "--bwlimit=100MB/s", "--dirty-window=1GiB")
	require.NoError(t, err)
	assert.Contains(t, text, "--array=0-3%2 ")
	assert.Contains(t, text, "run --bwlimit=100MB/s --dirty-window=1GiB '"+plan+"'")
	assert.Contains(t, text, "2 tasks copy up to 200 MB/s together")
	assert.Contains(t, text, "2 tasks leave up to 2.15 GB unwritten together")

	finish(t, plan, 0, 0)
	finish(t, plan, 2, 1) // it can be run again
	text, err = script(t, plan, "--script=slurm")
	require.NoError(t, err)
	assert.Contains(t, text, "--array=1-3%4 ")
	assert.NotContains(t, text, "together")

	finish(t, plan, 1, 0)
	finish(t, plan, 3, 0)
	text, err = script(t, plan, "--script=parallel")
	require.NoError(t, err)
	assert.Contains(t, text, "shards=(2)\n")
}

func TestAScriptRefusesOptionsOfThePlan(t *testing.T) {
	plan := planOfFiles(t, 1)
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--script=slurm", "/source", "/destination"}, "takes no SRC and DST"},
		{[]string{"--script=slurm", "--verify"}, "--verify and --script contradict"},
		{[]string{"--tasks=2"}, "--tasks belongs to each task"},
		{[]string{"--bwlimit=2MB"}, "--bwlimit belongs to each task"},
		{[]string{"--script=pbs"}, `unknown batch system "pbs"; known are slurm, kubernetes, parallel`},
		{[]string{"--script=slurm", "--tasks=0"}, "out of range"},
	} {
		text, err := script(t, plan, c.args...)
		assert.ErrorContains(t, err, c.want)
		assert.Empty(t, text)
	}
	_, err := script(t, filepath.Join(plan, "none"), "--script=slurm")
	assert.ErrorContains(t, err, syscall.ENOENT.Error())
}

// A full disk or a closed pipe must not look like a complete script.
func TestAScriptThatCannotBePrintedIsAnError(t *testing.T) {
	plan := planOfFiles(t, 1)
	cmd := &cobra.Command{}
	cmd.SetContext(t.Context())
	cmd.SetOut(writerFunc(func([]byte) (int, error) { return 0, errors.New("no space") }))
	flags := &scriptFlags{}
	addGroups(cmd, []flagGroup{{"Scripts", flags.define}})
	require.NoError(t, cmd.Flags().Set("script", "parallel"))
	assert.ErrorContains(t, flags.print(cmd, plan), "no space")
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
