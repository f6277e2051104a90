package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/seed65876f4f/sealift/internal/manifest"
	"github.com/seed65876f4f/sealift/internal/verify"
)

// manifestNames lists the first name of each kind of manifest, in lines that fit the help.
func manifestNames() string {
	const columns = 78
	var names []string
	for _, kind := range manifest.AllFileNames() {
		names = append(names, kind.Patterns[0])
	}
	return strings.Join(wrap(strings.Join(names, ", ")+".", columns), "\n")
}

func newVerifyCmd(run runner[verify.Options, verify.Summary]) *cobra.Command {
	flags := &verifyFlags{}
	cmd := &cobra.Command{
		Use:        "verify [flags] [PATH...]",
		SuggestFor: []string{"check", "validate", "audit"},
		Short:      "Check trees against their manifests",
		Long: `Reads the files that manifests list, and compares their digests. PATH is a
directory (default: the current one), or a manifest, which lists files of its
directory. Files that do not match are printed on standard output, in the order
of the manifests.

These files in a directory are its manifests, also with other algorithms:
` + manifestNames() + `
So is the ASC MHL history in ascmhl, with those below the directory.

Directories on different devices are checked at the same time. Nothing outside a
directory is opened, whatever a manifest lists.

Markers (SEALIFT-INCOMPLETE-*.txt) and journals of unfinished copies in a
directory are reported, and the exit code is 3.` + notesBelow + filterHelp + `
A directory in --files-from includes everything below it.

--manifest checks each PATH, which must be a directory, against FILE instead of
its own manifests. FILE is searched for in the current directory, then in each
PATH. --hash-file is another name of --manifest.`,
		Example: `  sealift verify /mnt/archive
  sealift verify --cache drop --unlisted /mnt/disk1 /mnt/disk2
  sealift verify /mnt/archive/MD5SUMS
  sealift verify --manifest old/SHA256SUMS /mnt/archive`,
		Annotations: exits{
			0: "every line matches", 1: "a file could not be read", 2: "usage error, or nothing to check",
			3: "a file differs or is missing, or a copy is incomplete",
		}.annotations(),
	}
	addGroups(cmd, flags.groups())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		options, err := flags.verifyOptions(cmd, args)
		if err != nil {
			return err
		}
		r, err := newVerifyReporter(cmd, &flags.outputFlags, options, flags.silent, usedByVerify(options, &flags.selection, ""))
		if err != nil {
			return err
		}
		r.noSummary = flags.silent || flags.noSummary
		return runCommand(cmd, job[verify.Options, verify.Summary]{
			reporter: r.reporter,
			quiet:    flags.silent,
			mayWait:  options.Manifest != "",
			run:      run,
			options:  options,
			read:     "read",
			finish: func(s *verify.Summary, result outcome) outcome {
				return r.finish(cmd.OutOrStdout(), s, &flags.selection, result)
			},
		})
	}
	return cmd
}

// verifyFlags holds the flags of verify.
type verifyFlags struct {
	options   verify.Options
	selection selection
	outputFlags

	literal           bool // keep backslashes in names
	silent, noSummary bool
}

func (f *verifyFlags) groups() []flagGroup {
	o := &f.options
	return []flagGroup{
		{"What to check", func(s *pflag.FlagSet) {
			manifest := &onceValue{&o.Manifest}
			s.Var(manifest, "manifest", "check each PATH against `FILE`, - for stdin")
			s.Var(manifest, "hash-file", "check each PATH against `FILE`")
			s.BoolVar(&o.Unlisted, "unlisted", false, "report files that no manifest lists (exit code 0)")
			s.BoolVar(&o.IgnoreMissing, "ignore-missing", false, "do not report missing files")
			f.selection.flags(s, "check", nil)
			s.BoolVar(&f.literal, "no-convert-paths", false, "do not try / for \\ in names that do not exist")
		}},
		{groupSafety, func(s *pflag.FlagSet) {
			s.BoolVar(&o.Strict, "strict", false, "treat malformed lines as errors, not warnings")
			readCacheFlag(s, &o.Cache)
		}},
		{groupSpeed, func(s *pflag.FlagSet) {
			workersFlag(s, &o.Workers, "read `NUMBER` files per device at once")
			bwlimitFlag(s, &o.BytesPerSecond, "read")
		}},
		{groupOutput, func(s *pflag.FlagSet) {
			f.quietFlag(s, "print only files that do not match, and failures")
			s.BoolVarP(&o.Verbose, "verbose", "v", false, "list files that match, too")
			s.BoolVar(&f.silent, "silent", false, "print nothing on standard output")
			s.BoolVar(&f.noSummary, "no-summary", false, "print no summary")
			f.commonFlags(s, "mismatch and message")
			f.reportFlag(s)
			f.metricsFlag(s)
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
