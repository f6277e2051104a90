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

// This file holds the flag types (pflag.Value). Each one checks its own value, so that pflag
// can name the flag in the error. Combinations of flags are checked after parsing.

// value is a flag whose text is parsed by a function, usually one of the package that defines
// the option.
type value[T any] struct {
	target *T
	text   string // text as given; before parsing, the default
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

// newValue returns a flag that parses its value into target. text is the default, which it
// parses at once; "" leaves target unchanged. Shells offer words as completions.
func newValue[T any](target *T, text string, parse func(string) (T, error), words ...string) *value[T] {
	v := &value[T]{target, text, parse, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)}
	if text != "" {
		if err := v.Set(text); err != nil {
			panic(fmt.Sprintf("default of a flag: %v", err)) // this is a programming error; the tests define every flag
		}
	}
	return v
}

// newChoice returns a flag for an option with a fixed set of values. The default is the value 0.
func newChoice[T ~uint8](target *T, table choice.Table[T]) *value[T] {
	return newValue(target, table.Name(0), table.Parse, table.List()...)
}

// newList returns a flag for a comma-separated list of names. Each word in alone, such as
// "all" or "none", replaces the whole list. Shells offer both.
func newList[T any](target *T, text string, parse func(string) (T, error), alone, names []string) *value[T] {
	v := newValue(target, text, parse)
	v.offer = listCompletions(alone, names)
	return v
}

// Bounds of numeric flags.
const (
	minBlock   = "4KiB"  // size of a page; with smaller blocks, system calls need most of the time
	maxBlock   = "1GiB"  // half of the largest read, which is 2 GiB
	maxQueue   = 1 << 16 // number of blocks that wait between two stages of one file
	maxWorkers = 1024    // number of files in flight; each one uses a few descriptors
	minWindow  = "1MiB"  // less unwritten data leaves the device idle most of the time
)

// sizeBetween returns a parser for sizes from least to most; "" for most means no upper bound.
// The parser returns 0 for the word none, if that is not "".
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

// slowestPlainRate is the lowest rate, in bytes per second, that may be given without a unit.
// In other programs a plain number means KiB or MiB per second, so that a small one is
// probably a mistake.
const slowestPlainRate = 1_000_000

// parseRate parses a rate in bytes per second: "80MB" or "80MB/s". It returns 0 for "off".
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

// parseWindow parses the value of --dirty-window: a size, "auto" or "off".
func parseWindow(s string) (int64, error) {
	switch s {
	case "auto":
		return engine.DirtyWindowAuto, nil
	case "off":
		return engine.DirtyWindowOff, nil
	}
	return sizeBetween(minWindow, "", "")(s)
}

// countBetween returns a parser for whole numbers from least to most. The parser returns 0 for
// the word auto, if that is not "".
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

// onceValue is a flag for a non-empty text that may be given only once. The same text is
// accepted again, because cobra parses a command line twice to complete it.
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

// hashFlag defines --hash. then is appended to its help. The words in alone replace the list.
func hashFlag(s *pflag.FlagSet, target *[]hash.Algorithm, then string, alone ...string) {
	s.Var(newList(target, string(hash.SHA256), hash.Parse, alone, hash.Names()), "hash",
		"compute digests, a comma-separated `LIST` of "+inWords(hash.Names())+then)
}

// workersFlag defines --workers.
func workersFlag(s *pflag.FlagSet, target *int, text string) {
	s.Var(newValue(target, "auto", countBetween(1, maxWorkers, "auto"), "auto"), "workers", text)
}

// bwlimitFlag defines --bwlimit. Its help begins with verb, for example "copy".
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

// inWords joins at least two names as in a sentence: "a, b and c".
func inWords(names []string) string {
	last := len(names) - 1
	if last == 0 {
		return names[0]
	}
	return strings.Join(names[:last], ", ") + " and " + names[last]
}
