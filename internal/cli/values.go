package cli

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/seed65876f4f/sealift/internal/choice"
	"github.com/seed65876f4f/sealift/internal/engine"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/pipe"
)

// This file holds the flag types (pflag.Value). Each checks its own text, so that an
// error names the flag. Rules about several flags are checked later.

// value reads its text with a function of the package that knows the option.
type value[T any] struct {
	target *T
	text   string // as given, at first the default
	parse  func(string) (T, error)
	offer  cobra.CompletionFunc
}

func (v *value[T]) Set(s string) error {
	parsed, err := v.parse(s)
	if err != nil {
		return err
	}
	*v.target, v.text = parsed, s
	return nil
}

func (v *value[T]) String() string { return v.text }
func (v *value[T]) Type() string   { return "value" }

// completions returns the function by which shells complete the value.
func (v *value[T]) completions() cobra.CompletionFunc { return v.offer }

// newValue sets the target to the default, if there is one, and returns the flag for
// it. Shells offer the words.
func newValue[T any](target *T, text string, parse func(string) (T, error), words ...string) *value[T] {
	v := &value[T]{target, text, parse, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)}
	if text != "" {
		if err := v.Set(text); err != nil {
			panic(fmt.Sprintf("default of a flag: %v", err)) // tests define every flag
		}
	}
	return v
}

// newChoice returns the flag for an option with a fixed set of values, of which 0 is
// the default.
func newChoice[T ~uint8](target *T, table choice.Table[T]) *value[T] {
	return newValue(target, table.Name(0), table.Parse, table.List()...)
}

// newList returns the flag for a comma-separated list of names, or for one of the words
// that replace the whole list.
func newList[T any](target *T, text string, parse func(string) (T, error), alone, names []string) *value[T] {
	v := newValue(target, text, parse)
	v.offer = listCompletions(alone, names)
	return v
}

// Bounds of the numbers that flags take.
const (
	minBlock   = "4KiB"  // a page, below which system calls are all the cost
	maxBlock   = "1GiB"  // one read moves at most 2 GiB
	maxQueue   = 1 << 16 // blocks; a queue of small blocks in every file in flight
	maxWorkers = 1024    // files in flight; each holds a few descriptors
	minWindow  = "1MiB"  // with less a device mostly waits for us
)

// sizeBetween reads a size within bounds, or the word for no size at all. There is no
// upper bound if most is "".
func sizeBetween(least, most, none string) func(string) (int64, error) {
	low, _ := parseSize(least)
	high, bounds := int64(math.MaxInt64), "at least "+least
	if most != "" {
		high, _ = parseSize(most)
		bounds = least + " to " + most
	}
	return func(s string) (int64, error) {
		if none != "" && s == none {
			return 0, nil
		}
		n, err := parseSize(s)
		if err == nil && (n < low || n > high) {
			err = fmt.Errorf("%s is out of range; it must be %s", s, bounds)
		}
		return n, err
	}
}

// slowestPlainRate is the least rate that needs no unit, in bytes per second. Other programs
// take plain numbers for KiB or MiB.
const slowestPlainRate = 1_000_000

// parseRate reads bytes per second, which may say so: "80MB" or "80MB/s".
func parseRate(s string) (int64, error) {
	size, perSecond := strings.CutSuffix(s, "/s")
	none := "off"
	if perSecond {
		none = ""
	}
	n, err := sizeBetween("1", "", none)(size)
	if err == nil && n < slowestPlainRate && size != none && strings.Trim(size, "0123456789") == "" {
		err = fmt.Errorf("%s needs a unit; write it as %[1]sB, %[1]sK or %[1]sM", size)
	}
	return n, err
}

// parseWindow reads how many bytes may be unwritten.
func parseWindow(s string) (int64, error) {
	switch s {
	case "auto":
		return engine.DirtyWindowAuto, nil
	case "off":
		return engine.DirtyWindowOff, nil
	}
	return sizeBetween(minWindow, "", "")(s)
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

// onceValue is a text that may be given only once and not be empty. The same text may
// come again: to complete a command line, cobra parses it twice.
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

// hashFlag defines --hash. Its help ends with then; the words in alone replace the list.
func hashFlag(s *pflag.FlagSet, target *[]hash.Algorithm, then string, alone ...string) {
	s.Var(newList(target, string(hash.SHA256), hash.Parse, alone, hash.Names()), "hash",
		"compute digests, a comma-separated `LIST` of "+inWords(hash.Names())+then)
}

// workersFlag defines --workers.
func workersFlag(s *pflag.FlagSet, target *int, text string) {
	s.Var(newValue(target, "auto", countBetween(1, maxWorkers, "auto"), "auto"), "workers", text)
}

// bwlimitFlag defines --bwlimit for a command that does verb to data.
func bwlimitFlag(s *pflag.FlagSet, target *int64, verb string) {
	s.Var(newValue(target, "off", parseRate, "off"), "bwlimit", verb+" at most `RATE`, such as 80MB/s")
}

// readCacheHelp explains the modes, as policyHelp does.
const readCacheHelp = "`MODE`: choose where files are read from\n" + `auto    memory where they are cached
drop    the device: evict files from memory before
        and after
direct  the device, past the memory (O_DIRECT)`

// readCacheFlag defines --cache for a command that only reads.
func readCacheFlag(s *pflag.FlagSet, target *pipe.CacheMode) {
	s.Var(newChoice(target, pipe.CacheModes.Without(pipe.CacheKeep)), "cache", readCacheHelp)
}

// inWords lists at least two names as a sentence does: "a, b and c".
func inWords(names []string) string {
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " and " + names[last]
}
