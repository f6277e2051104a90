package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed65876f4f/sealift/internal/quote"
)

// shells are the arguments of the completion command.
var shells = []string{"bash", "zsh", "fish", "powershell"}

func newCompletionCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "completion SHELL",
		Short: "Print a completion script for a shell",
		Long: `Prints a script that makes bash, zsh, fish or powershell complete commands,
flags and their values. For bash, the package bash-completion must be installed.`,
		Example: `  source <(sealift completion bash)
  sealift completion zsh > "${fpath[1]}/_sealift"
  sealift completion fish > ~/.config/fish/completions/sealift.fish
  sealift completion powershell | Out-String | Invoke-Expression`,
		Args:              exactly("SHELL"),
		ValidArgsFunction: onlyFirst(cobra.FixedCompletions(shells, cobra.ShellCompDirectiveNoFileComp)),
		RunE: func(cmd *cobra.Command, args []string) error {
			root, w := cmd.Root(), cmd.OutOrStdout()
			switch args[0] {
			case "bash":
				return root.GenBashCompletionV2(w, true)
			case "zsh":
				return root.GenZshCompletion(w)
			case "fish":
				return root.GenFishCompletion(w, true)
			case "powershell":
				return root.GenPowerShellCompletionWithDesc(w)
			}
			return usagef("there is no completion for %q; known shells are %s", args[0], inWords(shells))
		},
	}
}

// exactly requires one argument for each of the names, and no others.
func exactly(names ...string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) < len(names) {
			return usagef("missing operand %s", names[len(args)])
		}
		if len(args) > len(names) {
			return usagef("%s is one argument too many", quote.Name(args[len(names)]))
		}
		return nil
	}
}

// complete sets how shells complete the value of a flag.
func complete(cmd *cobra.Command, flag string, by cobra.CompletionFunc) {
	if err := cmd.RegisterFlagCompletionFunc(flag, by); err != nil {
		panic(err) // a programming error: no flag has this name; each test of the command would fail
	}
}

// listCompletions returns a completion function for the last item of a comma-separated list of
// names. While the list has one item, it also offers the words in alone, which replace the list.
func listCompletions(alone, names []string) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		const directive = cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
		comma := strings.LastIndexByte(typed, ',')
		if comma < 0 {
			return slices.Concat(alone, names), directive
		}
		before := strings.Split(typed[:comma], ",")
		var found []string
		for _, name := range names {
			if !slices.Contains(before, name) {
				found = append(found, typed[:comma+1]+name)
			}
		}
		return found, directive
	}
}

// completeDirectories makes shells offer directories as arguments.
func completeDirectories(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveFilterDirs
}

// onlyFirst returns a completion function for a command with one argument, which by completes.
func onlyFirst(by cobra.CompletionFunc) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return by(cmd, args, typed)
	}
}

// completeArgs offers files and directories for the source, and directories for the
// destination.
func (f *copyFlags) completeArgs(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if f.input != "" {
		args = append([]string{f.input}, args...)
	}
	switch len(args) {
	case 0:
		return nil, cobra.ShellCompDirectiveDefault
	case 1:
		return nil, cobra.ShellCompDirectiveFilterDirs
	}
	return nil, cobra.ShellCompDirectiveNoFileComp
}
