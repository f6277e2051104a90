package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed65876f4f/sealift/internal/manifest"
	"github.com/seed65876f4f/sealift/internal/quote"
)

// This file helps users who type the flags and operands of other programs.

// foreignFlags are flags of cp, rsync and sha256sum that Sealift lacks, each with a hint for
// the given commands. %s is the name of the command.
var foreignFlags = []struct{ commands, flags, answer string }{
	{"copy", "a archive r R recursive p", "copy is recursive and keeps all metadata by default"},
	{"verify compare sum", "r R recursive", "%s always reads directories recursively"},
	{"copy", "del delete delete-before delete-during delete-delay delete-after delete-excluded mirror",
		"Sealift never deletes files at the destination; 'sealift compare SRC DST' lists files that only DST has"},
	{"copy", "remove-source-files move", "Sealift never deletes files of the source"},
	{"copy", "c checksum", "--overwrite-policy=checksum compares content"},
	{"copy", "update", "--overwrite-policy=update replaces files whose size or time differs; by default, only older files are replaced"},
	{"copy", "u f force I ignore-times", "--overwrite-policy selects which existing files are replaced"},
	{"copy", "b backup suffix", "--backup-dir keeps replaced files"},
	{"copy", "t times perms o owner g group A acls X xattrs l links H hard-links D devices specials S", "copy keeps all metadata, links and holes by default"},
	{"copy", "e rsh z compress", "copy reads and writes local and mounted directories only"},
	{"copy", "inplace", "a name has the old file or the complete new one; 'sealift stream' writes in place"},
	{"copy", "W whole-file", "copy always writes the whole file"},
	{"copy", "stats info", "the summary has the numbers; --json prints more of them"},
	{"copy", "ignore-existing no-clobber", "--overwrite-policy=never leaves existing files alone"},
	{"copy", "size-only", "--overwrite-policy=update replaces files whose size or time differs, and nothing compares the size alone"},
	{"copy", "link-dest compare-dest copy-dest", "copy makes no snapshots; a copy to the same DST copies only new and changed files"},
	{"copy", "P partial append append-verify", "the same command resumes an interrupted copy"},
	{"plan", "mhl bag bag-info", "a planned copy makes no history and no bag; 'sealift sum --mhl DST' adds a history after the merge"},
	{"plan", "workers memory cache block-size queue-size fail-fast", "it belongs to each task: give it to 'sealift run'"},
	{"plan", "n dry-run", "plan copies nothing; remove its directory, or end it with 'sealift merge --abandon PLAN'"},
	{"verify", "c check", "verify checks without it"},
	{"sum", "c check", "'sealift verify PATH' checks manifests"},
	{"sum", "b binary t text", "sum always reads all bytes"},
	{"du", "m", "write it as --block-size=1M"},
	{"du", "P no-dereference", "du follows no symbolic link without -D or -L"},
	{"du", "H", "write it as -D"},
	{"du", "time-style", "times have the form of long-iso"},
}

// foreignFlag returns a hint for a flag of another program, as the end of a message; "" if
// there is none.
func foreignFlag(cmd *cobra.Command, flag string) string {
	for _, f := range foreignFlags {
		if slices.Contains(strings.Fields(f.commands), cmd.Name()) && slices.Contains(strings.Fields(f.flags), flag) {
			return ": " + strings.ReplaceAll(f.answer, "%s", cmd.Name())
		}
	}
	return ""
}

// foreignLetters returns the hints for a group of letters such as -avz, of which at least one is no flag
// of cmd, as the end of a message.
func foreignLetters(cmd *cobra.Command, letters string) string {
	var hints []string
	for _, letter := range strings.Split(letters, "") {
		if len(letter) == 1 && cmd.Flags().ShorthandLookup(letter) != nil { // a longer one panics
			continue
		}
		if hint := strings.TrimPrefix(foreignFlag(cmd, letter), ": "); hint != "" && !slices.Contains(hints, hint) {
			hints = append(hints, hint)
		}
	}
	if len(hints) == 0 {
		return ""
	}
	return ": " + strings.Join(hints, "; ")
}

// furtherDestinations returns the end of a message that names -o, if none of the operands after SRC can be
// meant as a source: each is absent, or an empty directory.
func furtherDestinations(operands []string) string {
	for _, name := range operands {
		if entries, err := os.ReadDir(name); len(entries) > 0 || err != nil && !os.IsNotExist(err) {
			return ""
		}
	}
	return "; -o names each further destination"
}

// onAnotherMachine returns a usage error for a path of rsync, scp or rclone that is clearly on another
// machine: user@host:dir, host:/dir, host::module or s3://bucket. If its first element exists here,
// there is no error. Without the error, copy would create a local directory of that name.
func onAnotherMachine(name string) error {
	first, _, _ := strings.Cut(name, "/")
	before, _, found := strings.Cut(first, ":")
	remote := strings.HasSuffix(first, ":") || strings.Contains(first, "::") || strings.Contains(before, "@")
	if !found || !remote || filepath.VolumeName(name) != "" {
		return nil
	}
	if _, err := os.Lstat(first); err == nil {
		return nil
	}
	return usagef("%s is a path on another machine: copy reads and writes local and mounted directories only; for a local name, write %s", quote.Name(name), quote.Name("./"+name))
}

// operandOfDd returns a usage error for an operand of dd, such as if=/dev/sda, unless a file of
// that name exists.
func operandOfDd(arg string) error {
	name, value, found := strings.Cut(arg, "=")
	if _, err := os.Lstat(arg); !found || err == nil {
		return nil
	}
	switch name {
	case "if", "of":
		return usagef("%s: write it as 'sealift stream IN OUT'", quote.Name(arg))
	case "bs":
		return usagef("%s: write it as --block-size=%s", quote.Name(arg), value)
	case "count", "skip", "seek":
		return usagef("%s: write it as --%s=%s", quote.Name(arg), name, value)
	case "conv", "iflag", "oflag", "status", "ibs", "obs", "cbs":
		return usagef("%s: it is an operand of dd; 'sealift stream --help' lists the flags", quote.Name(arg))
	}
	return nil
}

// isManifestFile reports whether a regular file has the name of a manifest.
func isManifestFile(name string) bool {
	if _, _, ok := manifest.Recognize(filepath.Base(name)); !ok {
		return false
	}
	info, err := os.Lstat(name)
	return err == nil && info.Mode().IsRegular()
}
