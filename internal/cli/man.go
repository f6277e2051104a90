package cli

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

func newManCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "man DIR",
		Short: "Write the man pages into a directory",
		Long:  "Writes one man page per command into DIR, which is created.",
		Example: `  sealift man ~/.local/share/man/man1
  man sealift-copy`,
		Args: exactly("DIR"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil { //nolint:gosec // man pages are for everybody
				return err
			}
			build := readBuild()
			header := doc.GenManHeader{Section: "1", Source: "sealift " + build.Version, Manual: "Sealift Manual"}
			if !build.Time.IsZero() {
				header.Date = &build.Time
			}
			root := cmd.Root()
			for _, c := range append(root.Commands(), root) {
				if !c.IsAvailableCommand() && c != root {
					continue
				}
				if err := writeManPage(c, header, args[0]); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

// writeManPage writes the page of one command, "sealift-copy.1".
func writeManPage(c *cobra.Command, header doc.GenManHeader, dir string) (err error) {
	name := strings.ReplaceAll(c.CommandPath(), " ", "-") + ".1"
	f, err := os.Create(filepath.Join(dir, name))
	if err != nil {
		return err
	}
	defer func() {
		if e := f.Close(); err == nil {
			err = e
		}
	}()
	c.DisableAutoGenTag = true
	header.Title = "" // filled in by GenMan
	if err := doc.GenMan(c, &header, f); err != nil {
		return err
	}
	_, err = io.WriteString(f, exitStatusSection())
	return err
}

func exitStatusSection() string {
	var sb strings.Builder
	sb.WriteString("\n.SH EXIT STATUS\n")
	for _, row := range exitTable {
		fmt.Fprintf(&sb, ".TP\n%d\n%s\n", row.code, row.meaning)
	}
	return sb.String()
}
