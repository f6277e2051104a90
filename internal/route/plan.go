package route

import (
	"os"
	"path/filepath"

	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/quote"
)

// PlanDir resolves the directory of a plan, which need not exist. It refuses a directory
// that is the source or a destination, or is inside one. A task would copy it, or write
// into it.
func (rt *Route) PlanDir(given string) (dir string, err error) {
	refuse := func(why string) (string, error) {
		return "", failure.Refuse("plan directory %s %s", quote.Name(given), why)
	}
	if given == "" {
		return "", failure.Refuse("the name of the plan directory is empty")
	}
	if info, err := os.Stat(given); err == nil && !info.IsDir() {
		return refuse("is not a directory")
	}
	anchor, rest, err := anchorOf(given)
	if err != nil {
		return "", failure.Refuse("plan directory %s: %s", quote.Name(given), Reason(err))
	}
	dir = filepath.Join(anchor, rest)
	src, err := os.Stat(rt.dir)
	if err != nil {
		return "", failure.Refuse("source %s: %s", quote.Name(rt.dir), Reason(err))
	}
	inside, err := isInside(dir, src)
	if inside {
		return refuse("is the source or inside it, and Sealift never changes a source; choose another with --into")
	}
	for _, d := range rt.Destinations {
		at, failed := os.Stat(d.Dir)
		inside = dir == d.Dir || below(dir, d.Dir)
		if failed == nil && !inside && err == nil {
			inside, err = isInside(dir, at)
		}
		if inside {
			return refuse("is the destination " + quote.Name(d.Given) + " or inside it; choose another with --into")
		}
	}
	if err != nil {
		return "", failure.Refuse("plan directory %s: %s", quote.Name(given), Reason(err))
	}
	return dir, nil
}
