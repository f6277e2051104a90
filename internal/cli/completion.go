package cli

import (
	"io"

	"github.com/spf13/cobra"
)

// shells maps each shell to what writes its completion script.
var shells = []struct {
	name  string
	write func(*cobra.Command, io.Writer) error
}{
	{"bash", func(root *cobra.Command, w io.Writer) error { return root.GenBashCompletionV2(w, true) }},
	{"zsh", func(root *cobra.Command, w io.Writer) error { return root.GenZshCompletion(w) }},
	{"fish", func(root *cobra.Command, w io.Writer) error { return root.GenFishCompletion(w, true) }},
	{"powershell", func(root *cobra.Command, w io.Writer) error { return root.GenPowerShellCompletionWithDesc(w) }},
}

func newCompletionCmd() *cobra.Command {
	names := make([]string, len(shells))
	for i, s := range shells {
		names[i] = s.name
	}
	return &cobra.Command{
		Use:   "completion SHELL",
		Short: "Print a completion script for a shell",
		Long: `The script teaches bash, zsh, fish or powershell to complete commands, flags and
their values. For bash, the package bash-completion must be installed.`,
		Example: `  source <(sealift completion bash)
  sealift completion zsh > "${fpath[1]}/_sealift"
  sealift completion fish > ~/.config/fish/completions/sealift.fish
  sealift completion powershell | Out-String | Invoke-Expression`,
		Args: exactly("SHELL"),
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, s := range shells {
				if s.name == args[0] {
					return s.write(cmd.Root(), cmd.OutOrStdout())
				}
			}
			return usagef("there is no completion for %q; known shells are bash, zsh, fish and powershell%s", args[0], didYouMean(nearest(args[0], names)))
		},
	}
}

// exactly makes a command take the named arguments, no more and no less.
func exactly(names ...string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) < len(names) {
			return usagef("%s is missing", names[len(args)])
		}
		if len(args) > len(names) {
			return usagef("%q is one argument too many", args[len(names)])
		}
		return nil
	}
}
