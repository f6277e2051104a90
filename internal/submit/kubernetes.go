package submit

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// temporary is the path at which the template mounts an empty directory for temporary files.
const temporary = "/tmp"

// Mount is a directory that the containers mount.
type Mount struct {
	Name     string // name of the volume; the name of the claim contains it
	Path     string // path in the container and in the plan
	ReadOnly bool
}

// Mounts returns the directories that the containers mount.
func (j *Job) Mounts() []Mount {
	mounts := []Mount{{"source", string(j.Plan.Source.Path), true}}
	for i, t := range j.Plan.Targets {
		m := Mount{"destination", string(t.Path), false}
		if i > 0 {
			m.Name = fmt.Sprintf("destination-%d", i+1)
		}
		mounts = append(mounts, m)
	}
	return append(mounts, Mount{"plan", j.Dir, false})
}

// checkMounts returns a *PathError if Kubernetes cannot mount a directory at its path.
func (j *Job) checkMounts() error {
	for _, m := range j.Mounts() {
		switch {
		case m.Path == "/" || m.Path == temporary:
			return &PathError{m.Path, "the container has another directory at this path; plan with another path of the same directory"}
		case !utf8.ValidString(m.Path):
			return &PathError{m.Path, "kubernetes accepts only paths in UTF-8; plan with another path of the same directory"}
		case strings.Contains(m.Path, ":"):
			return &PathError{m.Path, "kubernetes cannot mount a directory at a path with a colon; plan with another path of the same directory"}
		}
	}
	return nil
}

// Arguments returns the arguments of the container that runs a task.
func (j *Job) Arguments() []string { return j.Run()[1:] }

// MergeArguments returns the arguments of the container that merges.
func (j *Job) MergeArguments() []string { return append(j.Merge()[1:], "--wait") }

// inYAML returns a string, or a list of strings or numbers, in YAML. In lists, which are arguments,
// it writes $ as $$, because Kubernetes expands $(NAME) there.
func inYAML(value any) string {
	switch v := value.(type) {
	case string:
		return strconv.QuoteToASCII(v) // its escapes are those of YAML, too
	case []int:
		return "[" + strings.Trim(strings.ReplaceAll(fmt.Sprint(v), " ", ", "), "[]") + "]"
	case []string:
		var out []string
		for _, s := range v {
			out = append(out, strconv.QuoteToASCII(strings.ReplaceAll(s, "$", "$$")))
		}
		return "[" + strings.Join(out, ", ") + "]"
	}
	panic(fmt.Sprintf("inYAML has no form for %T", value))
}
