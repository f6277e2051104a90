package submit

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/seed65876f4f/sealift/internal/shard"
)

// temporary is where the template mounts an empty directory for temporary files.
const temporary = "/tmp"

// Mount is a directory that the containers need.
type Mount struct {
	Name     string // of the volume; the claim is called after it
	Path     string // in the container, the same as in the plan
	ReadOnly bool
}

// Mounts returns the directories that the containers need.
func (j *Job) Mounts() []Mount {
	readOnly := j.Plan.Kind == shard.KindVerify
	mounts := []Mount{{"source", string(j.Plan.Source.Path), true}}
	for i, t := range j.Plan.Targets {
		m := Mount{"destination", string(t.Path), readOnly}
		if i > 0 {
			m.Name = fmt.Sprintf("destination-%d", i+1)
		}
		mounts = append(mounts, m)
	}
	mounts = append(mounts, Mount{"plan", j.Dir, false})
	// A plan that verifies a tree has it as the source and as the destination.
	var unique []Mount
	for _, m := range mounts {
		same := func(other Mount) bool { return other.Path == m.Path }
		if !slices.ContainsFunc(unique, same) {
			unique = append(unique, m)
		}
	}
	return unique
}

// checkMounts returns a *PathError if Kubernetes cannot mount a directory at its path.
func (j *Job) checkMounts() error {
	for _, m := range j.Mounts() {
		switch {
		case m.Path == "/" || m.Path == temporary:
			return &PathError{m.Path, "the container has another directory there; plan with a path that leads there under another name"}
		case !utf8.ValidString(m.Path):
			return &PathError{m.Path, "kubernetes takes only paths in UTF-8; plan with a path that leads there under another name"}
		case strings.Contains(m.Path, ":"):
			return &PathError{m.Path, "kubernetes mounts nothing at a path with a colon; plan with a path that leads there under another name"}
		}
	}
	return nil
}

// Arguments returns the arguments of the container that runs a task.
func (j *Job) Arguments() []string { return j.Run()[1:] }

// MergeArguments returns the arguments of the container that merges.
func (j *Job) MergeArguments() []string { return append(j.Merge()[1:], "--wait") }

// inYAML writes texts as a list of YAML, or one text. Kubernetes expands $(NAME) in arguments,
// and takes $$ for $.
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
	panic(fmt.Sprintf("%T is not for YAML", value))
}
