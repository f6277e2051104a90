package cli

import (
	"bytes"
	"io"
	"os"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/seed65876f4f/sealift/internal/manifest"
	"github.com/seed65876f4f/sealift/internal/quote"
	"github.com/seed65876f4f/sealift/internal/sum"
)

func newSumCmd(run runner[sum.Options, sum.Summary]) *cobra.Command {
	flags := &sumFlags{}
	cmd := &cobra.Command{
		Use:        "sum [flags] [PATH...]",
		SuggestFor: []string{"hash", "checksum", "digest", "sha256sum", "md5sum"},
		Short:      "Hash trees in parallel, and print or write their manifest",
		Long: `Hashes the files in each PATH (default: the current directory; - for standard
input) and prints the lines of a manifest that "sha256sum -c" accepts, sorted by
name. If PATH is a single directory, names are relative to it. On a terminal,
control characters in names are printed as escapes.` + notesBelow + `--manifest writes the lines to FILE when all are complete. FILE never lists
itself. Its lines for other files stay while these files exist.

` + mhlHelp + `

` + filterHelp + `
A directory in --files-from includes everything below it.`,
		Example: `  sealift sum /mnt/archive > SHA256SUMS
  sealift sum --manifest /mnt/archive/SHA256SUMS /mnt/archive
  sealift sum --hash sha256,blake3 --tag --exclude '*.tmp' project`,
		Annotations: exits{
			0: "everything is hashed", 1: "a file could not be read, or the manifest not written",
			3: "a file differs from its ASC MHL history, or is missing",
		}.annotations(),
	}
	addGroups(cmd, flags.groups())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		options, err := flags.sumOptions(cmd, args)
		if err != nil {
			return err
		}
		stdout := cmd.OutOrStdout()
		r, err := newReporter(cmd, &flags.outputFlags, flags.usedFiles(cmd))
		if err != nil {
			return err
		}
		var listed []manifest.Entry
		if flags.json && !flags.writesFile() {
			options.Listed = func(e manifest.Entry) { listed = append(listed, e) }
		}
		options.Out, options.OutFile = r.results, fileOf(stdout)
		if isTerminal(stdout) && !options.Zero {
			options.Out = &quotedLines{w: r.results} // other outputs get names byte for byte
		}
		options.Report = func(e sum.Event) {
			switch {
			case e.Warning:
				r.warning(e.Path, "", e.Err)
			case e.Mismatch:
				r.mismatch(e.Path, "", e.Err)
			default:
				r.failure(e.Path, "", e.Err)
			}
		}
		return runCommand(cmd, job[sum.Options, sum.Summary]{
			reporter: r,
			run:      run,
			options:  options,
			finish: func(s *sum.Summary, result outcome) outcome {
				result = result.or(outcome{failed: s.Errors > 0})
				if result.signal == nil {
					s.Warnings += flags.selection.warnUnmet(r, nil, s.Files == 0 && s.LeftOut > 0)
				}
				r.noSummary = !flags.writesFile()
				return r.publish(stdout, result, func(result outcome) document { return newSumOutcome(options, s, r, listed, result) })
			},
		})
	}
	return cmd
}

// sumFlags holds the flags of sum.
type sumFlags struct {
	options   sum.Options
	selection selection
	mhl       mhlFlags
	outputFlags
}

func (f *sumFlags) groups() []flagGroup {
	o := &f.options
	return []flagGroup{
		{"What to hash", func(s *pflag.FlagSet) {
			f.selection.flags(s, "hash", &o.OneFileSystem)
		}},
		{groupManifest, func(s *pflag.FlagSet) {
			hashFlag(s, &o.Hashes, "; several need --tag or --json")
			s.Var(&onceValue{&o.Manifest}, "manifest", "write the manifest to `FILE`, not to stdout")
			s.BoolVar(&o.Tag, "tag", false, "write lines in BSD style, which name the hash")
			s.BoolVarP(&o.Zero, "zero", "z", false, "end lines with NUL bytes, do not escape names")
			f.mhl.define(s, "an ASC MHL generation")
			s.BoolVar(&f.mhl.detectRenames, "detect-renames", false, "record earlier paths of renamed files (--mhl)")
		}},
		{groupSpeed, func(s *pflag.FlagSet) {
			workersFlag(s, &o.Workers, "hash `NUMBER` files at once")
			bwlimitFlag(s, &o.BytesPerSecond, "read")
			readCacheFlag(s, &o.Cache)
		}},
		{groupOutput, func(s *pflag.FlagSet) {
			f.quietFlag(s, "print only lines and failures")
			f.commonFlags(s, "message")
		}},
	}
}

// usedFiles are the files of the command.
func (f *sumFlags) usedFiles(cmd *cobra.Command) usedFiles {
	stdin, _ := cmd.InOrStdin().(*os.File)
	files := append(f.selection.files(), argumentFiles("a file to hash", f.options.Paths, stdin)...)
	files = append(files, usedFile{what: "the manifest", path: f.options.Manifest})
	if !f.writesFile() {
		files = append(files, usedFile{what: "standard output", stream: fileOf(cmd.OutOrStdout())})
	}
	return usedFiles{files: files}
}

// writesFile reports whether the result is a file, not lines on standard output.
func (f *sumFlags) writesFile() bool { return f.options.Manifest != "" || f.mhl.given() }

func (f *sumFlags) sumOptions(cmd *cobra.Command, args []string) (*sum.Options, error) {
	o := &f.options
	if o.Manifest == "-" {
		o.Manifest = ""
	}
	if err := f.checkMHL(cmd); err != nil {
		return nil, err
	}
	switch {
	case len(o.Hashes) == 0:
		return nil, usagef("--hash none leaves nothing to do")
	case len(o.Hashes) > 1 && !o.Tag && (!f.json || o.Manifest != ""):
		return nil, usagef("several hashes need --tag, which writes the name of the hash into each line")
	case o.Manifest == "" && f.json && (o.Tag || o.Zero):
		return nil, usagef("--tag and --zero are about lines, and --json without --manifest prints none")
	case o.Zero && o.Manifest != "":
		return nil, usagef("--zero and --manifest contradict each other: no program checks a manifest whose lines end in NUL bytes")
	case slices.Contains(args, ""):
		return nil, usagef("the name of a path is empty")
	case standardInputs(args) > 1:
		return nil, usagef("- is given twice, but standard input can be read only once")
	case f.selection.filesFrom == "-" && slices.Contains(args, "-"):
		return nil, usagef("--files-from - and the path - both need standard input")
	}
	var err error
	if o.Filter, o.Only, err = f.selection.read(cmd); err != nil {
		return nil, err
	}
	if len(args) == 0 {
		args = []string{"."}
	}
	o.Paths = args
	o.Stdin = cmd.InOrStdin()
	if f.mhl.asc() {
		err = f.useMHL()
	}
	return o, err
}

// checkMHL refuses flags that --mhl excludes, and sets the options of a classic media hash list.
func (f *sumFlags) checkMHL(cmd *cobra.Command) error {
	if err := f.mhl.check(); err != nil || !f.mhl.given() {
		return err
	}
	o := &f.options
	if o.Manifest == "" {
		for _, name := range []string{"hash", "tag", "zero"} {
			if cmd.Flags().Changed(name) {
				return usagef("with --mhl, --%s needs --manifest, whose lines it changes; choose the digests of the history with --mhl=md5", name)
			}
		}
	}
	if f.mhl.kind.classic {
		o.MediaList = &sum.MediaList{Creator: mhlCreator(), Hashes: f.mhl.kind.hashes}
	}
	return nil
}

// useMHL sets the options of an ASC MHL history.
func (f *sumFlags) useMHL() (err error) {
	o := &f.options
	switch {
	case o.OneFileSystem:
		return usagef("--one-file-system and --mhl contradict each other: a history lists a whole directory")
	case o.Only != nil:
		return usagef("--files-from and --mhl contradict each other: a history lists a whole directory")
	}
	o.MHL = &sum.MHL{Creator: f.mhl.creator(), Hashes: f.mhl.kind.hashes, DetectRenames: f.mhl.detectRenames}
	o.MHL.Ignore, err = f.mhl.patterns(o.Filter)
	return err
}

// standardInputs returns how many paths are "-", standard input.
func standardInputs(args []string) (n int) {
	for _, arg := range args {
		if arg == "-" {
			n++
		}
	}
	return n
}

// quotedLines is a writer that quotes each line for a terminal and writes it when it is complete.
type quotedLines struct {
	w    io.Writer
	part []byte // the incomplete last line
}

func (q *quotedLines) Write(p []byte) (int, error) {
	q.part = append(q.part, p...)
	whole := q.part[:bytes.LastIndexByte(q.part, '\n')+1]
	for line := range bytes.Lines(whole) {
		if _, err := io.WriteString(q.w, quote.Text(string(line[:len(line)-1]))+"\n"); err != nil {
			return 0, err
		}
	}
	q.part = append(q.part[:0], q.part[len(whole):]...)
	return len(p), nil
}
