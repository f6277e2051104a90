package cli

import (
	"errors"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/seed65876f4f/sealift/internal/quote"
)

// newRootCmd returns the root command with its subcommands, which help lists in this order.
func newRootCmd(commands ...*cobra.Command) *cobra.Command {
	cobra.EnableCommandSorting = false
	build := readBuild()
	root := &cobra.Command{
		Use:   "sealift",
		Short: "Copy and verify directory trees, with a manifest of checksums",
		Long: `Sealift copies directory trees. In the same single read it computes SHA-256
digests and writes a manifest that "sha256sum -c" accepts. When a copy exits 0,
every byte and every name is on the destination device, and no incomplete file
has its final name.

Sealift also checks trees against their manifests, compares trees, makes
manifests, reports disk usage, and copies single files, pipes and block devices.`,
		Example: `  sealift copy /media/card /mnt/archive
  sealift verify /mnt/archive
  cd /mnt/archive && sha256sum -c SHA256SUMS`,
		Version:           build.Version,
		Args:              noSuchCommand,
		RunE:              func(*cobra.Command, []string) error { return usagef("no command is given") },
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	root.Flags().Bool("version", false, "print the version")
	root.SetVersionTemplate(build.line() + "\n")
	root.SetFlagErrorFunc(flagError)
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) { // args are those of the whole command line
		if slices.ContainsFunc(args, func(arg string) bool { return strings.HasPrefix(arg, "--help") }) {
			printHelp(cmd)
		} else {
			printShortHelp(cmd)
		}
	})
	root.SetHelpCommand(newHelpCmd())
	root.AddCommand(commands...)
	root.InitDefaultHelpCmd()
	for _, cmd := range append(root.Commands(), root) {
		cmd.DisableFlagsInUseLine = true // Use already contains [flags] where the command has any
		cmd.InitDefaultHelpFlag()
		for _, name := range reportTexts {
			if cmd.Flags().Lookup(name) != nil {
				complete(cmd, name, cobra.NoFileCompletions)
			}
		}
		help := cmd.Flags().Lookup("help")
		help.Usage = "print this help"
		if help.Shorthand != "" {
			help.Usage = "print help: -h the most important, --help everything"
		}
		hideFlags(cmd)
	}
	return root
}

// noSuchCommand returns a usage error for an unknown command name. The message suggests
// similar commands.
func noSuchCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	cmd.SuggestionsMinimumDistance = 2
	for _, c := range cmd.Commands() {
		if slices.Contains(c.SuggestFor, args[0]) { // for example cp: copy is a better suggestion than a similar name
			return usagef("there is no command %q%s", args[0], didYouMean(c.Name()))
		}
	}
	if _, err := os.Lstat(args[0]); err == nil {
		return usagef("there is no command %s; to copy it: sealift copy SRC DST", quote.Name(args[0]))
	}
	return usagef("there is no command %q%s", args[0], didYouMean(strings.Join(cmd.SuggestionsFor(args[0]), " or ")))
}

// didYouMean returns the end of a message that suggests meant; "" if meant is empty.
func didYouMean(meant string) string {
	if meant == "" {
		return ""
	}
	return "; did you mean " + meant + "?"
}

// flagError rewords an error of flag parsing as a usage error, and suggests a similar flag. The error of a
// value lists those that are possible.
func flagError(cmd *cobra.Command, err error) error {
	if e, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		return usagef("%s: %s", flagName(e.GetFlag()), e.Unwrap())
	}
	if e, ok := errors.AsType[*pflag.ValueRequiredError](err); ok {
		return usagef("%s needs a value", flagName(e.GetFlag()))
	}
	if e, ok := errors.AsType[*pflag.NotExistError](err); ok {
		name, dashes := e.GetSpecifiedName(), "--"
		if words := cmd.Flags().Args(); cmd.HasSubCommands() && len(words) > 0 {
			return noSuchCommand(cmd, words) // cobra stopped at the root because it does not know the command
		}
		if letters := e.GetSpecifiedShortnames(); letters != "" {
			name, dashes = letters, "-" // perhaps a long name after a single dash
			if f := cmd.Flags().Lookup(letters); f == nil || f.Hidden {
				return usagef("unknown flag -%s%s", e.GetSpecifiedName(), foreignLetters(cmd, letters))
			}
		}
		if answer := foreignFlag(cmd, name); answer != "" && dashes == "--" {
			return usagef("unknown flag --%s%s", name, answer)
		}
		meant := nearest(name, flagNames(cmd.Flags()))
		switch {
		case meant != "":
			meant = "--" + meant
		case cmd.HasSubCommands() && isFlagOfACommand(cmd, name):
			meant = cmd.Name() + " COMMAND --" + name
		}
		return usagef("unknown flag %s%s%s", dashes, name, didYouMean(meant))
	}
	return usagef("%s", err)
}

func flagName(f *pflag.Flag) string {
	if f.Shorthand != "" {
		return "-" + f.Shorthand + "/--" + f.Name
	}
	return "--" + f.Name
}

func flagNames(flags *pflag.FlagSet) (names []string) {
	flags.VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	return names
}

// isFlagOfACommand reports whether any subcommand has the flag.
func isFlagOfACommand(root *cobra.Command, flag string) bool {
	return slices.ContainsFunc(root.Commands(), func(c *cobra.Command) bool { return c.Flags().Lookup(flag) != nil })
}

// nearest returns the name that is most similar to word; "" if there is none. A similar name
// begins with word, or differs by one or two typing errors and has at least two letters for
// each error. Cobra's command suggestions do the comparison. Names with the same first
// letter are preferred, because few typing errors are in the first letter.
func nearest(word string, names []string) string {
	if word == "" {
		return ""
	}
	for slips := 1; slips <= 2; slips++ {
		parent := &cobra.Command{SuggestionsMinimumDistance: slips}
		for _, name := range names {
			onlyBegins := len(name) > len(word)+slips // a match that is too weak for words of one or two letters
			if len(name) >= 2*slips && (len(word) >= 3 || !onlyBegins) {
				parent.AddCommand(&cobra.Command{Use: name, Run: func(*cobra.Command, []string) {}})
			}
		}
		if found := parent.SuggestionsFor(word); len(found) > 0 {
			sameLetter := slices.IndexFunc(found, func(name string) bool { return strings.EqualFold(name[:1], word[:1]) })
			return found[max(sameLetter, 0)]
		}
	}
	return ""
}
