package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/seed65876f4f/sealift/internal/hash"
)

func newManCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "man DIR",
		Short: "Write the man pages to a directory",
		Long:  "Writes one page for each command, with the text of its --help. DIR is created.",
		Example: `  sealift man ~/.local/share/man/man1
  man sealift-copy`,
		Args:              exactly("DIR"),
		ValidArgsFunction: onlyFirst(completeDirectories),
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
	sb.WriteString(".nh\n.ad l\n") // no hyphen or space in a flag or a path that a reader copies
	fmt.Fprintf(&sb, ".SH NAME\n%s \\- %s\n", roff(pageName(c)), roff(c.Short))
	sb.WriteString(".SH SYNOPSIS\n.nf\n")
	for line := range strings.SplitSeq(useLine(c), "\n") {
		fmt.Fprintf(&sb, ".B %s\n", roff(strings.TrimSpace(line)))
	}
	sb.WriteString(".fi\n")
	fmt.Fprintf(&sb, ".SH EXAMPLES\n.nf\n%s\n.fi\n", roff(c.Example))
	about, notes := describe(c)
	fmt.Fprintf(&sb, ".SH DESCRIPTION\n%s\n", roff(c.Short+"."))
	if about != "" {
		fmt.Fprintf(&sb, ".PP\n%s\n", manParagraphs(about))
	}
	if c.HasAvailableSubCommands() {
		sb.WriteString(".SH COMMANDS\n")
		for _, sub := range c.Commands() {
			if sub.IsAvailableCommand() {
				fmt.Fprintf(&sb, ".TP\n\\fB%s\\fR\n%s\n", roff(sub.Name()), roff(sub.Short))
			}
		}
	}
	sections := flagSections(c)
	sb.WriteString(".SH OPTIONS\n")
	for _, section := range sections {
		if len(sections) > 1 {
			fmt.Fprintf(&sb, ".SS %s\n", roff(section.title))
		}
		for _, f := range section.flags {
			manFlag(&sb, f)
		}
	}
	if notes != "" {
		fmt.Fprintf(&sb, ".SH NOTES\n%s\n", manParagraphs(notes))
	}
	sb.WriteString(".SH EXIT STATUS\n")
	for _, row := range exitCodesOf(c) {
		text := row.meaning
		if row.detail != "" {
			text += ". " + row.detail
		}
		fmt.Fprintf(&sb, ".TP\n%d\n%s\n", row.code, roff(text))
	}
	manTerms(&sb, "FILES", c, manFiles)
	manTerms(&sb, "ENVIRONMENT", c, manEnvironment)
	var pages []string
	for _, r := range append([]*cobra.Command{c.Root()}, c.Root().Commands()...) {
		if r != c && (r.IsAvailableCommand() || !r.HasParent()) {
			pages = append(pages, fmt.Sprintf(".BR %s (1)", roff(pageName(r))))
		}
	}
	fmt.Fprintf(&sb, ".SH SEE ALSO\n%s\n", strings.Join(pages, " ,\n"))
	return sb.String()
}

func manParagraphs(text string) string { return strings.ReplaceAll(roff(text), "\n\n", "\n.PP\n") }

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

// manTerm explains a file name or a variable on the man pages of some commands.
type manTerm struct{ commands, word, text string }

// manFiles are the names that Sealift chooses for its files.
var manFiles = []manTerm{
	{"copy verify", "SHA256SUMS", "the manifest of a directory; " + otherFileNames() + " for other hashes"},
	{"copy verify", "NAME.sha256", "the manifest beside a single file that was copied"},
	{"copy verify", "sealift.sha256", "the manifest of a directory where the source or the destination has something else under the usual name"},
	{"copy", ".sealift-journal", "the journal of an unfinished copy: a directory in the destination with a log of finished files and the lock; .sealift-NAME.journal for a single file. The run that completes the copy removes it"},
	{"copy", ".sealift-was-NAME", "the previous manifest NAME, while a copy replaces files that it lists"},
	{"copy verify compare merge", "SEALIFT-INCOMPLETE-NAME.txt", "the marker of an incomplete copy, with the paths that are missing. The next complete copy of the same source removes it"},
	{"copy sum stream", ".sealift-*.tmp", "a file that is incomplete"},
	{"copy", ".sealift-bad-*", "a file that --verify found to differ from the source"},
}

var manEnvironment = []manTerm{
	{"sealift copy verify compare sum stream plan run merge", "TERM", "dumb: print a line of progress every ten seconds instead of a bar"},
	{"sealift copy verify compare sum du stream plan run merge", "NO_COLOR", "if set, print no colours"},
	{"sealift du", "COLUMNS", "the width of charts that are not printed on a terminal"},
	{"sealift copy verify compare sum du stream plan run merge", "LC_ALL, LC_CTYPE, LANG", "the character set of progress bars and charts: only ASCII unless it is UTF-8"},
	{"sealift copy verify sum", "TMPDIR", "the directory for temporary files, which only long listings and long ASC MHL histories need"},
}

// manTerms writes a section with the terms of a command. It writes no section without terms.
func manTerms(sb *strings.Builder, title string, c *cobra.Command, terms []manTerm) {
	for _, t := range terms {
		if !slices.Contains(strings.Fields(t.commands), c.Name()) {
			continue
		}
		if title != "" {
			fmt.Fprintf(sb, ".SH %s\n", title)
			title = ""
		}
		fmt.Fprintf(sb, ".TP\n\\fI%s\\fR\n%s\n", roff(t.word), roff(t.text))
	}
}

// roff escapes text for man(7). It escapes the characters that are commands to the formatter,
// and those that the formatter would replace by typographic ones, such as - and '. Readers
// copy commands from man pages, so that these must stay ASCII.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "`", `\(ga`, `"`, `\(dq`, "^", `\(ha`, "~", `\(ti`).Replace(text)
	return strings.ReplaceAll("\n"+text, "\n.", "\n\\&.")[1:]
}

// otherFileNames lists the names of the manifests of all hashes but SHA-256.
func otherFileNames() string {
	var names []string
	for _, a := range hash.Algorithms() {
		if a != hash.SHA256 {
			names = append(names, a.FileName())
		}
	}
	return inWords(names)
}
