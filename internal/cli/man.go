package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
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
				return fileError(err)
			}
			build := readBuild()
			root := cmd.Root()
			for _, c := range append(root.Commands(), root) {
				if !c.IsAvailableCommand() && c != root {
					continue
				}
				name := filepath.Join(args[0], pageName(c)+".1")
				if err := os.WriteFile(name, []byte(manPage(c, build)), 0o644); err != nil { //nolint:gosec // as above
					return fileError(err)
				}
			}
			return nil
		},
	}
}

// pageName is "sealift-copy" for "sealift copy".
func pageName(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

// manPage writes the page of one command for man(7).
func manPage(c *cobra.Command, b build) string {
	date := ""
	if !b.Time.IsZero() {
		date = b.Time.Format(time.DateOnly)
	}
	var sb strings.Builder
	fmt.Fprintf(&sb, ".TH \"%s\" \"1\" \"%s\" \"%s\" \"Sealift Manual\"\n",
		roff(strings.ToUpper(pageName(c))), date, roff("sealift "+b.Version))
	fmt.Fprintf(&sb, ".SH NAME\n%s \\- %s\n", roff(pageName(c)), roff(c.Short))
	fmt.Fprintf(&sb, ".SH SYNOPSIS\n.B %s\n", roff(useLine(c)))
	fmt.Fprintf(&sb, ".SH DESCRIPTION\n%s\n", roff(c.Long))
	titles, sets := flagsByGroup(c)
	sb.WriteString(".SH OPTIONS\n")
	for _, title := range titles {
		if len(titles) > 1 {
			fmt.Fprintf(&sb, ".SS %s\n", roff(title))
		}
		sets[title].VisitAll(func(f *pflag.Flag) { manFlag(&sb, f) })
	}
	if c.Example != "" {
		fmt.Fprintf(&sb, ".SH EXAMPLES\n.nf\n%s\n.fi\n", roff(c.Example))
	}
	sb.WriteString(".SH EXIT STATUS\n")
	for _, row := range exitCodesOf(c) {
		fmt.Fprintf(&sb, ".TP\n%d\n%s\n", row.code, roff(row.meaning))
	}
	related := []*cobra.Command{c.Parent()}
	if !c.HasParent() {
		related = c.Commands()
	}
	var pages []string
	for _, r := range related {
		if r.IsAvailableCommand() || !r.HasParent() {
			pages = append(pages, fmt.Sprintf(".BR %s (1)", roff(pageName(r))))
		}
	}
	fmt.Fprintf(&sb, ".SH SEE ALSO\n%s\n", strings.Join(pages, " ,\n"))
	return sb.String()
}

func manFlag(sb *strings.Builder, f *pflag.Flag) {
	sb.WriteString(".TP\n")
	if f.Shorthand != "" {
		fmt.Fprintf(sb, "\\fB%s\\fR, ", roff("-"+f.Shorthand))
	}
	fmt.Fprintf(sb, "\\fB%s\\fR", roff("--"+f.Name))
	if value := valueOf(f); value != "" {
		sb.WriteString(valueSyntax(f, `\fI`+roff(value)+`\fR`))
	}
	text, rows, hasRows := strings.Cut(flagText(f), "\n")
	fmt.Fprintf(sb, "\n%s\n", roff(text))
	if hasRows {
		fmt.Fprintf(sb, ".nf\n%s\n.fi\n", roff(rows))
	}
}

// roff escapes text for man(7): what the formatter would take for its own, and
// what it would replace by typographic characters that nobody can type.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "`", `\(ga`, `"`, `\(dq`, "^", `\(ha`, "~", `\(ti`).Replace(text)
	return strings.ReplaceAll("\n"+text, "\n.", "\n\\&.")[1:]
}
