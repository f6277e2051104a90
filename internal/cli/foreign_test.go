package cli

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// The refusal of a flag of cp, rsync, sha256sum or cmp contains a hint.
func TestFlagsOfOtherProgramsGetAHint(t *testing.T) {
	const recursive = "copy is recursive and keeps all metadata by default"
	const deletes = "Sealift never deletes files at the destination; 'sealift compare SRC DST' lists files that only DST has"
	for line, want := range map[string]string{
		"copy -a a b":                    "unknown flag -a: " + recursive,
		"copy -r a b":                    "unknown flag -r: " + recursive,
		"copy -R a b":                    "unknown flag -R: " + recursive,
		"copy -p a b":                    "unknown flag -p: " + recursive,
		"copy -avh a b":                  "unknown flag -a: " + recursive,
		"copy -va a b":                   "unknown flag -a: " + recursive,
		"copy --archive a b":             "unknown flag --archive: " + recursive,
		"copy --recursive a b":           "unknown flag --recursive: " + recursive,
		"copy --delete a b":              "unknown flag --delete: " + deletes,
		"copy --delete-after a b":        "unknown flag --delete-after: " + deletes,
		"copy --remove-source-files a b": "unknown flag --remove-source-files: Sealift never deletes files of the source",
		"copy -c a b":                    "unknown flag -c: --overwrite-policy=checksum compares content",
		"copy --checksum a b":            "unknown flag --checksum: --overwrite-policy=checksum compares content",
		"copy --ignore-existing a b":     "unknown flag --ignore-existing: --overwrite-policy=never leaves existing files alone",
		"copy --partial a b":             "unknown flag --partial: the same command resumes an interrupted copy",
		"copy -u a b":                    "unknown flag -u: --overwrite-policy selects which existing files are replaced",
		"copy --backup a b":              "unknown flag --backup: --backup-dir keeps replaced files",
		"copy -H a b":                    "unknown flag -H: copy keeps all metadata, links and holes by default",
		"copy -avz a b":                  "unknown flag -a: copy is recursive and keeps all metadata by default; copy reads and writes local and mounted directories only\n",
		"copy --size-only a b":           "unknown flag --size-only: --overwrite-policy=update replaces files whose size or time differs, and",
		"copy --update a b":              "unknown flag --update: --overwrite-policy=update replaces files whose size or time differs; by default",
		"copy --link-dest=c a b":         "unknown flag --link-dest: copy makes no snapshots; ",
		"copy -z a b":                    "unknown flag -z: copy reads and writes local and mounted directories only",
		"copy a user@host:b":             "'user@host:b' is a path on another machine: copy reads and writes local and mounted directories only; for a local name, write './user@host:b'",
		"copy host:/a b":                 "'host:/a' is a path on another machine: ",
		"copy a b -o s3://bucket/c":      "'s3://bucket/c' is a path on another machine: ",
		"copy a host::module/c":          "'host::module/c' is a path on another machine: ",
		"copy --mhl md5 a b":             "'md5' is read as a path; write the list of --mhl after an equals sign: --mhl=md5",
		"copy --mhl classic,md5 a b":     "'classic,md5' is read as a path; write the list of --mhl after an equals sign: --mhl=classic,md5",
		"du -m a":                        "unknown flag -m: write it as --block-size=1M",
		"du -P a":                        "unknown flag -P: du follows no symbolic link without -D or -L",
		"sum -r a":                       "unknown flag -r: sum always reads directories recursively",
		"verify -r a":                    "unknown flag -r: verify always reads directories recursively",
		"verify -c SHA256SUMS":           "unknown flag -c: verify checks without it",
		"sum -c SHA256SUMS":              "unknown flag -c: 'sealift verify PATH' checks manifests",
		"sum --check SHA256SUMS":         "unknown flag --check: 'sealift verify PATH' checks manifests",
		"compare --recursive a b":        "unknown flag --recursive: compare always reads directories recursively",
		"stream if=/dev/sda of=card.img": "'if=/dev/sda': write it as 'sealift stream IN OUT'",
		"stream of=card.img":             "'of=card.img': write it as 'sealift stream IN OUT'",
		"stream --skip 1 a bs=1M":        "'bs=1M': write it as --block-size=1M",
		"stream a count=3":               "'count=3': write it as --count=3",
		"stream a b conv=sparse,notrunc": "'conv=sparse,notrunc': it is an operand of dd; 'sealift stream --help' lists the flags",
		"check dst":                      "there is no command \"check\"; did you mean verify?",
		"sync a b":                       "there is no command \"sync\"; did you mean copy?",
		"cp a b":                         "there is no command \"cp\"; did you mean copy?",
		"hash a":                         "there is no command \"hash\"; did you mean sum?",
		"checksum a":                     "there is no command \"checksum\"; did you mean sum?",
		"cmp a b":                        "there is no command \"cmp\"; did you mean compare?",
		"diff a b":                       "there is no command \"diff\"; did you mean compare?",
		"dd a b":                         "there is no command \"dd\"; did you mean stream?",
		"check --strict dst":             "there is no command \"check\"; did you mean verify?",
		"sync -a a b":                    "there is no command \"sync\"; did you mean copy?",
	} {
		r := command(t, succeeds, "", strings.Fields(line)...)
		require.Equal(t, 2, r.code, line)
		require.Nil(t, r.options, line)
		require.True(t, strings.HasPrefix(r.stderr, "sealift: "+want), "%s: %s", line, r.stderr)
	}
}

// A name with a colon is a local one if it exists, begins with ./, or can be that of a local file.
func TestLocalNamesWithAColon(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, os.Mkdir("disk:", 0o700))
	for _, line := range []string{"copy a disk:/b", "copy a ./host:/b", "copy a backup-12:30", "copy a /mnt/host:/b", "copy a film/user@host:b"} {
		r := command(t, succeeds, "", strings.Fields(line)...)
		require.Equal(t, 0, r.code, r.stderr)
		require.NotNil(t, r.options, line)
	}
}

// copy copies a manifest like any other file, as cp does. It prints a hint, because the user may
// have wanted to check or copy the files that it lists.
func TestAManifestGivenToCopy(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "SHA256SUMS")
	require.NoError(t, os.WriteFile(name, nil, 0o600))
	note := "sealift: note: '" + name + "' is a manifest, and only this file is copied; to check the files that it lists: sealift verify '" + name + "'\n"

	r := command(t, succeeds, "", "copy", name)
	require.Equal(t, 2, r.code)
	require.Contains(t, r.stderr, "sealift: missing operand DST; to check the files that a manifest lists: sealift verify '"+name+"'\n")

	r = command(t, succeeds, "", "copy", name, filepath.Join(dir, "dst"))
	require.Equal(t, 0, r.code)
	require.NotNil(t, r.options)
	require.Equal(t, note, r.stderr)

	r = command(t, succeeds, "", "copy", "-q", name, filepath.Join(dir, "dst"))
	require.Empty(t, r.stderr)

	// A directory with the name of a manifest gets no hint.
	require.NoError(t, os.Mkdir(filepath.Join(dir, "MD5SUMS"), 0o700))
	r = command(t, succeeds, "", "copy", filepath.Join(dir, "MD5SUMS"), filepath.Join(dir, "dst"))
	require.Empty(t, r.stderr)
}

// closedPipe is a pipe whose reader has ended, for example head.
type closedPipe struct{}

func (closedPipe) Write([]byte) (int, error) {
	return 0, &os.PathError{Op: "write", Path: "/dev/stdout", Err: syscall.EPIPE}
}

func TestAClosedPipeEndsEveryCommandSilently(t *testing.T) {
	for _, line := range []string{"copy a b", "copy --json a b", "verify", "verify --json", "compare a b", "du --json", "sum --json", "version", "help", "completion bash"} {
		r := commandTo(t, closedPipe{}, succeeds, "", strings.Fields(line)...)
		require.Equal(t, 1, r.code, line)
		require.Empty(t, r.stderr, line)
	}
	r := commandTo(t, &fullDisk{}, succeeds, "", "copy", "a", "b")
	require.Equal(t, 1, r.code)
	require.Equal(t, "sealift: standard output: no space left on device\n", r.stderr)
}

// "sealift SRC DST" lacks the command. A second destination without -o is one operand too many; the
// message names -o only if no operand after the first can be meant as a source.
func TestOperandsOfAFirstTry(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, name := range []string{"card", "full", "empty"} {
		require.NoError(t, os.Mkdir(name, 0o700))
	}
	require.NoError(t, os.WriteFile("full/a", nil, 0o600))
	const tooMany = " is one argument too many: copy takes one source; run it once per source"
	for line, want := range map[string]string{
		"card disk":               "there is no command 'card'; to copy it: sealift copy SRC DST\n",
		"cart disk":               "there is no command \"cart\"\n",
		"copy card disk1 disk2":   "'disk2'" + tooMany + "; -o names each further destination\n",
		"copy card empty disk2":   "'disk2'" + tooMany + "; -o names each further destination\n",
		"copy card full disk2":    "'disk2'" + tooMany + "\n",
		"copy card disk1 full":    "'full'" + tooMany + "\n",
		"copy card full/a full/b": "'full/b'" + tooMany + "\n",
	} {
		r := command(t, succeeds, "", strings.Fields(line)...)
		require.Equal(t, 2, r.code, line)
		require.True(t, strings.HasPrefix(r.stderr, "sealift: "+want), "%s: %s", line, r.stderr)
	}
}
