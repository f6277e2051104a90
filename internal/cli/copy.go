package cli

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/dest"
	"github.com/seed65876f4f/sealift/internal/engine"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/metadata"
	"github.com/seed65876f4f/sealift/internal/pipe"
	"github.com/seed65876f4f/sealift/internal/policy"
	"github.com/seed65876f4f/sealift/internal/quote"
)

func newCopyCmd(run runner[engine.Options, engine.Summary]) *cobra.Command {
	flags := &copyFlags{}
	cmd := &cobra.Command{
		Use:        "copy [flags] SRC DST [-o DST2 ...]",
		SuggestFor: []string{"sync", "cp", "rsync", "mirror", "backup"},
		Short:      "Copy a tree or file to one or more places, with a manifest",
		Long: `Reads SRC once, computes digests in the same read, and writes a manifest to each
destination. If SRC is a directory, its contents are copied into DST, which is
created if it is missing. If SRC is a file, it is copied into DST if DST is a
directory or ends in a slash, otherwise to DST. The copy is recursive, keeps all
metadata that DST can store, and warns of the rest.

Sealift never deletes files at the destination. To resume an interrupted copy,
run the same command again.` + notesBelow + `--backup-dir DIR keeps each replaced file in DIR, under the path that it has in
DST. DIR must be on the file system of DST, which must have hard links.

--bag makes each DST a BagIt bag (RFC 8493): Sealift copies the files to data/
and writes manifests beside it. If SRC is a bag, it is validated in the same
read and copied unchanged.

` + mhlHelp + `
The default comment of an ASC MHL generation is "Copy of SRC to DST".

` + filterHelp + `
A directory in --files-from includes everything below it.

Sizes such as 128K, 1M and 1MiB are powers of 1024; 80MB is a power of 1000.`,
		Example: `  sealift copy /media/card /mnt/archive
  sealift copy --verify /media/card /mnt/archive -o /mnt/second
  sealift copy --exclude '*.tmp' --hash sha256,blake3 project /mnt/backup`,
		Annotations:       copyExits("everything is copied or up to date", "some files failed, or a destination was dropped").annotations(),
		ValidArgsFunction: flags.completeArgs,
	}
	addGroups(cmd, flags.groups())
	complete(cmd, "output", completeDirectories)
	complete(cmd, "backup-dir", completeDirectories)
	complete(cmd, "bag-info", cobra.NoFileCompletions)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		options, err := flags.engineOptions(cmd, args)
		if err != nil {
			return err
		}
		r, err := newCopyReporter(cmd, flags, options)
		if err != nil {
			return err
		}
		r.begin(options)
		r.header()
		r.warnOneDevice()
		if name := options.Source; isManifestFile(name) && !flags.quiet {
			r.print("note: " + quote.Name(name) + " is a manifest, and only this file is copied; to check the files that it lists: sealift verify " + quote.Name(name))
		}
		advice := r.advice("run the same command again to finish")
		if options.DryRun {
			advice = ""
		}
		return runCommand(cmd, job[engine.Options, engine.Summary]{
			reporter: r.reporter,
			advice:   advice,
			run: func(ctx context.Context, o *engine.Options, c *counters.Set) (*engine.Summary, error) {
				r.counters = c
				return run(ctx, o, c)
			},
			options: options,
			targets: options.Targets,
			read:    "read back",
			finish: func(s *engine.Summary, result outcome) outcome {
				return r.finish(cmd.OutOrStdout(), s, result)
			},
		})
	}
	return cmd
}

// policyHelp is the help of --overwrite-policy: one line, then a table with the values.
const policyHelp = policyDefault + `protect   skip files that are up to date,
          report the others as conflicts
never     skip all existing files
` + policyReplace

// Parts of policyHelp that plan has, too.
const (
	policyDefault = "`POLICY`: choose what to do with existing files\n" + `default   skip files that are up to date,
          replace older files,
          report the others as conflicts
`
	policyReplace = `update    replace if size or time differ
checksum  replace if the content differs
always    replace all existing files
No policy replaces a directory by a file, or a
file by a directory.`
)

// verifyHelp explains the modes, as policyHelp does.
const verifyHelp = "`MODE`: read the copy back and compare it\n" + `off   do not read it back
dest  read each destination, from its device
      if it has one; --verify alone means dest
full  read the source again, too`

// sourceManifestHelp explains the modes, as policyHelp does.
const sourceManifestHelp = "`MODE`: compare with a manifest of SRC\n" + `check    do not copy files that differ from it,
         report missing files
present  like check, but allow missing files
ignore   do not compare with it`

// syncHelp explains the modes, as policyHelp does.
const syncHelp = "`MODE`: flush data to the device\n" + `end   at the end, before the manifest
file  after each file
none  never`

// sparseHelp explains the modes, as policyHelp does.
const sparseHelp = "`MODE`: choose how to write holes\n" + `auto    keep the holes of the source
always  turn blocks of zeros into holes
never   write every byte`

// windowHelp explains the values, as policyHelp does.
const windowHelp = "`SIZE`: limit unwritten data per destination\n" + `auto  two seconds of the measured device speed
off   the system default
SIZE  this much, at least 1M`

// cacheHelp explains the modes, as policyHelp does. condition completes the text of direct:
// "bypass it (O_DIRECT) where ".
func cacheHelp(condition string) string {
	return "`MODE`: choose what stays in the page cache\n" + `auto    like drop if the copy would fill more
        than half of the memory, else like keep
keep    the system default
drop    keep only what was there before
direct  bypass it (O_DIRECT) where
        ` + condition
}

// reflinkHelp explains the modes, as policyHelp does.
const reflinkHelp = "`MODE`: choose whether to share blocks\n" + `auto    share where the file system can
always  share; fail where that is impossible
never   write all data`

// copyFlags holds the flags of copy.
type copyFlags struct {
	options engine.Options

	input     string
	outputs   []string
	selection selection
	mhl       mhlFlags
	blockSize int64
	outputFlags

	verbose verbosity
	debug   bool

	bag     bool
	bagInfo []string

	plan string // directory of the plan that a command makes, runs or merges; "" for a copy without one
}

// groups returns the flags. A word in back quotes is the name of the value. If a colon follows,
// addGroups removes the word from the text.
func (f *copyFlags) groups() []flagGroup {
	o := &f.options
	return []flagGroup{
		{"What to copy", f.selectionFlags},
		{groupManifest, func(s *pflag.FlagSet) {
			f.manifestFlags(s)
			f.mhl.define(s, "an ASC MHL generation")
			s.BoolVar(&f.bag, "bag", false, "make each DST a BagIt bag")
			s.StringArrayVar(&f.bagInfo, "bag-info", nil, "write `LABEL=VALUE` to bag-info.txt; may be repeated")
		}},
		{groupSafety, func(s *pflag.FlagSet) {
			f.safetyFlags(s)
			s.BoolVarP(&o.DryRun, "dry-run", "n", false, "report what would be done, but write nothing")
			s.BoolVar(&o.FailFast, "fail-fast", false, "stop at the first failure")
		}},
		{groupSpeed, func(s *pflag.FlagSet) {
			f.speedFlags(s)
			f.reflinkFlag(s)
		}},
		{groupOutput, func(s *pflag.FlagSet) {
			f.quietFlag(s, "print only failures and conflicts")
			verboseFlag(s, &f.verbose, "list changes with the reason; -vv lists every entry")
			f.commonFlags(s, "change and message")
			f.reportFlag(s)
			f.metricsFlag(s)
			s.BoolVar(&f.debug, "debug", false, "print what the run waited for, and its counters")
		}},
	}
}

// plan has the flags below, too.

func (f *copyFlags) selectionFlags(s *pflag.FlagSet) {
	o := &f.options
	s.VarP(&onceValue{&f.input}, "input", "i", "copy `SRC`; the first argument is then DST")
	s.StringArrayVarP(&f.outputs, "output", "o", nil, "copy to this `DST` as well; may be repeated")
	f.selection.flags(s, "copy", &o.OneFileSystem)
	s.Var(newList(&o.Preserve, "all", metadata.ParsePreserve, []string{"all", "none"}, metadata.PreserveNames()), "preserve", "keep this metadata: all, none, or a `LIST` of "+strings.Join(metadata.PreserveNames(), ", "))
	s.Var(newChoice(&o.Sparse, engine.SparseModes), "sparse", sparseHelp)
}

func (f *copyFlags) manifestFlags(s *pflag.FlagSet) {
	hashFlag(s, &f.options.Hashes, "; none writes no manifest", "none")
	s.StringVar(&f.options.Manifest, "manifest", "", "write the manifest to `PATH`, relative to each DST (default: SHA256SUMS, MD5SUMS, ...)")
}

func (f *copyFlags) safetyFlags(s *pflag.FlagSet) {
	f.safetyFlagsWith(s, policyHelp, policy.All.List())
}

// safetyFlagsWith defines the flags about safety. help and completion of --overwrite-policy have only
// these policies.
func (f *copyFlags) safetyFlagsWith(s *pflag.FlagSet, policyHelp string, policies []string) {
	o := &f.options
	s.Var(newValue(&o.Policy, policy.Default.String(), policy.All.Parse, policies...), "overwrite-policy", policyHelp)
	s.StringVar(&o.BackupDir, "backup-dir", "", "keep replaced files in `DIR`, relative to DST")
	s.Var(newChoice(&o.Verify, engine.VerifyModes), "verify", verifyHelp)
	s.Lookup("verify").NoOptDefVal = engine.VerifyDest.String()
	s.Var(newChoice(&o.SourceManifest, engine.SourceManifestModes), "source-manifest", sourceManifestHelp)
	s.Var(newChoice(&o.Sync, dest.SyncModes), "sync", syncHelp)
	s.BoolVar(&o.AllowUnmounted, "allow-unmounted", false, allowUnmountedHelp)
}

// allowUnmountedHelp is the help of --allow-unmounted.
const allowUnmountedHelp = "use a path below /media, /run/media, /Volumes or a mount point of /etc/fstab although no volume is mounted there"

// speedFlags defines the flags about speed that each task of a plan has, too.
func (f *copyFlags) speedFlags(s *pflag.FlagSet) {
	o := &f.options
	s.Var(newValue(&f.blockSize, "128K", sizeBetween(minBlock, maxBlock, "")), "block-size", "use buffers of `SIZE`")
	s.Var(newValue(&o.QueueSize, "10", countBetween(1, maxQueue, "")), "queue-size", "queue `NUMBER` buffers between two stages")
	workersFlag(s, &o.Workers, "copy `NUMBER` files at once")
	s.Var(newValue(&o.Memory, "auto", sizeBetween("1", "", "auto"), "auto"), "memory", "use at most `SIZE` for all buffers")
	bwlimitFlag(s, &o.BytesPerSecond, "copy")
	s.Var(newValue(&o.DirtyWindow, "auto", parseWindow, "auto", "off"), "dirty-window", windowHelp)
	s.Var(newChoice(&o.Cache, pipe.CacheModes), "cache", cacheHelp("the file system supports it"))
}

func (f *copyFlags) reflinkFlag(s *pflag.FlagSet) {
	s.Var(newChoice(&f.options.Reflink, engine.ReflinkModes), "reflink", reflinkHelp)
}

// takeArgs sets the source and the destinations. At most one positional argument can be a
// destination, so that a shell glob can never turn files into destinations.
func (f *copyFlags) takeArgs(args []string) error {
	o := &f.options
	o.Source = f.input
	if o.Source == "" && len(args) > 0 {
		o.Source, args = args[0], args[1:]
		if o.Source == "" {
			return usagef("the name of the source is empty")
		}
	}
	if len(args) > 1 {
		for _, arg := range append([]string{o.Source}, args...) {
			if o.Verify == engine.VerifyDest && slices.Contains(engine.VerifyModes.List(), arg) {
				return usagef("%s is read as a path; write the mode of --verify after an equals sign: --verify=%s", quote.Name(arg), arg)
			}
			if _, err := parseMHL(arg); f.mhl.given() && err == nil {
				return usagef("%s is read as a path; write the list of --mhl after an equals sign: --mhl=%s", quote.Name(arg), arg)
			}
		}
		return usagef("%s is one argument too many: copy takes one source; run it once per source%s", quote.Name(args[1]), furtherDestinations(args))
	}
	o.Targets = slices.Concat(args, f.outputs)
	switch {
	case o.Source == "":
		return usagef("missing operand SRC")
	case len(o.Targets) == 0 && isManifestFile(o.Source):
		return usagef("missing operand DST; to check the files that a manifest lists: sealift verify %s", quote.Name(o.Source))
	case len(o.Targets) == 0:
		return usagef("missing operand DST")
	case slices.Contains(o.Targets, ""):
		return usagef("the name of a destination is empty")
	}
	for _, name := range append([]string{o.Source}, o.Targets...) {
		if err := onAnotherMachine(name); err != nil {
			return err
		}
	}
	return nil
}

// check refuses flags that contradict each other.
func (f *copyFlags) check(cmd *cobra.Command) error {
	o := &f.options
	o.BlockSize = int(f.blockSize)
	given := func(name string) bool { return cmd.Flags().Changed(name) }
	switch {
	case f.quiet && f.verbose > 0:
		return usagef("--quiet and --verbose contradict each other")
	case o.Reflink == engine.ReflinkAlways && o.Sparse != engine.SparseAuto:
		return usagef("--reflink=always keeps the holes of the source, and --sparse=%s changes them", o.Sparse)
	case o.Verify != engine.VerifyOff && len(o.Hashes) == 0:
		return usagef("--verify needs a digest to compare with, and --hash none computes none")
	case given("source-manifest") && o.SourceManifest != engine.SourceManifestIgnore && len(o.Hashes) == 0:
		return usagef("--source-manifest=%s needs a digest to compare with, and --hash none computes none", o.SourceManifest)
	case given("manifest") && o.Manifest == "":
		return usagef("--manifest: the name is empty")
	case given("backup-dir") && o.BackupDir == "":
		return usagef("--backup-dir: the name is empty")
	case o.Memory != 0 && o.Memory < f.blockSize:
		return usagef("--memory %s is less than one block of %s", cmd.Flag("memory").Value, cmd.Flag("block-size").Value)
	}
	return nil
}

// engineOptions checks the flags and returns the complete options. It reads --files-from last,
// because that may be standard input.
func (f *copyFlags) engineOptions(cmd *cobra.Command, args []string) (*engine.Options, error) {
	if err := f.takeArgs(args); err != nil {
		return nil, err
	}
	if err := f.useMHL(cmd); err != nil {
		return nil, err
	}
	if err := f.check(cmd); err != nil {
		return nil, err
	}
	var err error
	if f.options.Bag, err = f.bagOptions(); err != nil {
		return nil, err
	}
	if f.options.Filter, f.options.Only, err = f.selection.read(cmd); err != nil {
		return nil, err
	}
	if f.options.MHL != nil {
		if f.options.Only != nil {
			return nil, usagef("--files-from and --mhl contradict each other: a history lists a whole directory")
		}
		f.options.MHL.Ignore, err = f.mhl.patterns(f.options.Filter)
	}
	return &f.options, err
}

// useMHL sets the options of --mhl. The run then writes no line manifests, unless --hash or
// --manifest is given as well.
func (f *copyFlags) useMHL(cmd *cobra.Command) error {
	if err := f.mhl.check(); err != nil || !f.mhl.given() {
		return err
	}
	if f.bag {
		return usagef("--mhl and --bag cannot be combined: a bag has manifests of its own")
	}
	o := &f.options
	var lines []hash.Algorithm
	if cmd.Flags().Changed("hash") || cmd.Flags().Changed("manifest") {
		lines = o.Hashes
	}
	hashes := f.mhl.kind.hashes
	if f.mhl.kind.classic {
		o.MediaList = &engine.MediaList{Creator: mhlCreator(), Hashes: hashes, Lines: len(lines)}
	} else {
		o.MHL = &engine.MHL{Creator: f.mhl.creator(), Hashes: hashes, Lines: len(lines)}
	}
	o.Hashes = slices.Clone(lines)
	for _, a := range hashes {
		if !slices.Contains(o.Hashes, a) {
			o.Hashes = append(o.Hashes, a)
		}
	}
	return nil
}
