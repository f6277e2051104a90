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
	if dir, err = resolvePlanDir(given); err != nil {
		return "", err
	}
	refuse := func(why string) error { return failure.Refuse("plan directory %s %s", quote.Name(given), why) }
	src, err := os.Stat(rt.dir)
	if err != nil {
		return "", failure.Refuse("source %s: %s", quote.Name(rt.dir), Reason(err))
	}
	if inside, err := isInside(dir, src); err != nil {
		return "", failure.Refuse("plan directory %s: %s", quote.Name(given), Reason(err))
	} else if inside {
		return "", refuse("is the source or inside it, to which nothing is written; choose another with --into")
	}
	for _, d := range rt.Destinations {
		inside := dir == d.Dir || below(dir, d.Dir)
		if info, err := os.Stat(d.Dir); err == nil && !inside {
			if inside, err = isInside(dir, info); err != nil {
				return "", failure.Refuse("plan directory %s: %s", quote.Name(given), Reason(err))
			}
		}
		if inside {
			return "", refuse("is the destination " + quote.Name(d.Given) + " or inside it; choose another with --into")
		}
	}
	return dir, nil
}

// PlanDirOutside resolves the directory of the plan of a verification, which need not exist. It
// refuses one that is a checked directory, or is inside one.
func PlanDirOutside(given string, checked []string) (dir string, err error) {
	if dir, err = resolvePlanDir(given); err != nil {
		return "", err
	}
	for _, tree := range checked {
		info, err := os.Stat(tree)
		if err != nil {
			return "", failure.Refuse("%s: %s", quote.Name(tree), Reason(err))
		}
		if inside, err := isInside(dir, info); err != nil {
			return "", failure.Refuse("plan directory %s: %s", quote.Name(given), Reason(err))
		} else if inside {
			return "", failure.Refuse("plan directory %s is %s or inside it, to which nothing is written; choose another with --into", quote.Name(given), quote.Name(tree))
		}
	}
	return dir, nil
}

func resolvePlanDir(given string) (dir string, err error) {
	if given == "" {
		return "", failure.Refuse("the name of the plan directory is empty")
	}
	if info, err := os.Stat(given); err == nil && !info.IsDir() {
		return "", failure.Refuse("plan directory %s is not a directory", quote.Name(given))
	}
	anchor, rest, err := anchorOf(given)
	if err != nil {
		return "", failure.Refuse("plan directory %s: %s", quote.Name(given), Reason(err))
	}
	return filepath.Join(anchor, rest), nil
}
