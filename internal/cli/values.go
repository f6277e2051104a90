package cli

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/seed65876f4f/sealift/internal/filter"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/quote"
)

// This file holds the flag types (pflag.Value). Each checks its text as soon
// as it is met, so that an error names the flag; what depends on several flags
// is checked later.

// parsedValue reads its text with a function of the room that knows it.
type parsedValue[T any] struct {
	target *T
	text   string // as given, at first the default
	parse  func(string) (T, error)
}

func (v *parsedValue[T]) Set(s string) error {
	parsed, err := v.parse(s)
	if err != nil {
		return err
	}
	*v.target, v.text = parsed, s
	return nil
}

func (v *parsedValue[T]) String() string { return v.text }
func (v *parsedValue[T]) Type() string   { return "value" }

// newParsed sets the target to the default and returns the flag for it.
func newParsed[T any](target *T, text string, parse func(string) (T, error)) *parsedValue[T] {
	v := &parsedValue[T]{target: target, parse: parse}
	if err := v.Set(text); err != nil {
		panic(fmt.Sprintf("default of a flag: %v", err)) // tests define every flag
	}
	return v
}

// sizeBetween reads a size within bounds, or the word for no size at all.
func sizeBetween(least, most int64, none string) func(string) (int64, error) {
	return func(s string) (int64, error) {
		if none != "" && s == none {
			return 0, nil
		}
		n, err := parseSize(s)
		if err != nil {
			return 0, err
		}
		if n < least || n > most {
			return 0, fmt.Errorf("%s is out of range; it must be %s", s, bounds(least, most))
		}
		return n, nil
	}
}

func bounds(least, most int64) string {
	if most == maxSize {
		return "at least " + binarySize(least)
	}
	return binarySize(least) + " to " + binarySize(most)
}

// binarySize writes a size as the user would, exactly.
func binarySize(n int64) string {
	units := []string{"", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}
	i := 0
	for n != 0 && n%1024 == 0 && i < len(units)-1 {
		n /= 1024
		i++
	}
	return strconv.FormatInt(n, 10) + units[i]
}

// countBetween reads a whole number within bounds, or the word for a number
// that the program chooses.
func countBetween(least, most int, auto string) func(string) (int, error) {
	return func(s string) (int, error) {
		if auto != "" && s == auto {
			return 0, nil
		}
		n, err := strconv.Atoi(s)
		if err != nil {
			return 0, fmt.Errorf("%q is not a whole number", s)
		}
		if n < least || n > most {
			return 0, fmt.Errorf("%s is out of range; it must be %d to %d", s, least, most)
		}
		return n, nil
	}
}

// ruleValue appends a rule to the one list that --include, --exclude and
// --exclude-from share. pflag sets flags in the order of the command line, so
// the list has that order, too.
type ruleValue struct {
	add  func(string) error
	used *bool
}

func (v *ruleValue) Set(s string) error {
	*v.used = true
	return v.add(s)
}

func (v *ruleValue) String() string { return "" }
func (v *ruleValue) Type() string   { return "value" }

// excludeFrom appends the rules of a file.
func excludeFrom(list *filter.List) func(string) error {
	return func(name string) (err error) {
		f, err := os.Open(name)
		if err != nil {
			return fileError(err)
		}
		defer f.Close() //nolint:errcheck // it was only read
		if err := list.ExcludeFrom(f); err != nil {
			return fmt.Errorf("%s: %w", quote.Name(name), err)
		}
		return nil
	}
}

// onceValue is a text that may be given once only, and not be empty. The same again is
// the same: to complete a command line, it is parsed twice.
type onceValue struct{ target *string }

func (v *onceValue) Set(s string) error {
	switch {
	case s == "":
		return fmt.Errorf("the name is empty")
	case *v.target != "" && *v.target != s:
		return fmt.Errorf("it is given twice; only one is possible")
	}
	*v.target = s
	return nil
}

func (v *onceValue) String() string { return *v.target }
func (v *onceValue) Type() string   { return "value" }

// hashHelp is the text of --hash; then says what else holds in the command.
func hashHelp(then string) string {
	return "digests to compute from the one read, a comma-separated `LIST` of " + inWords(hash.Names()) + then
}

// inWords lists at least two names as a sentence does: "a, b and c".
func inWords(names []string) string {
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " and " + names[last]
}
