package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// helpWidth is the width of the help in columns. A fixed width makes the help the same on every
// terminal, in a file and in a test.
const helpWidth = 80

// Annotations of a flag: the heading under which help lists it, and the name of its value.
const (
	groupAnnotation = "sealift_group"
	valueAnnotation = "sealift_value"
)

// flagGroup is a set of flags with one purpose.
type flagGroup struct {
	title string
	add   func(*pflag.FlagSet)
}

// addGroups defines the flags of a command in groups, which help shows in the same order, and
// sets how shells complete their values. It removes the back quotes around value names from
// the flag texts, because completion scripts would show them.
func addGroups(cmd *cobra.Command, groups []flagGroup) {
	cmd.Flags().SortFlags = false
	for _, g := range groups {
		set := pflag.NewFlagSet(g.title, pflag.ContinueOnError)
		set.SortFlags = false
		g.add(set)
		set.VisitAll(func(f *pflag.Flag) {
			value, text := pflag.UnquoteUsage(f)
			f.Usage = strings.TrimPrefix(text, value+": ")
			f.Annotations = map[string][]string{groupAnnotation: {g.title}, valueAnnotation: {value}}
		})
		cmd.Flags().AddFlagSet(set)
		set.VisitAll(func(f *pflag.Flag) {
			if v, ok := f.Value.(interface{ completions() cobra.CompletionFunc }); ok {
				complete(cmd, f.Name, v.completions())
			}
		})
	}
}

// flagSection is a heading of help with the visible flags under it.
type flagSection struct {
	title string
	flags []*pflag.Flag
}

// shortFlags has, for each command, the flags that most users need. -h prints only these; a
// command that is not in the table has few flags, and -h prints all. du is absent because its
// -h is that of GNU du.
var shortFlags = map[string]string{
	"copy":    "output include exclude overwrite-policy verify hash manifest mhl bag dry-run quiet verbose json report",
	"verify":  "manifest unlisted include exclude cache quiet verbose json report",
	"repair":  "from manifest dry-run include exclude discard backup-dir quiet json report",
	"compare": "one-way metadata quick include exclude quiet verbose json report",
	"sum":     "include exclude hash manifest tag mhl quiet json",
	"stream":  "block-size count skip seek hash manifest sync quiet json",
	"plan":    "into shards script tasks output include exclude hash overwrite-policy",
	"run":     "shard of workers bwlimit verbose json",
	"merge":   "wait dry-run abandon json report",
}

// hiddenFlags has, for each command, the flags that only commands of other programs need, or
// whose other values gain nothing. They work, and [hiddenNote] lists them.
var hiddenFlags = map[string]string{
	"copy":   "input block-size queue-size",
	"plan":   "input",
	"run":    "block-size queue-size",
	"verify": "hash-file no-convert-paths no-summary silent",
}

// hideFlags hides the flags of a command that only [hiddenNote] lists.
func hideFlags(cmd *cobra.Command) {
	for name := range strings.FieldsSeq(hiddenFlags[cmd.Name()]) {
		cmd.Flag(name).Hidden = true
	}
}

// hiddenNote lists the hidden flags of a command; "" if it has none.
func hiddenNote(cmd *cobra.Command) string {
	var flags []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			flags = append(flags, flagName(f)+valueSyntax(f, valueOf(f)))
		}
	})
	if len(flags) == 0 {
		return ""
	}
	return "Also accepted, mostly for commands of other programs: " + inWords(flags) + "."
}

// notesBelow separates the description of a command from its notes, which help and man pages
// print below the flags.
const notesBelow = "\n\n\f"

// describe returns the description of a command, and its notes.
func describe(cmd *cobra.Command) (about, notes string) {
	about, notes, _ = strings.Cut(cmd.Long, notesBelow)
	if note := hiddenNote(cmd); note != "" {
		notes = strings.TrimPrefix(notes+"\n\n"+strings.Join(wrap(note, helpWidth), "\n"), "\n\n")
	}
	return about, notes
}

// flagSections returns the flags of a command under their headings, in the order in which
// they were defined, except that those for tuning are last.
func flagSections(cmd *cobra.Command) (sections []flagSection) {
	const others = "Other flags"
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		title := others
		if group := f.Annotations[groupAnnotation]; group != nil {
			title = group[0]
		}
		if len(sections) == 0 || sections[len(sections)-1].title != title {
			sections = append(sections, flagSection{title: title})
		}
		last := &sections[len(sections)-1]
		last.flags = append(last.flags, f)
	})
	if len(sections) == 1 && sections[0].title == others {
		sections[0].title = "Flags"
	}
	speed := slices.IndexFunc(sections, func(s flagSection) bool { return s.title == groupSpeed })
	if last := len(sections) - 1; speed >= 0 && speed < last-1 {
		moved := sections[speed]
		sections = slices.Insert(slices.Delete(sections, speed, speed+1), last-1, moved)
	}
	return sections
}

// Headings of the flag groups, in the order of the help. The first group of a command comes
// before these and has its own heading, for example "What to copy".
const (
	groupShards   = "Shards"
	groupScript   = "Script"
	groupManifest = "Manifest"
	groupSafety   = "Safety"
	groupOutput   = "Output"
	groupSpeed    = "Speed and memory"
)

// printHelp writes the complete help of a command: usage, examples, description, flags, notes
// and exit codes. The [checkedWriter] of the command keeps a write error.
func printHelp(cmd *cobra.Command) {
	var sb strings.Builder
	about, notes := describe(cmd)
	helpBegin(&sb, cmd, cmd.Example)
	if about != "" {
		fmt.Fprintf(&sb, "\n%s\n", about)
	}
	helpCommands(&sb, cmd)
	for _, section := range flagSections(cmd) {
		fmt.Fprintf(&sb, "\n%s:\n", section.title)
		printFlags(&sb, section.flags, flagText)
	}
	if notes != "" {
		fmt.Fprintf(&sb, "\nNotes:\n\n%s\n", notes)
	}
	fmt.Fprintf(&sb, "\nExit codes (details: man %s):\n", pageName(cmd))
	for _, row := range exitCodesOf(cmd) {
		columns(&sb, fmt.Sprintf("  %-4d ", row.code), row.meaning)
	}
	_, _ = io.WriteString(cmd.OutOrStdout(), sb.String())
}

// printShortHelp writes the help that -h prints: usage, three examples, the flags that most
// users need, and where the rest is. It fits on a page of 45 lines.
func printShortHelp(cmd *cobra.Command) {
	var sb strings.Builder
	examples := strings.SplitN(cmd.Example, "\n", 4)
	helpBegin(&sb, cmd, strings.Join(examples[:min(3, len(examples))], "\n"))
	helpCommands(&sb, cmd)
	names, isShort := shortFlags[cmd.Name()]
	title, flags := "Flags", []*pflag.Flag{}
	if isShort {
		title = "Flags that most users need"
	}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if slices.Contains(strings.Fields(names), f.Name) || !isShort && !f.Hidden || f.Name == "help" {
			flags = append(flags, f)
		}
	})
	fmt.Fprintf(&sb, "\n%s:\n", title)
	printFlags(&sb, flags, func(f *pflag.Flag) string {
		text, _, hasRows := strings.Cut(f.Usage, "\n")
		if values, ok := cmd.GetFlagCompletionFunc(f.Name); ok && hasRows {
			names, _ := values(cmd, nil, "")
			text += ": " + strings.Join(names, ", ")
		}
		return withDefault(text, f)
	})
	fmt.Fprintf(&sb, "\nThe rest: %s --help, man %s\n", cmd.CommandPath(), pageName(cmd))
	_, _ = io.WriteString(cmd.OutOrStdout(), sb.String())
}

// helpBegin writes what both kinds of help begin with.
func helpBegin(sb *strings.Builder, cmd *cobra.Command, examples string) {
	fmt.Fprintf(sb, "%s.\n\nUsage:\n  %s\n\nExamples:\n%s\n", cmd.Short, useLine(cmd), examples)
}

// helpCommands writes the list of subcommands, if there are any.
func helpCommands(sb *strings.Builder, cmd *cobra.Command) {
	if !cmd.HasAvailableSubCommands() {
		return
	}
	sb.WriteString("\nCommands:\n")
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() || c.Name() == "help" {
			fmt.Fprintf(sb, "  %-*s  %s\n", cmd.NamePadding(), c.Name(), c.Short)
		}
	}
}

// useLine returns the usage line of a command.
func useLine(cmd *cobra.Command) string {
	if cmd.HasAvailableSubCommands() {
		return cmd.CommandPath() + " COMMAND [flags]"
	}
	return cmd.UseLine()
}

// printFlags writes flags and their texts in two columns.
func printFlags(sb *strings.Builder, flags []*pflag.Flag, text func(*pflag.Flag) string) {
	left := func(f *pflag.Flag) string {
		short := "    "
		if f.Shorthand != "" {
			short = "-" + f.Shorthand + ", "
		}
		return "  " + short + "--" + f.Name + valueSyntax(f, valueOf(f))
	}
	width := 0
	for _, f := range flags {
		width = max(width, len(left(f)))
	}
	for _, f := range flags {
		columns(sb, fmt.Sprintf("%-*s  ", width, left(f)), text(f))
	}
}

// valueOf returns the name of a flag's value, "" if the flag takes none.
func valueOf(f *pflag.Flag) string {
	if value := f.Annotations[valueAnnotation]; value != nil {
		return value[0]
	}
	value, _ := pflag.UnquoteUsage(f)
	return value
}

// valueSyntax returns how the value is written after the flag: " VALUE", or "[=VALUE]" if it
// is optional.
func valueSyntax(f *pflag.Flag, value string) string {
	switch {
	case value == "":
		return ""
	case f.NoOptDefVal != "":
		return "[=" + value + "]"
	}
	return " " + value
}

// flagText returns the description of a flag, with its default value.
func flagText(f *pflag.Flag) string { return withDefault(f.Usage, f) }

// withDefault adds the default value of a flag to the first line of its description, unless the
// value is empty, false or "default".
func withDefault(usage string, f *pflag.Flag) string {
	switch f.DefValue {
	case "", "false", "[]", "default":
		return usage
	}
	text, rows, hasRows := strings.Cut(usage, "\n")
	text += " (default " + f.DefValue + ")"
	if hasRows {
		text += "\n" + rows
	}
	return text
}

// columns writes text to the right of left. A line of the text that does not fit is
// broken between words.
func columns(sb *strings.Builder, left, text string) {
	indent := strings.Repeat(" ", len(left))
	for line := range strings.SplitSeq(text, "\n") {
		for _, part := range wrap(line, helpWidth-len(left)) {
			sb.WriteString(left + part + "\n")
			left = indent
		}
	}
}

// wrap breaks a line between words into lines of at most width bytes. A longer word stays whole.
func wrap(line string, width int) (lines []string) {
	for len(line) > width {
		end := strings.LastIndexByte(line[:width+1], ' ')
		if end <= 0 {
			break
		}
		lines = append(lines, line[:end])
		line = line[end+1:]
	}
	return append(lines, line)
}

func newHelpCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Print the help of a command",
		Example: `  sealift help copy
  sealift copy --help`,
		ValidArgsFunction: onlyFirst(func(cmd *cobra.Command, _ []string, _ string) (names []string, _ cobra.ShellCompDirective) {
			for _, c := range cmd.Root().Commands() {
				if c.IsAvailableCommand() {
					names = append(names, c.Name())
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		}),
		RunE: func(cmd *cobra.Command, args []string) error {
			topic, rest, err := cmd.Root().Find(args)
			if err != nil {
				return err
			}
			if len(rest) > 0 {
				return noSuchCommand(topic, rest)
			}
			printHelp(topic)
			return nil
		},
	}
}
