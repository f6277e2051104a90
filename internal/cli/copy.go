package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/engine"
	"github.com/seed65876f4f/sealift/internal/pipe"
	"github.com/seed65876f4f/sealift/internal/progress"
)

func newCopyCmd(run runner[engine.Options, engine.Summary]) *cobra.Command {
	flags := &copyFlags{}
	cmd := &cobra.Command{
		Use:   "copy [flags] SRC DST [-o DST2 ...]",
		Short: "Copy a tree to one or more destinations, and write its manifest",
		Long: `SRC is read once, and the manifest is written from what was read. The contents
of a directory land in DST, which is created; a file lands in DST if that is a
directory or ends in a slash, else at DST. What the source lacks is never
deleted at the destination. A run that was stopped is finished by the same
command.

Sizes such as 128K, 1M and 1MiB are powers of 1024; 80MB is a power of 1000.`,
		Example: `  sealift copy /media/card /mnt/archive
  sealift copy --verify /media/card /mnt/archive -o /mnt/second
  sealift copy --exclude '*.tmp' --hash sha256,blake3 project /mnt/backup`,
		Annotations:       endsWith("all"),
		ValidArgsFunction: flags.completeArgs,
	}
	addGroups(cmd, flags.groups())
	complete(cmd, "output", completeDirectories)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		options, err := flags.engineOptions(cmd, args)
		if err != nil {
			return err
		}
		page, err := openCopyReport(cmd, options, flags.report)
		if err != nil {
			return err
		}
		log, err := openLog(flags.logFile)
		if err != nil {
			return usagef("%s", logError(err))
		}
		r := &copyReporter{newReporter(cmd), flags, len(options.Targets) > 1, page}
		r.log, r.quiet, r.json, r.page = log, flags.quiet, flags.json, page.htmlReport
		options.Report = r.event
		r.logStart(options)
		advice := "; run the same command again to finish"
		if options.DryRun {
			advice = ""
		}
		return runCommand(cmd, job[engine.Options, engine.Summary]{
			reporter: r.reporter,
			progress: flags.progress,
			quiet:    flags.quiet,
			advice:   advice,
			run:      run,
			options:  options,
			watch:    func(c *counters.Set) func() { return page.watch(c, options.Targets, "read back") },
			finish: func(s *engine.Summary, result outcome) outcome {
				return r.finish(cmd.OutOrStdout(), s, result)
			},
		})
	}
	return cmd
}

// policyHelp explains the policies, each in the rows of a table.
const policyHelp = "`POLICY`: what to do where a name exists\n" + `default   skip what is up to date, replace what
          is older, leave the rest as conflicts
protect   skip what is up to date, replace no
          content: what differs is a conflict
never     touch nothing that exists
update    replace what differs in size or time
checksum  replace what differs in content
always    replace everything
No policy replaces a directory by a file, or a file by a directory.`

// verifyHelp explains the modes, as policyHelp does.
const verifyHelp = "`MODE`: read back what was copied and compare it, from the device and not from memory where there is a device\n" + `dest  every file at each destination; this is
      what --verify alone does
full  the source as well
off   nothing`

// sourceManifestHelp explains the modes, as policyHelp does.
const sourceManifestHelp = "`MODE`: what becomes of a SHA256SUMS that the source holds\n" + `check   a file that does not match it is not
        copied; a listed one that is absent is
        a warning
strict  what is not there is a mismatch, too
ignore  it is a file like any other`

// cacheHelp explains the modes, as policyHelp does.
const cacheHelp = "`MODE`: what the copy leaves in the page cache\n" + `auto    as keep, but as drop where more than half
        of the memory would be filled
keep    what the system likes
drop    only what was there before
direct  it is bypassed, where file systems can`

// copyFlags is the command line of copy.
type copyFlags struct {
	options engine.Options

	input     string
	outputs   []string
	selection selection
	blockSize int64

	quiet, verbose, json bool
	debug                bool
	logFile, report      string
	progress             progress.Mode
}

// groups defines the flags. Words in back quotes name the value in help, and
// are no part of the text where a colon follows.
func (f *copyFlags) groups() []flagGroup {
	o := &f.options
	return []flagGroup{
		{"What to copy", func(s *pflag.FlagSet) {
			s.VarP(&onceValue{&f.input}, "input", "i", "take `SRC` as the source, instead of the first argument")
			s.StringArrayVarP(&f.outputs, "output", "o", nil, "also copy to `DST`; may be repeated")
			f.selection.flags(s, "copy", &o.OneFileSystem)
			s.Var(newList(&o.Preserve, "all", engine.ParsePreserve, []string{"all", "none"}, engine.PreserveNames()), "preserve", "metadata to keep: all, none, or a `LIST` of "+strings.Join(engine.PreserveNames(), ", "))
			s.Var(newChoice(&o.Sparse, engine.SparseModes), "sparse", "`MODE`: how holes are treated: auto keeps those of the source, always makes them of zeros, never writes every byte")
		}},
		{groupManifest, func(s *pflag.FlagSet) {
			hashFlag(s, &o.Hashes, ", or none for no manifest", "none")
			s.StringVar(&o.Manifest, "manifest", "", "write the manifest to `PATH`, relative to each destination (default: SHA256SUMS and the like)")
		}},
		{groupSafety, func(s *pflag.FlagSet) {
			s.Var(newChoice(&o.Policy, engine.Policies), "overwrite-policy", policyHelp)
			s.Var(newChoice(&o.Verify, engine.VerifyModes), "verify", verifyHelp)
			s.Lookup("verify").NoOptDefVal = engine.VerifyDest.String()
			s.Var(newChoice(&o.SourceManifest, engine.SourceManifestModes), "source-manifest", sourceManifestHelp)
			s.Var(newChoice(&o.Sync, engine.SyncModes), "sync", "`MODE`: when data is forced to the device: end (before the manifest), file (after each), none")
			s.BoolVarP(&o.DryRun, "dry-run", "n", false, "report what would be done, and write nothing")
			s.BoolVar(&o.FailFast, "fail-fast", false, "stop at the first failure")
		}},
		{groupSpeed, func(s *pflag.FlagSet) {
			s.Var(newValue(&f.blockSize, "128K", sizeBetween(minBlock, maxBlock, "")), "block-size", "`SIZE`: size of a buffer")
			s.Var(newValue(&o.QueueSize, "10", countBetween(1, maxQueue, "")), "queue-size", "`NUMBER` of buffers that may wait between two stages of a file")
			workersFlag(s, &o.Workers, "files copied")
			s.Var(newValue(&o.Memory, "auto", sizeBetween("1", "", "auto"), "auto"), "memory", "use at most `SIZE` for all buffers together")
			bwlimitFlag(s, &o.BytesPerSecond, "limit all workers together to")
			s.Var(newValue(&o.DirtyWindow, "auto", parseWindow, "auto", "off"), "dirty-window", "`SIZE`: how much unwritten data may wait in memory for the device of each destination: auto (two seconds of its speed), off (as much as the system likes), or at least 1M")
			s.Var(newChoice(&o.Cache, pipe.CacheModes), "cache", cacheHelp)
			s.Var(newChoice(&o.Reflink, engine.ReflinkModes), "reflink", "`MODE`: whether copies share blocks with the source: auto where the file system can, always or the file fails, never")
		}},
		{groupOutput, func(s *pflag.FlagSet) {
			s.BoolVarP(&f.quiet, "quiet", "q", false, "tell failures and conflicts only")
			s.BoolVarP(&f.verbose, "verbose", "v", false, "name every entry, on standard error")
			progressFlag(s, &f.progress)
			s.StringVar(&f.logFile, "log-file", "", "append every action and message to `FILE`, and where the time went")
			reportFlag(s, &f.report)
			s.BoolVar(&f.debug, "debug", false, "after the summary, tell on standard error where the time went")
			s.BoolVar(&f.json, "json", false, "report as one JSON object on standard output")
		}},
	}
}

// takeArgs sorts the arguments into the source and the destinations. Only one
// argument can be a destination: a shell's glob must never make more.
func (f *copyFlags) takeArgs(args []string) error {
	o := &f.options
	o.Source = f.input
	if o.Source == "" && len(args) > 0 {
		o.Source, args = args[0], args[1:]
		if o.Source == "" {
			return usagef("the name of the source is empty")
		}
	}
	if len(args) > 1 && o.Verify == engine.VerifyDest && slices.Contains(engine.VerifyModes.List(), o.Source) {
		return usagef("%q is taken for the source; a mode of --verify stands behind an equals sign, as in --verify=%s", o.Source, o.Source)
	}
	if len(args) > 1 {
		return usagef("%q is one argument too many: copy takes one source; run it once per source", args[1])
	}
	o.Targets = slices.Concat(args, f.outputs)
	switch {
	case o.Source == "":
		return usagef("the source is missing")
	case len(o.Targets) == 0:
		return usagef("the destination is missing")
	case slices.Contains(o.Targets, ""):
		return usagef("the name of a destination is empty")
	}
	return nil
}

// check refuses flags that contradict each other.
func (f *copyFlags) check(cmd *cobra.Command) error {
	o := &f.options
	o.BlockSize = int(f.blockSize)
	given := func(name string) bool { return cmd.Flags().Changed(name) }
	switch {
	case f.quiet && f.verbose:
		return usagef("--quiet and --verbose contradict each other")
	case o.Reflink == engine.ReflinkAlways && o.Sparse != engine.SparseAuto:
		return usagef("--reflink=always shares holes as they are, and --sparse=%s asks for others", o.Sparse)
	case o.Verify != engine.VerifyOff && len(o.Hashes) == 0:
		return usagef("--verify needs a digest to compare with, and --hash none computes none")
	case given("source-manifest") && o.SourceManifest != engine.SourceManifestIgnore && len(o.Hashes) == 0:
		return usagef("--source-manifest=%s needs a digest to compare with, and --hash none computes none", o.SourceManifest)
	case given("manifest") && o.Manifest == "":
		return usagef("--manifest: the name is empty")
	case given("log-file") && f.logFile == "":
		return usagef("--log-file: the name is empty")
	case o.Memory != 0 && o.Memory < f.blockSize:
		return usagef("--memory %s is less than one block of %s", cmd.Flag("memory").Value, cmd.Flag("block-size").Value)
	}
	return nil
}

// engineOptions completes the options. It reads --files-from, so it comes
// after everything that needs no file.
func (f *copyFlags) engineOptions(cmd *cobra.Command, args []string) (*engine.Options, error) {
	if err := f.takeArgs(args); err != nil {
		return nil, err
	}
	if err := f.check(cmd); err != nil {
		return nil, err
	}
	var err error
	if f.options.Filter, f.options.Only, err = f.selection.read(cmd); err != nil {
		return nil, err
	}
	return &f.options, nil
}
