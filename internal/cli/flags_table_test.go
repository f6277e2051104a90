package cli

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// flagsTable reads the table of docs/scripting.md: for each flag the commands that have it.
func flagsTable(t *testing.T) (commands []string, table map[string][]string) {
	t.Helper()
	text, err := os.ReadFile("../../docs/scripting.md")
	require.NoError(t, err)
	_, text2, found := strings.Cut(string(text), "\n## Flags of all commands\n")
	require.True(t, found)
	table = map[string][]string{}
	for line := range strings.Lines(text2) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		switch {
		case strings.HasPrefix(line, "## "):
			return commands, table
		case !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "|---"):
			continue
		case commands == nil:
			for _, cell := range cells[1:] {
				commands = append(commands, strings.Trim(cell, " `"))
			}
			continue
		}
		for i, cell := range cells[1:] {
			if cell = strings.TrimSpace(cell); cell == "yes" {
				for flag := range strings.SplitSeq(cells[0], ",") {
					flag = strings.Trim(flag, " `")
					table[flag] = append(table[flag], commands[i])
				}
			} else {
				require.Equal(t, "no", cell, line)
			}
		}
	}
	return commands, table
}

// The documentation has a table of the flags that several commands have. These flags have the same
// short name and the same kind of value in all commands.
func TestFlagsOfAllCommandsAreThoseOfTheDocumentation(t *testing.T) {
	commands, table := flagsTable(t)
	require.Equal(t, []string{"copy", "verify", "compare", "sum", "du", "stream"}, commands)
	have := map[string][]string{}
	for _, c := range rootThat(runs{}).Commands() {
		if !slices.Contains(commands, c.Name()) {
			continue
		}
		for flag := range table {
			f := c.Flags().Lookup(strings.TrimPrefix(flag, "--"))
			if f == nil {
				continue
			}
			have[flag] = append(have[flag], c.Name())
			first, _, err := c.Root().Find(have[flag][:1])
			require.NoError(t, err)
			same := first.Flags().Lookup(f.Name)
			require.Equal(t, same.Shorthand, f.Shorthand, "%s %s", c.Name(), flag)
			require.Equal(t, valueOf(same), valueOf(f), "%s %s", c.Name(), flag)
		}
	}
	require.Equal(t, table, have)
	for _, flag := range strings.Fields("quiet verbose json progress log-file log-format workers bwlimit cache include exclude") {
		require.Contains(t, table, "--"+flag)
	}
}
