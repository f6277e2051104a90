package submit

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/quote"
	"github.com/seed65876f4f/sealift/internal/shard"
)

var update = flag.Bool("update", false, "write the files of testdata anew")

// planned returns a plan with shards of half an hour and half a terabyte each.
func planned(shards int) *shard.Plan {
	p := &shard.Plan{
		ID:      "0123456789abcdef0123456789abcdef",
		Source:  shard.Root{Path: "/data/project"},
		Targets: []shard.Root{{Path: "/archive/project"}},
		Totals:  shard.Totals{Entries: 200_000 * int64(shards), Directories: 1000, Bytes: 500e9 * int64(shards)},
	}
	for range shards {
		p.Shards = append(p.Shards, shard.File{Entries: 200_000, Bytes: 500e9, Cost: 1200e9})
	}
	return p
}

func all(shards int) (indexes []int) {
	for i := range shards {
		indexes = append(indexes, i)
	}
	return indexes
}

// usual is a job of the usual kind.
func usual() *Job {
	return &Job{
		Plan: planned(32), Left: all(32), Program: "/opt/sealift", Dir: "/scratch/plan", Tasks: 8,
		User: User{ID: 1000, Group: 100, Groups: []int{27, 1001}},
	}
}

// hostile is a job in whose paths each character means something to a shell, to parallel, or to
// a comment. The remaining shards have gaps, and there are limits.
func hostile() *Job {
	j := usual()
	j.Plan = planned(1500)
	j.Left = []int{0, 1, 2, 751, 1499}
	j.Plan.Source.Path = "/data/a b\n#' $HOME {} $(reboot) `reboot` \\ \"!\xff"
	j.Plan.Targets = append(j.Plan.Targets, shard.Root{Path: "/archive/\u202eévil\n"})
	j.Program = "/opt/a b/sealift"
	j.Dir = "/scratch/it's\n{} $(reboot) `reboot` %s \\n {#} \xff"
	j.RunFlags = []string{"--bwlimit=100MB", "--dirty-window=1GiB"}
	j.BytesPerSecond, j.DirtyWindow = 100e6, 1<<30
	return j
}

func render(t *testing.T, j *Job, system System) string {
	t.Helper()
	var b strings.Builder
	j.System = system
	require.NoError(t, j.Write(&b))
	return b.String()
}

func TestScriptsEqualTheirGoldenFiles(t *testing.T) {
	merging := usual()
	merging.Left = nil
	named := usual()
	named.Plan.Source.Path = "/data/$(HOME) 'a' \"b\" é\n\x7f\u2028"
	named.Plan.Targets = append(named.Plan.Targets, shard.Root{Path: "/second: no"})
	named.Plan.Targets[1].Path = "/second, yes"
	named.User = User{}
	for _, c := range []struct {
		file   string
		job    *Job
		system System
	}{
		{"slurm.sh", usual(), Slurm},
		{"slurm-hostile.sh", hostile(), Slurm},
		{"slurm-merge.sh", merging, Slurm},
		{"parallel.sh", usual(), Parallel},
		{"parallel-hostile.sh", hostile(), Parallel},
		{"parallel-merge.sh", merging, Parallel},
		{"kubernetes.yaml", usual(), Kubernetes},
		{"kubernetes-hostile.yaml", named, Kubernetes},
	} {
		t.Run(c.file, func(t *testing.T) {
			text, path := render(t, c.job, c.system), filepath.Join("testdata", c.file)
			if *update {
				require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
			}
			golden, err := os.ReadFile(path)
			require.NoError(t, err)
			assert.Equal(t, string(golden), text, "go test ./internal/submit -update writes it")
		})
	}
}

// record makes programs that append their standard input and their arguments, each quoted on a
// separate line, to the file. It returns an environment whose PATH has these programs.
func record(t *testing.T, file string, programs ...string) []string {
	t.Helper()
	dir := t.TempDir()
	script := "#!/bin/bash\nexec >>'" + file + "'\necho \"== ${0##*/}\"\nprintf '%q\\n' \"$@\"\n[[ $0 == *sealift ]] || cat\necho 42 >&3\n"
	for _, name := range programs {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(strings.Replace(script, "exec >>", "exec 3>&1 >>", 1)), 0o700)) //nolint:gosec // it has to be executable
	}
	return append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "LC_ALL=C")
}

// run runs a script of bash with arguments.
func run(t *testing.T, env []string, script string, args ...string) string {
	t.Helper()
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("there is no bash")
	}
	path := filepath.Join(t.TempDir(), "script")
	require.NoError(t, os.WriteFile(path, []byte(script), 0o600))
	cmd := exec.CommandContext(t.Context(), "bash", append([]string{path}, args...)...) //nolint:gosec // the script is ours
	cmd.Env = env
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return string(out)
}

// again is the line that submits the rest with the same options.
func again(j *Job, system System, quoted string) string {
	j.System = system
	var words []string
	for _, w := range j.Again() {
		words = append(words, quote.Word(w))
	}
	line := strings.ReplaceAll(strings.Join(words, " "), "'/opt/a b/sealift'", `/opt/a\ b/sealift`) // as printf %q does
	return line + " | bash -s -- " + quoted + " "
}

func TestSlurmGetsPathsByteForByte(t *testing.T) {
	calls := filepath.Join(t.TempDir(), "calls")
	out := run(t, record(t, calls, "sbatch"), render(t, hostile(), Slurm), "--account=a b")
	assert.Contains(t, out, "tasks: job 42; merge: job 42\n")
	recorded, err := os.ReadFile(calls)
	require.NoError(t, err)
	tasks, merge, _ := strings.Cut(strings.TrimPrefix(string(recorded), "== sbatch\n"), "== sbatch\n")
	assert.Contains(t, tasks, "--array=0-2\\,749%8\n")
	assert.Contains(t, tasks, "--account=a\\ b\n")
	assert.Contains(t, merge, "--dependency=afterany:42\n")
	assert.Contains(t, merge, "--account=a\\ b\n")
	assert.NotContains(t, merge, "--array")

	// Run the batch script as Slurm does on a node, with a program that prints its arguments.
	for _, c := range []struct{ job, want string }{
		{tasks, "run\x00--bwlimit=100MB\x00--dirty-window=1GiB\x00" + hostile().Dir + "\x00--of=750\x00"},
		{merge, "merge\x00" + hostile().Dir + "\x00--resubmit\x00" + again(hostile(), Slurm, "--account=a\\ b") + "\x00"},
	} {
		_, script, found := strings.Cut(c.job, "#!/bin/bash\n")
		require.True(t, found)
		printed := run(t, os.Environ(), strings.Replace(script, "exec /opt/a\\ b/sealift", `exec printf '%s\0'`, 1))
		assert.Equal(t, c.want, printed)
	}
}

func TestParallelGetsPathsByteForByte(t *testing.T) {
	calls := filepath.Join(t.TempDir(), "calls")
	j := hostile()
	j.Program = "sealift" // the recorder
	run(t, record(t, calls, "parallel", "sealift"), render(t, j, Parallel), "--sshlogin=a b")
	recorded, err := os.ReadFile(calls)
	require.NoError(t, err)
	tasks, merge, _ := strings.Cut(strings.TrimPrefix(string(recorded), "== parallel\n"), "== sealift\n")
	assert.True(t, strings.HasPrefix(merge, "merge\n$'/scratch/it"), "%s", merge)
	assert.Contains(t, tasks, "--sshlogin=a\\ b\n")
	var want strings.Builder
	for _, shard := range []string{"0", "1", "2", "751", "1499"} {
		want.WriteString("run\x00--bwlimit=100MB\x00--dirty-window=1GiB\x00" + j.Dir + "\x00--shard=" + shard + "\x00")
	}
	lines := tasks[strings.Index(tasks, "sealift run"):]
	printed := run(t, os.Environ(), strings.ReplaceAll(lines, "sealift run", `printf '%s\0' run`))
	assert.Equal(t, want.String(), printed)
}

// shellcheck reports nothing, because people read and change the scripts.
func TestScriptsPassShellcheck(t *testing.T) {
	shellcheck, err := exec.LookPath("shellcheck")
	if err != nil {
		t.Skip("there is no shellcheck")
	}
	for _, name := range []string{"slurm.sh", "slurm-hostile.sh", "slurm-merge.sh", "parallel.sh", "parallel-hostile.sh", "parallel-merge.sh"} {
		out, err := exec.CommandContext(t.Context(), shellcheck, filepath.Join("testdata", name)).CombinedOutput() //nolint:gosec // a file of ours
		assert.NoError(t, err, "%s", out)
	}
}

func TestAnArrayIsNotLargerThanSlurmAllows(t *testing.T) {
	for _, c := range []struct {
		shards, step int
		array        string
	}{
		{1, 1, "0"},
		{1000, 1000, "0-999"},
		{1001, 1001, "0-1000"},
		{1002, 501, "0-500"},
		{1500, 750, "0-749"},
		{100_000, 1000, "0-999"},
	} {
		j := &Job{Plan: planned(c.shards), Left: all(c.shards)}
		assert.Equal(t, c.step, j.Step(), "%d shards", c.shards)
		assert.Equal(t, c.array, j.ArrayText(), "%d shards", c.shards)
	}
}

func TestTheTimeLimitIsThatOfTheLongestTask(t *testing.T) {
	const estimate = 20 // minutes for each shard
	j := &Job{Plan: planned(10)}
	assert.Equal(t, 10+4*estimate, j.TaskMinutes())
	j.Plan.Shards[7].Cost *= 3
	assert.Equal(t, 10+4*3*estimate, j.TaskMinutes())
	j.Plan.Shards[7].Cost /= 3
	j.BytesPerSecond = 500e6 / 2
	assert.Equal(t, 10+4*(estimate+2000/60.0), float64(j.TaskMinutes())+1/3.0, "500 GB at 250 MB/s take 2000 s")
	assert.Equal(t, 10+4*2*estimate, (&Job{Plan: planned(1500)}).TaskMinutes(), "two shards for each task")
	j.Plan.Shards[0].Cost = 1 << 62
	assert.Equal(t, 366*24*60, j.TaskMinutes())
}

func TestPathsThatKubernetesCannotMountAreRefused(t *testing.T) {
	for _, path := range []string{"/a:b", "/a\xff", "/", "/tmp"} {
		j := usual()
		j.Dir = path
		var b strings.Builder
		j.System = Kubernetes
		err := j.Write(&b)
		var refused *PathError
		require.ErrorAs(t, err, &refused, "%q", path)
		assert.Equal(t, path, refused.Path)
		assert.Empty(t, b.String())
	}
}
