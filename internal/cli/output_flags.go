package cli

import (
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/seed65876f4f/sealift/internal/progress"
)

// outputFlags are the flags about printing and logging. They have the same names and meaning
// in every command.
type outputFlags struct {
	quiet, json bool
	logFile     string
	logFormat   logFormat
	progress    progress.Mode
	report      string // path of a file, "" for none
	metrics     string // the same
}

func (f *outputFlags) quietFlag(s *pflag.FlagSet, text string) {
	s.BoolVarP(&f.quiet, "quiet", "q", false, text)
}

func (f *outputFlags) jsonFlag(s *pflag.FlagSet) {
	s.BoolVar(&f.json, "json", false, "print one JSON object instead of text")
}

func (f *outputFlags) progressFlag(s *pflag.FlagSet) {
	s.Var(newChoice(&f.progress, progress.Modes), "progress", "`MODE`: show progress on standard error: "+strings.Join(progress.Modes.List(), ", "))
}

// commonFlags defines the flags that all commands with progress have. logged names the events
// that the command logs.
func (f *outputFlags) commonFlags(s *pflag.FlagSet, logged string) {
	f.jsonFlag(s)
	f.progressFlag(s)
	f.logFlags(s, logged)
}

// logFlags defines --log-file and --log-format. what names the events that the command logs,
// for example "change and message".
func (f *outputFlags) logFlags(s *pflag.FlagSet, what string) {
	s.Var(&onceValue{&f.logFile}, "log-file", "append every "+what+" to `FILE`")
	s.Var(newChoice(&f.logFormat, logFormats), "log-format", "`FORMAT`: write the log as text or json")
}

// verbosity counts how often -v is given.
type verbosity int

func (v *verbosity) Set(s string) error {
	on, err := strconv.ParseBool(s)
	if err != nil {
		return err
	}
	*v++
	if !on {
		*v = 0
	}
	return nil
}

func (v *verbosity) String() string { return strconv.FormatBool(*v > 0) }
func (v *verbosity) Type() string   { return "bool" }

// verboseFlag defines -v for a command that has two levels, -v and -vv.
func verboseFlag(s *pflag.FlagSet, v *verbosity, text string) {
	s.VarPF(v, "verbose", "v", text).NoOptDefVal = "true"
}
