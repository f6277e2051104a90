package cli

import (
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/manifest"
	"github.com/seed65876f4f/sealift/internal/progress"
	"github.com/seed65876f4f/sealift/internal/verify"
)

// manifestNames lists names of manifests, one of each kind, in lines that fit the help.
func manifestNames() string {
	const columns = 78
	text, used := "", 0
	for _, kind := range manifest.AllFileNames() {
		name := kind.Patterns[0] + ","
		switch {
		case text == "":
			used = len(name)
		case used+len(" ")+len(name) > columns:
			text, used = text+"\n", len(name)
		default:
			text, used = text+" ", used+len(" ")+len(name)
		}
		text += name
	}
	return text
}

func newVerifyCmd(run runner[verify.Options, verify.Summary]) *cobra.Command {
	flags := &verifyFlags{}
	cmd := &cobra.Command{
		Use:   "verify [flags] [PATH...]",
		Short: "Check trees against their manifests",
		Long: `Reads the files that manifests list, and compares them. PATH is a directory, by
default the current one, or a manifest, which lists files of its directory. The
manifests of a directory are files such as
` + manifestNames() + `
or the same with other algorithms. Directories on different devices are checked
at the same time. Files that do not match are printed on standard output, in the
order of the manifests. Nothing outside of the directory is opened, whatever a
manifest says. Markers (SEALIFT-INCOMPLETE-*.txt) and journals of unfinished
copies in a directory are reported; the exit code is 3 then.`,
		Example: `  sealift verify /mnt/archive
  sealift verify --cache drop --unlisted /mnt/disk1 /mnt/disk2
  sealift verify /mnt/archive/MD5SUMS
  sealift verify --manifest old/SHA256SUMS /mnt/archive`,
		Annotations: endsWith("0 1 2 3 130 143"),
	}
	addGroups(cmd, flags.groups())
	cmd.Flag("hash-file").Hidden = true
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		options, err := flags.verifyOptions(cmd, args)
		if err != nil {
			return err
		}
		page, err := openVerifyReport(cmd, options, flags.report)
		if err != nil {
			return err
		}
		stdout := cmd.OutOrStdout()
		r := &verifyReporter{newReporter(cmd), flags.silent, len(options.Paths) > 1}
		r.quiet, r.json, r.page = flags.quiet, flags.json, page
		if err := r.openLog(flags.logFile); err != nil {
			return err
		}
		options.Report = r.result
		if page != nil {
			options.Each = r.checked
		}
		return runCommand(cmd, job[verify.Options, verify.Summary]{
			reporter: r.reporter,
			progress: flags.progress,
			quiet:    flags.silent || flags.quiet,
			mayWait:  options.Manifest != "",
			run:      run,
			options:  options,
			watch:    func(c *counters.Set) func() { return page.watch(c, nil, "read") },
			finish: func(s *verify.Summary, result outcome) outcome {
				result = result.or(outcome{failed: s.Errors > 0, mismatched: s.Mismatches > 0 || s.Missing > 0})
				result = r.writeReport(options, s, result)
				result = r.endLog(result, "files", s.Files, "bytes", s.Bytes, "matches", s.Matches, "mismatches", s.Mismatches,
					"missing", s.Missing, "elapsed", s.Elapsed)
				switch {
				case flags.json:
					printJSON(stdout, newVerifyJSON(s, r, result))
				case !flags.silent && !flags.quiet && !flags.noSummary:
					printVerifySummary(stdout, options, s, r, result)
				}
				return result
			},
		})
	}
	return cmd
}

// verifyFlags is the command line of verify.
type verifyFlags struct {
	options   verify.Options
	selection selection

	literal                        bool // names with "\\" are taken as they are
	quiet, silent, noSummary, json bool
	logFile, report                string
	progress                       progress.Mode
}

func (f *verifyFlags) groups() []flagGroup {
	o := &f.options
	return []flagGroup{
		{"What to check", func(s *pflag.FlagSet) {
			manifest := &onceValue{&o.Manifest}
			s.Var(manifest, "manifest", "check every PATH, a directory then, against the manifest `FILE` (- for standard input) and not against those that are in it; FILE is looked for here, and else in each PATH; --hash-file is the same")
			s.Var(manifest, "hash-file", "another name of --manifest, with a `FILE`")
			s.BoolVar(&o.Unlisted, "unlisted", false, "report files that no manifest names, too; they do not change the exit code")
			s.BoolVar(&o.IgnoreMissing, "ignore-missing", false, "do not report files that are not there")
			f.selection.flags(s, "check", nil)
			s.BoolVar(&f.literal, "no-convert-paths", false, "do not try names with \\ from Windows with / where they do not exist")
		}},
		{groupSafety, func(s *pflag.FlagSet) {
			s.BoolVar(&o.Strict, "strict", false, "lines of a manifest that cannot be read are errors, not warnings")
			readCacheFlag(s, &o.Cache)
		}},
		{groupSpeed, func(s *pflag.FlagSet) {
			workersFlag(s, &o.Workers, "files of each device read")
			bwlimitFlag(s, &o.BytesPerSecond, "read at most at")
		}},
		{groupOutput, func(s *pflag.FlagSet) {
			s.BoolVarP(&f.quiet, "quiet", "q", false, "print only files that do not match, and failures")
			s.BoolVarP(&o.Verbose, "verbose", "v", false, "name the files that match, too")
			s.BoolVar(&f.silent, "silent", false, "print nothing on standard output")
			s.BoolVar(&f.noSummary, "no-summary", false, "print no summary")
			progressFlag(s, &f.progress)
			logFileFlag(s, &f.logFile, "file that does not match and message")
			reportFlag(s, &f.report)
			s.BoolVar(&f.json, "json", false, "report as one JSON object on standard output; what does not match is named on standard error as well")
		}},
	}
}

func (f *verifyFlags) verifyOptions(cmd *cobra.Command, args []string) (*verify.Options, error) {
	o := &f.options
	switch {
	case f.silent && o.Verbose:
		return nil, usagef("--silent and --verbose contradict each other")
	case f.quiet && o.Verbose:
		return nil, usagef("--quiet and --verbose contradict each other")
	case f.silent && f.json:
		return nil, usagef("--silent and --json contradict each other")
	case slices.Contains(args, ""):
		return nil, usagef("the name of a path is empty")
	case o.Manifest == "-" && f.selection.filesFrom == "-":
		return nil, usagef("--manifest - and --files-from - both need standard input")
	}
	var err error
	if o.Filter, o.Only, err = f.selection.read(cmd); err != nil {
		return nil, err
	}
	if len(args) == 0 {
		args = []string{"."}
	}
	o.Paths = args
	o.ConvertPaths = !f.literal
	o.Stdin = cmd.InOrStdin()
	return o, nil
}
