package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// complete sets how shells complete the value of a flag.
func complete(cmd *cobra.Command, flag string, by cobra.CompletionFunc) {
	if err := cmd.RegisterFlagCompletionFunc(flag, by); err != nil {
		panic(err) // a flag is misspelt in the program; every test of the command would show it
	}
}

// listCompletions completes the last item of a comma-separated list of names,
// or a word that stands alone.
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

// completeOneDirectory offers directories as the only argument.
func completeOneDirectory(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return nil, cobra.ShellCompDirectiveFilterDirs
}

// completeArgs offers anything for the source, which may be a file, and directories
// for the destination.
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
