package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// helpWidth is how wide flag descriptions run, in columns: fixed, so that help
// reads the same in a terminal, in a file and in a test.
const helpWidth = 80

// groupAnnotation keeps the heading under which help lists a flag.
const groupAnnotation = "sealift_group"

// flagGroup is a set of flags with one purpose.
type flagGroup struct {
	title string
	add   func(*pflag.FlagSet)
}

// addGroups defines flags in groups, which help shows in that order.
func addGroups(cmd *cobra.Command, groups []flagGroup) {
	cmd.Flags().SortFlags = false
	for _, g := range groups {
		set := pflag.NewFlagSet(g.title, pflag.ContinueOnError)
		set.SortFlags = false
		g.add(set)
		set.VisitAll(func(f *pflag.Flag) {
			f.Annotations = map[string][]string{groupAnnotation: {g.title}}
		})
		cmd.Flags().AddFlagSet(set)
	}
}

// flagsByGroup returns the visible flags of a command under their headings;
// those of no group come last.
func flagsByGroup(cmd *cobra.Command) (titles []string, sets map[string]*pflag.FlagSet) {
	const others = "Other flags"
	sets = make(map[string]*pflag.FlagSet)
	add := func(title string, f *pflag.Flag) {
		if sets[title] == nil {
			sets[title] = pflag.NewFlagSet(title, pflag.ContinueOnError)
			sets[title].SortFlags = false
			titles = append(titles, title)
		}
		sets[title].AddFlag(f)
	}
	cmd.LocalFlags().SortFlags = false
	for _, grouped := range []bool{true, false} {
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			title := f.Annotations[groupAnnotation]
			switch {
			case f.Hidden:
			case grouped && title != nil:
				add(title[0], f)
			case !grouped && title == nil:
				add(others, f)
			}
		})
	}
	if len(titles) == 1 && titles[0] == others {
		titles, sets["Flags"] = []string{"Flags"}, sets[others]
	}
	return titles, sets
}

// printHelp writes the help of a command: first how it is used, last what its
// exit code means. A failed write shows in the writer, see [checkedWriter].
func printHelp(cmd *cobra.Command) {
	var sb strings.Builder
	use := cmd.UseLine()
	if cmd.HasAvailableSubCommands() {
		use = cmd.CommandPath() + " COMMAND [flags]"
	}
	fmt.Fprintf(&sb, "Usage:\n  %s\n", use)
	if cmd.Example != "" {
		fmt.Fprintf(&sb, "\nExamples:\n%s\n", cmd.Example)
	}
	text := cmd.Long
	if text == "" {
		text = cmd.Short + "."
	}
	fmt.Fprintf(&sb, "\n%s\n", text)
	if cmd.HasAvailableSubCommands() {
		sb.WriteString("\nCommands:\n")
		for _, c := range cmd.Commands() {
			if c.IsAvailableCommand() || c.Name() == "help" {
				fmt.Fprintf(&sb, "  %-*s  %s\n", cmd.NamePadding(), c.Name(), c.Short)
			}
		}
	}
	titles, sets := flagsByGroup(cmd)
	for _, title := range titles {
		fmt.Fprintf(&sb, "\n%s:\n%s", title, sets[title].FlagUsagesWrapped(helpWidth))
	}
	fmt.Fprintf(&sb, "\nExit codes:\n%s", exitCodes())
	_, _ = io.WriteString(cmd.OutOrStdout(), sb.String())
}

func newHelpCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Show the help of a command",
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			var names []string
			if len(args) == 0 {
				for _, c := range cmd.Root().Commands() {
					if c.IsAvailableCommand() {
						names = append(names, c.Name())
					}
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			topic, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return usagef("there is no command %q", strings.Join(args, " "))
			}
			topic.InitDefaultHelpFlag()
			printHelp(topic)
			return nil
		},
	}
}
