// Package submit writes the script with which a batch system runs the tasks of a plan and then the
// merge. For Slurm and GNU parallel it is a shell script, for Kubernetes a file with two Jobs.
package submit

import (
	"embed"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"text/template"
	"time"

	"github.com/seed65876f4f/sealift/internal/choice"
	"github.com/seed65876f4f/sealift/internal/quote"
	"github.com/seed65876f4f/sealift/internal/shard"
	"github.com/seed65876f4f/sealift/internal/units"
)

// System is a batch system. The zero value is None.
type System uint8

// The batch systems.
const (
	None System = iota
	Slurm
	Kubernetes
	Parallel
)

// Systems has the names of the batch systems.
var Systems = choice.Table[System]{What: "batch system", Names: []string{"", "slurm", "kubernetes", "parallel"}}

// Job describes the work to submit.
type Job struct {
	Plan   *shard.Plan
	System System
	Left   []int // the indexes of the shards to run, ascending

	Program string // path of sealift
	Dir     string // path of the plan
	Tasks   int    // largest number of tasks at the same time
	User    User   // the user as whom containers run

	RunFlags       []string // flags of each task
	BytesPerSecond int64    // limit of each task; 0 for none
	DirtyWindow    int64    // limit of unwritten bytes of each task on each device; 0 for auto and off
}

// User is the owner of the plan.
type User struct {
	ID, Group int
	Groups    []int // supplementary groups
}

// PathError is a path that a batch system cannot use.
type PathError struct{ Path, Why string }

func (e *PathError) Error() string { return e.Why }

//go:embed slurm.sh.tmpl kubernetes.yaml.tmpl parallel.sh.tmpl
var files embed.FS

// templates has the scripts. Only a command that prints one parses them.
var templates = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("").Funcs(template.FuncMap{
		"name":   quote.Name,
		"words":  words,
		"count":  units.Plural,
		"size":   units.Size,
		"inYAML": inYAML,
		"list":   func(s ...string) []string { return s },
	}).ParseFS(files, "*.tmpl"))
})

// Write writes the script for the batch system. The error is a *PathError or an error of w.
func (j *Job) Write(w io.Writer) error {
	switch j.System {
	case Slurm:
		return templates().ExecuteTemplate(w, "slurm.sh.tmpl", j)
	case Parallel:
		return templates().ExecuteTemplate(w, "parallel.sh.tmpl", j)
	case Kubernetes:
		if err := j.checkMounts(); err != nil {
			return err
		}
		return templates().ExecuteTemplate(w, "kubernetes.yaml.tmpl", j)
	}
	return fmt.Errorf("no batch system is chosen")
}

// The templates call the methods below.

// Name returns the name of the jobs of this plan. It is short enough for a label of Kubernetes.
func (j *Job) Name() string { return "sealift-" + j.Plan.ID[:8] }

// AtOnce returns how many tasks run at the same time.
func (j *Job) AtOnce() int { return min(j.Tasks, len(j.Plan.Shards)) }

// Shards returns the number of shards.
func (j *Job) Shards() int64 { return int64(len(j.Plan.Shards)) }

// Run returns the command of a task, without the index of its shard.
func (j *Job) Run() []string {
	return slices.Concat([]string{j.Program, "run"}, j.RunFlags, []string{j.Dir})
}

// Again returns the command that prints the script anew.
func (j *Job) Again() []string {
	start := []string{j.Program, "plan", "--script", Systems.Names[j.System], "--tasks", strconv.Itoa(j.Tasks)}
	return slices.Concat(start, j.RunFlags, []string{"--into", j.Dir})
}

// Merge returns the command that merges the finished shards.
func (j *Job) Merge() []string { return []string{j.Program, "merge", j.Dir} }

// JobLog returns the path of the list of tasks that GNU parallel writes.
func (j *Job) JobLog() string { return filepath.Clean(j.Dir) + ".joblog" }

// AllRates returns the limit of all tasks together, or "" if there is none.
func (j *Job) AllRates() string {
	if j.BytesPerSecond == 0 {
		return ""
	}
	return units.Rate(float64(j.BytesPerSecond) * float64(j.AtOnce()))
}

// AllWindows returns the limit of unwritten data of all tasks together, or "" if there is none.
func (j *Job) AllWindows() string {
	if j.DirtyWindow == 0 {
		return ""
	}
	return units.Size(j.DirtyWindow * int64(j.AtOnce()))
}

// maxArray is the largest number of tasks in a Slurm array by default: MaxArraySize is 1001, so
// that indexes are 0 to 1000.
const maxArray = 1001

// Step returns the number of tasks of a complete array. Task I runs the shards I, I+Step, I+2*Step
// and so on.
func (j *Job) Step() int {
	shards := len(j.Plan.Shards)
	each := (shards + maxArray - 1) / maxArray // largest number of shards of a task
	return (shards + each - 1) / each
}

// Array returns the indexes of the tasks that have shards left to run.
func (j *Job) Array() []int {
	var indexes []int
	for _, shard := range j.Left {
		indexes = append(indexes, shard%j.Step())
	}
	slices.Sort(indexes)
	return slices.Compact(indexes)
}

// ArrayText returns Array in the syntax of "sbatch --array".
func (j *Job) ArrayText() string { return shard.FormatIndexes(j.Array()) }

// SeveralEach reports whether a task of the array runs several shards.
func (j *Job) SeveralEach() bool { return j.Step() < len(j.Plan.Shards) }

// Braces returns the indexes of the shards as brace expansions of bash: "{0..3} 7".
func (j *Job) Braces() string {
	var out []string
	for _, part := range strings.Split(shard.FormatIndexes(j.Left), ",") {
		if from, to, isRange := strings.Cut(part, "-"); isRange {
			part = "{" + from + ".." + to + "}"
		}
		out = append(out, part)
	}
	return strings.Join(out, " ")
}

// Factor and addend of the time limits. Plans estimate times for storage with no other users; the
// limits are larger because others share the storage.
const (
	timeFactor = 4
	timeExtra  = 10 * time.Minute
)

// TaskMinutes returns the time limit of the longest task, in minutes.
func (j *Job) TaskMinutes() int {
	step := j.Step()
	costs := make([]float64, step) // seconds
	for i, f := range j.Plan.Shards {
		cost := float64(f.Cost) / 1e9
		if j.BytesPerSecond > 0 {
			cost += float64(f.Bytes) / float64(j.BytesPerSecond)
		}
		costs[i%step] += cost
	}
	return minutes(slices.Max(costs))
}

// Estimated time of a merge for each directory and each line of the manifest, in seconds.
const (
	mergeDirectory = 2e-3
	mergeLine      = 20e-6
)

// MergeMinutes returns the time limit of the merge, in minutes.
func (j *Job) MergeMinutes() int {
	t := j.Plan.Totals
	lines := float64(t.Entries) * float64(len(j.Plan.Targets))
	return minutes(float64(t.Directories)*mergeDirectory*float64(len(j.Plan.Targets)) + lines*mergeLine)
}

// minutes returns the time limit, in minutes, for work that is estimated at the given seconds.
func minutes(seconds float64) int {
	const year = 366 * 24 * 60 // upper limit, because a hostile tree may have files of 8 EiB
	limit := timeFactor*seconds/60 + timeExtra.Minutes()
	return int(min(limit, year))
}

// Deadline returns the time, in seconds, after which the tasks or a merge that waits for them count as
// failed.
func (j *Job) Deadline() int {
	rounds := (len(j.Plan.Shards) + j.AtOnce() - 1) / j.AtOnce()
	return 60 * (rounds*j.TaskMinutes() + j.MergeMinutes())
}

// words quotes a command for bash.
func words(command []string) string {
	var out []string
	for _, word := range command {
		out = append(out, quote.Word(word))
	}
	return strings.Join(out, " ")
}
