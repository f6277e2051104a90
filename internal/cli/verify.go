package cli

import (
	"os"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/seed65876f4f/sealift/internal/manifest"
	"github.com/seed65876f4f/sealift/internal/pipe"
	"github.com/seed65876f4f/sealift/internal/progress"
	"github.com/seed65876f4f/sealift/internal/quote"
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
		Use:   "verify [flags] [DIR...]",
		Short: "Check trees against their manifests",
		Long: `Reads the files that the manifests of each DIR list (by default of the current
directory) and compares them. Manifests are files such as
` + manifestNames() + `
or the same with other algorithms. What does not match is printed on standard
output, in the order of the manifests. Nothing outside of DIR is opened,
whatever a manifest says. Markers (SEALIFT-INCOMPLETE-*.txt) and journals of
unfinished copies in DIR are reported; the exit code is 3 then.`,
		Example: `  sealift verify /mnt/archive
  sealift verify --cache drop --unlisted /mnt/disk1 /mnt/disk2
  sealift verify --manifest old/SHA256SUMS /mnt/archive`,
		Annotations:       endsWith("0 1 2 3 130 143"),
		ValidArgsFunction: completeDirectories,
	}
	addGroups(cmd, flags.groups())
	cmd.Flag("hash-file").Hidden = true
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		options, err := flags.verifyOptions(cmd, args)
		if err != nil {
			return err
		}
		stdout := cmd.OutOrStdout()
		r := &verifyReporter{newReporter(cmd), flags.silent, len(options.Dirs) > 1}
		r.json = flags.json
		options.Report = r.result
		return runCommand(cmd, job[verify.Options, verify.Summary]{
			reporter: r.reporter,
			progress: flags.progress,
			quiet:    flags.silent,
			run:      run,
			options:  options,
			finish: func(s *verify.Summary, result outcome) outcome {
				result = result.or(outcome{failed: s.Errors > 0, mismatched: s.Mismatches > 0 || s.Missing > 0})
				switch {
				case flags.json:
					printJSON(stdout, newVerifyJSON(s, r, result))
				case !flags.silent && !flags.noSummary:
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
	options verify.Options

	literal                 bool // names with "\" are taken as they are
	silent, noSummary, json bool
	progress                progress.Mode
}

func (f *verifyFlags) groups() []flagGroup {
	o := &f.options
	return []flagGroup{
		{"What to check", func(s *pflag.FlagSet) {
			manifest := &onceValue{&o.Manifest}
			s.Var(manifest, "manifest", "check every DIR against the manifest `FILE` (- for standard input) and not against those that are in it; FILE is looked for here, and else in each DIR; --hash-file is the same")
			s.Var(manifest, "hash-file", "another name of --manifest, with a `FILE`")
			s.BoolVar(&o.Unlisted, "unlisted", false, "report files that no manifest names, too; they do not change the exit code")
			s.BoolVar(&o.IgnoreMissing, "ignore-missing", false, "do not report files that are not there")
			s.BoolVar(&f.literal, "no-convert-paths", false, "do not try names with \\ from Windows with / where they do not exist")
		}},
		{groupSafety, func(s *pflag.FlagSet) {
			s.BoolVar(&o.Strict, "strict", false, "lines of a manifest that cannot be read are errors, not warnings")
			s.Var(newChoice(&o.Cache, pipe.CacheModes.Without(pipe.CacheKeep)), "cache", "`MODE`: where files are read from: auto (memory, if they are there), drop (the device: they are evicted from memory before and after), direct (the device, past the memory)")
		}},
		{groupSpeed, func(s *pflag.FlagSet) {
			workersFlag(s, &o.Workers, "files checked")
		}},
		{groupOutput, func(s *pflag.FlagSet) {
			s.BoolVarP(&o.Verbose, "verbose", "v", false, "name the files that match, too")
			s.BoolVar(&f.silent, "silent", false, "print nothing on standard output")
			s.BoolVar(&f.noSummary, "no-summary", false, "print no summary")
			progressFlag(s, &f.progress)
			s.BoolVar(&f.json, "json", false, "report as one JSON object on standard output; what does not match is named on standard error as well")
		}},
	}
}

func (f *verifyFlags) verifyOptions(cmd *cobra.Command, args []string) (*verify.Options, error) {
	o := &f.options
	switch {
	case f.silent && o.Verbose:
		return nil, usagef("--silent and --verbose contradict each other")
	case f.silent && f.json:
		return nil, usagef("--silent and --json contradict each other")
	case slices.Contains(args, ""):
		return nil, usagef("the name of a directory is empty")
	}
	for _, dir := range args {
		if info, err := os.Stat(dir); err == nil && !info.IsDir() {
			return nil, usagef("%s is not a directory; to check one against a manifest: --manifest FILE DIR", quote.Name(dir))
		}
	}
	if len(args) == 0 {
		args = []string{"."}
	}
	o.Dirs = args
	o.ConvertPaths = !f.literal
	o.Stdin = cmd.InOrStdin()
	return o, nil
}
