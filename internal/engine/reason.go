package engine

import (
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/policy"
)

// reasonOf returns the reason of a transfer's outcome as text for people, for example "size
// differs". It returns "" for outcomes that need no reason, such as a new file.
func reasonOf(o policy.Observation, d policy.Decision, equal bool, done outcome) string {
	switch done {
	case outReplaced:
		return o.WhyReplaced(d, equal)
	case outUpToDate:
		switch {
		case d.Content.Known:
			return "copied by the interrupted run"
		case equal:
			return "same content"
		case o.Source == fsys.Regular:
			return "same size and modification time"
		}
	case outLeft:
		if o.Policy == policy.Never {
			return "--overwrite-policy=never"
		}
	}
	return ""
}
