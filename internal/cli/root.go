package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// newRootCmd makes the program of its commands; help lists them in this order.
func newRootCmd(commands ...*cobra.Command) *cobra.Command {
	cobra.EnableCommandSorting = false
	build := readBuild()
	root := &cobra.Command{
		Use:   "sealift",
		Short: "Copy directory trees at the speed of the hardware, with a manifest",
		Long: `Sealift copies directory trees at the speed of the hardware and, in the same
single read, writes a SHA-256 manifest that "sha256sum -c" accepts. When it
exits 0, every byte is on the destination device, nothing incomplete stands
under a final name, and the manifest says so. Later it checks trees against
their manifests, in parallel, and makes manifests of trees that have none. It
also tells what trees take on their devices, and copies streams and devices.`,
		Example: `  sealift copy /media/card /mnt/archive
  sealift verify /mnt/archive
  cd /mnt/archive && sha256sum -c SHA256SUMS`,
		Version:           build.Version,
		Args:              noSuchCommand,
		RunE:              func(*cobra.Command, []string) error { return usagef("no command is given") },
		SilenceErrors:     true,
		SilenceUsage:      true,
		Annotations:       endsWith("all"),
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	root.Flags().Bool("version", false, "print the version")
	root.SetVersionTemplate(build.line() + "\n")
	root.SetFlagErrorFunc(flagError)
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) { printHelp(cmd) })
	root.SetHelpCommand(newHelpCmd())
	root.AddCommand(commands...)
	root.InitDefaultHelpCmd()
	for _, cmd := range append(root.Commands(), root) {
		cmd.InitDefaultHelpFlag()
		cmd.Flags().Lookup("help").Usage = "show this help"
	}
	return root
}

// noSuchCommand refuses what is not a command, with the one that was perhaps
// meant.
func noSuchCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	cmd.SuggestionsMinimumDistance = 2
	hint := ""
	if names := cmd.SuggestionsFor(args[0]); len(names) > 0 {
		hint = fmt.Sprintf("; did you mean %s?", strings.Join(names, " or "))
	}
	return usagef("there is no command %q%s", args[0], hint)
}

// flagError rewords the errors of flag parsing, and suggests the flag that was
// perhaps meant.
func flagError(cmd *cobra.Command, err error) error {
	if e, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		return usagef("%s: %s", flagName(e.GetFlag()), e.Unwrap())
	}
	if e, ok := errors.AsType[*pflag.ValueRequiredError](err); ok {
		return usagef("%s needs a value", flagName(e.GetFlag()))
	}
	if e, ok := errors.AsType[*pflag.NotExistError](err); ok {
		if e.GetSpecifiedShortnames() != "" {
			return usagef("unknown flag -%s", e.GetSpecifiedName())
		}
		if near := nearestFlag(cmd.Flags(), e.GetSpecifiedName()); near != "" {
			return usagef("unknown flag --%s; did you mean --%s?", e.GetSpecifiedName(), near)
		}
		return usagef("unknown flag --%s", e.GetSpecifiedName())
	}
	return usagef("%s", err)
}

func flagName(f *pflag.Flag) string {
	if f.Shorthand != "" {
		return "-" + f.Shorthand + "/--" + f.Name
	}
	return "--" + f.Name
}

// nearestFlag returns the flag whose name is at most two slips away, or that
// the word begins; empty if there is none.
func nearestFlag(flags *pflag.FlagSet, word string) string {
	best, least := "", 3
	flags.VisitAll(func(f *pflag.Flag) {
		slips := distance(word, f.Name)
		if len(word) >= 3 && strings.HasPrefix(f.Name, word) {
			slips = min(slips, 1)
		}
		if slips < least && !f.Hidden {
			best, least = f.Name, slips
		}
	})
	return best
}

// distance is Levenshtein's.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			slip := 1
			if a[i] == b[j] {
				slip = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j]+1, row[j+1]+1, diagonal+slip)
		}
	}
	return row[len(b)]
}
