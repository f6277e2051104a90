// Package submit writes what a user submits to a batch system so that it runs the tasks of a
// plan and then the merge: a shell script for Slurm or GNU parallel, or two Jobs of Kubernetes.
package submit

import (
	"embed"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"text/template"
	"time"

	"github.com/seed65876f4f/sealift/internal/choice"
	"github.com/seed65876f4f/sealift/internal/quote"
	"github.com/seed65876f4f/sealift/internal/shard"
	"github.com/seed65876f4f/sealift/internal/units"
)

// System is a batch system. The first value is none.
type System uint8

// The batch systems.
const (
	None System = iota
	Slurm
	Kubernetes
	Parallel
)

// Systems names the batch systems.
var Systems = choice.Table[System]{What: "batch system", Names: []string{"", "slurm", "kubernetes", "parallel"}}

// Job describes what is submitted.
type Job struct {
	Plan *shard.Plan
	Left []int // the indexes of the shards to run, ascending

	Program string // path of sealift
	Dir     string // path of the plan
	Tasks   int    // that run at the same time at most
	User    User   // as which containers run

	RunFlags       []string // flags of each task
	BytesPerSecond int64    // limit of each task; 0 for none
	DirtyWindow    int64    // bytes that may be unwritten for each task and device; 0 if that is not a number
}

// User is the owner of the plan.
type User struct {
	ID, Group int
	Groups    []int // others
}

// A PathError says that a batch system cannot express a path.
type PathError struct{ Path, Why string }

func (e *PathError) Error() string { return e.Why }

//go:embed slurm.sh.tmpl kubernetes.yaml.tmpl parallel.sh.tmpl
var files embed.FS

// templates has the scripts. Only a command that prints one parses them.
var templates = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("").Funcs(template.FuncMap{
		"name":   quote.Name,
		"words":  words,
		"count":  func(n int64, noun string) string { return units.Plural(n, noun) },
		"size":   units.Size,
		"inYAML": inYAML,
		"list":   func(s ...string) []string { return s },
	}).ParseFS(files, "*.tmpl"))
})

// Write writes the script for a batch system. The error is a *PathError, or that of w.
func (j *Job) Write(w io.Writer, system System) error {
	switch system {
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

// The methods below are used by the templates.

// Name names the jobs of this plan. It is short enough for a label of Kubernetes.
func (j *Job) Name() string { return "sealift-" + j.Plan.ID[:8] }

// Verb says what the tasks do.
func (j *Job) Verb() string {
	if j.Plan.Kind == shard.KindVerify {
		return "verify"
	}
	return "copy"
}

// AtOnce returns how many tasks run at the same time.
func (j *Job) AtOnce() int { return min(j.Tasks, len(j.Plan.Shards)) }

// Shards returns the number of shards.
func (j *Job) Shards() int64 { return int64(len(j.Plan.Shards)) }

// Run returns the command of a task, without the index of its shard.
func (j *Job) Run() []string {
	return slices.Concat([]string{j.Program, "run"}, j.RunFlags, []string{j.Dir})
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

// AllWindows returns how much all tasks together may leave unwritten, or "" if that is not known.
func (j *Job) AllWindows() string {
	if j.DirtyWindow == 0 {
		return ""
	}
	return units.Size(j.DirtyWindow * int64(j.AtOnce()))
}

// maxArray is the default number of tasks in an array of Slurm: MaxArraySize is 1001, and the
// largest index is one less.
const maxArray = 1001

// Step returns how many tasks a complete array has: each runs every Step-th shard.
func (j *Job) Step() int {
	shards := len(j.Plan.Shards)
	each := (shards + maxArray - 1) / maxArray // shards of the task with the most
	return (shards + each - 1) / each
}

// Array returns the indexes of the tasks that have something left to do.
func (j *Job) Array() []int {
	var indexes []int
	for _, shard := range j.Left {
		indexes = append(indexes, shard%j.Step())
	}
	slices.Sort(indexes)
	return slices.Compact(indexes)
}

// ArrayText returns Array as "sbatch --array" takes it.
func (j *Job) ArrayText() string { return shard.FormatIndexes(j.Array()) }

// SeveralEach reports whether a task of the array runs several shards.
func (j *Job) SeveralEach() bool { return j.Step() < len(j.Plan.Shards) }

// Braces returns the indexes of the shards as bash expands them: "{0..3} 7".
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

// Estimates are for storage of the speed that plans expect. Others share it, so a limit of time
// is larger.
const (
	timeFactor = 4
	timeExtra  = 10 * time.Minute
)

// TaskMinutes returns the limit of time of the longest task.
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

// The time that merging needs for a directory and for a line of the manifest, in seconds.
const (
	mergeDirectory = 2e-3
	mergeLine      = 20e-6
)

// MergeMinutes returns the limit of time of the merge.
func (j *Job) MergeMinutes() int {
	t := j.Plan.Totals
	lines := float64(t.Entries) * float64(len(j.Plan.Targets))
	return minutes(float64(t.Directories)*mergeDirectory*float64(len(j.Plan.Targets)) + lines*mergeLine)
}

// minutes returns a limit of time for work that is estimated at this many seconds.
func minutes(seconds float64) int {
	const year = 366 * 24 * 60 // a hostile tree has files of 8 EiB
	limit := timeFactor*seconds/60 + timeExtra.Minutes()
	return int(min(limit, year))
}

// words writes a command as words of bash.
func words(command []string) string {
	var out []string
	for _, word := range command {
		out = append(out, shellWord(word))
	}
	return strings.Join(out, " ")
}

// plainBytes need no quotes anywhere in a word of a shell.
const plainBytes = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_./=:,+@%-"

func shellWord(s string) string {
	if s != "" && strings.Trim(s, plainBytes) == "" {
		return s
	}
	return quote.Name(s)
}
