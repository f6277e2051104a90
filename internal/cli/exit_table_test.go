package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The table of exit codes in the documentation has the texts of the help of every command.
func TestExitCodesOfTheDocumentationAreThoseOfTheHelp(t *testing.T) {
	table := "| command | 0 | 1 | 2 | 3 | 4 |\n|---|---|---|---|---|---|\n"
	for _, c := range rootThat(runs{}).Commands() {
		if !c.IsAvailableCommand() || c.Name() == "help" {
			continue
		}
		cells := []string{"`" + c.Name() + "`", "", "", "", "", ""}
		for _, row := range exitCodesOf(c) {
			if row.code <= 4 {
				cells[1+row.code] = row.meaning
			}
		}
		table += strings.ReplaceAll("| "+strings.Join(cells, " | ")+" |\n", "  ", " ")
	}
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "scripting.md"))
	require.NoError(t, err)
	require.True(t, strings.Contains(string(text), table), "the table is:\n%s", table)
}

// Only commands that write to destinations can drop one, and only copies have conflicts.
func TestExitCodesAreAboutTheCommand(t *testing.T) {
	for _, c := range rootThat(runs{}).Commands() {
		writes := slices.Contains([]string{"copy", "run", "merge"}, c.Name())
		for _, row := range exitCodesOf(c) {
			require.True(t, writes || row.code != 4, c.Name())
			require.True(t, writes || !strings.Contains(row.meaning, "destination"), "%s: %s", c.Name(), row.meaning)
		}
		require.Equal(t, "everything requested was done", meaningOf(c.Root(), 0))
	}
}
