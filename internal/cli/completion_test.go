package cli

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"

	"github.com/seed65876f4f/sealift/internal/hash"
)

// Directives: what a shell offers besides the words.
const (
	thenFiles       = ":0"  // files and directories
	thenNothing     = ":4"  // not even files
	thenList        = ":6"  // the same, and no space, because a list may go on
	thenDirectories = ":16" // no files
)

const progressList = "auto bar plain json none " + thenNothing

// hashList has all hashes that --hash takes.
var hashList = strings.Join(hash.Names(), " ")

// furtherHashes is what completion offers after a list of hashes.
func furtherHashes(list ...string) string {
	before, offers := strings.Join(list, ","), ""
	for _, name := range hash.Names() {
		if !slices.Contains(list, name) {
			offers += before + "," + name + " "
		}
	}
	return offers + thenList
}

// completedValues has the completion of every flag with a value, for every command.
var completedValues = map[string]string{
	"copy --input":            thenFiles,
	"copy --output":           thenDirectories,
	"copy --backup-dir":       thenDirectories,
	"copy --include":          thenFiles,
	"copy --exclude":          thenFiles,
	"copy --exclude-from":     thenFiles,
	"copy --files-from":       thenFiles,
	"copy --hash":             "none " + hashList + " " + thenList,
	"copy --manifest":         thenFiles,
	"copy --bag-info":         thenNothing,
	"copy --verify":           "off dest full " + thenNothing,
	"copy --source-manifest":  "check present ignore " + thenNothing,
	"copy --overwrite-policy": "default never protect always update checksum " + thenNothing,
	"copy --preserve":         "all none mode times owner links xattr acl " + thenList,
	"copy --sparse":           "auto always never " + thenNothing,
	"copy --reflink":          "auto always never " + thenNothing,
	"copy --sync":             "end file none " + thenNothing,
	"copy --block-size":       thenNothing,
	"copy --queue-size":       thenNothing,
	"copy --workers":          "auto " + thenNothing,
	"copy --memory":           "auto " + thenNothing,
	"copy --bwlimit":          "off " + thenNothing,
	"copy --dirty-window":     "auto off " + thenNothing,
	"copy --cache":            "auto keep drop direct " + thenNothing,
	"copy --progress":         progressList,
	"copy --log-file":         thenFiles,
	"copy --report":           thenFiles,
	"copy --metrics":          thenFiles,
	"copy --log-format":       "text json " + thenNothing,
	"verify --hash-file":      thenFiles,
	"verify --manifest":       thenFiles,
	"verify --cache":          "auto drop direct " + thenNothing,
	"verify --include":        thenFiles,
	"verify --exclude":        thenFiles,
	"verify --exclude-from":   thenFiles,
	"verify --files-from":     thenFiles,
	"verify --bwlimit":        "off " + thenNothing,
	"verify --log-file":       thenFiles,
	"verify --report":         thenFiles,
	"verify --metrics":        thenFiles,
	"verify --log-format":     "text json " + thenNothing,
	"verify --workers":        "auto " + thenNothing,
	"verify --progress":       progressList,
	"compare --include":       thenFiles,
	"compare --exclude":       thenFiles,
	"compare --exclude-from":  thenFiles,
	"compare --files-from":    thenFiles,
	"compare --cache":         "keep drop direct " + thenNothing,
	"compare --workers":       "auto " + thenNothing,
	"compare --bwlimit":       "off " + thenNothing,
	"compare --progress":      progressList,
	"compare --log-file":      thenFiles,
	"compare --report":        thenFiles,
	"compare --log-format":    "text json " + thenNothing,
	"sum --include":           thenFiles,
	"sum --exclude":           thenFiles,
	"sum --exclude-from":      thenFiles,
	"sum --files-from":        thenFiles,
	"sum --hash":              hashList + " " + thenList,
	"sum --manifest":          thenFiles,
	"sum --workers":           "auto " + thenNothing,
	"sum --bwlimit":           "off " + thenNothing,
	"sum --cache":             "auto drop direct " + thenNothing,
	"sum --log-file":          thenFiles,
	"sum --log-format":        "text json " + thenNothing,
	"sum --progress":          progressList,
	"copy --mhl":              "classic c4 md5 sha1 xxh128 xxh3 xxh64 " + thenList,
	"copy --mhl-author":       thenFiles,
	"copy --mhl-location":     thenFiles,
	"copy --mhl-comment":      thenFiles,
	"copy --mhl-ignore":       thenFiles,
	"plan --include":          thenFiles,
	"plan --exclude":          thenFiles,
	"plan --exclude-from":     thenFiles,
	"plan --files-from":       thenFiles,
	"plan --input":            thenFiles,
	"plan --output":           thenDirectories,
	"plan --preserve":         "all none mode times owner links xattr acl " + thenList,
	"plan --sparse":           "auto always never " + thenNothing,
	"plan --hash":             "none " + hashList + " " + thenList,
	"plan --manifest":         thenFiles,
	"plan --overwrite-policy": "default always update checksum " + thenNothing,
	"plan --backup-dir":       thenDirectories,
	"plan --verify":           "off dest full " + thenNothing,
	"plan --source-manifest":  "check present ignore " + thenNothing,
	"plan --sync":             "end file none " + thenNothing,
	"plan --reflink":          "auto always never " + thenNothing,
	"plan --progress":         progressList,
	"plan --log-file":         thenFiles,
	"plan --log-format":       "text json " + thenNothing,
	"plan --into":             thenDirectories,
	"plan --script":           "slurm kubernetes parallel " + thenNothing,
	"plan --tasks":            thenNothing,
	"plan --bwlimit":          "off " + thenNothing,
	"plan --dirty-window":     "auto off " + thenNothing,
	"plan --shards":           "auto " + thenNothing,
	"plan --shard-size":       "auto " + thenNothing,
	"repair --from":           thenDirectories,
	"repair --backup-dir":     thenDirectories,
	"repair --manifest":       thenFiles,
	"repair --include":        thenFiles,
	"repair --exclude":        thenFiles,
	"repair --exclude-from":   thenFiles,
	"repair --files-from":     thenFiles,
	"repair --cache":          "keep drop direct " + thenNothing,
	"repair --workers":        "auto " + thenNothing,
	"repair --bwlimit":        "off " + thenNothing,
	"repair --progress":       progressList,
	"repair --log-file":       thenFiles,
	"repair --metrics":        thenFiles,
	"repair --report":         thenFiles,
	"repair --log-format":     "text json " + thenNothing,
	"run --block-size":        thenNothing,
	"run --queue-size":        thenNothing,
	"run --workers":           "auto " + thenNothing,
	"run --memory":            "auto " + thenNothing,
	"run --bwlimit":           "off " + thenNothing,
	"run --dirty-window":      "auto off " + thenNothing,
	"run --cache":             "auto keep drop direct " + thenNothing,
	"run --progress":          progressList,
	"run --log-file":          thenFiles,
	"run --log-format":        "text json " + thenNothing,
	"run --shard":             thenNothing,
	"run --of":                thenNothing,
	"merge --report":          thenFiles,
	"merge --resubmit":        thenFiles,
	"scrub --state":           thenFiles,
	"scrub --for":             thenNothing,
	"scrub --max-age":         thenNothing,
	"scrub --workers":         "auto " + thenNothing,
	"scrub --bwlimit":         "off " + thenNothing,
	"scrub --progress":        progressList,
	"scrub --log-file":        thenFiles,
	"scrub --metrics":         thenFiles,
	"scrub --log-format":      "text json " + thenNothing,
	"merge --progress":        progressList,
	"merge --log-file":        thenFiles,
	"merge --log-format":      "text json " + thenNothing,
	"du --files0-from":        thenFiles,
	"du --threshold":          thenNothing,
	"du --time":               "mtime atime ctime " + thenNothing,
	"du --include":            thenFiles,
	"du --exclude":            thenFiles,
	"du --exclude-from":       thenFiles,
	"du --log-file":           thenFiles,
	"du --log-format":         "text json " + thenNothing,
	"du --max-depth":          thenNothing,
	"du --top":                thenNothing,
	"du --block-size":         "human-readable si 1 K M G KB MB GB " + thenNothing,
	"du --workers":            "auto " + thenNothing,
	"sum --mhl":               "classic c4 md5 sha1 xxh128 xxh3 xxh64 " + thenList,
	"sum --mhl-author":        thenFiles,
	"sum --mhl-location":      thenFiles,
	"sum --mhl-comment":       thenFiles,
	"sum --mhl-ignore":        thenFiles,
	"stream --block-size":     thenNothing,
	"stream --count":          thenNothing,
	"stream --skip":           thenNothing,
	"stream --seek":           thenNothing,
	"stream --hash":           "none " + hashList + " " + thenList,
	"stream --manifest":       thenFiles,
	"stream --sync":           "end none " + thenNothing,
	"stream --bwlimit":        "off " + thenNothing,
	"stream --cache":          "auto keep drop direct " + thenNothing,
	"stream --progress":       progressList,
	"stream --log-file":       thenFiles,
	"stream --log-format":     "text json " + thenNothing,
}

func TestCompletionOfEveryValue(t *testing.T) {
	for _, command := range []string{"copy", "verify", "repair", "compare", "merge"} {
		for _, name := range reportTexts {
			completedValues[command+" --"+name] = thenNothing
		}
	}
	asked := 0
	for _, c := range rootThat(runs{}).Commands() {
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if f.Value.Type() == "bool" || f.Value.Type() == "boolfunc" {
				return
			}
			asked++
			name := c.Name() + " --" + f.Name
			want, ok := completedValues[name]
			if !assert.True(t, ok, "%s takes a value", name) {
				return
			}
			assert.Equal(t, want, completed(t, c.Name(), "--"+f.Name+"="), name)
			if f.NoOptDefVal == "" {
				assert.Equal(t, want, completed(t, c.Name(), "--"+f.Name, ""), name)
			}
			if f.Shorthand != "" {
				assert.Equal(t, want, completed(t, c.Name(), "-"+f.Shorthand, ""), name)
			}
		})
	}
	assert.Len(t, completedValues, asked)
}

func TestCompletionOfListsAndArguments(t *testing.T) {
	for line, want := range map[string]string{
		"copy --hash sha256,":                  furtherHashes("sha256"),
		"copy --hash sha256,md5,":              furtherHashes("sha256", "md5"),
		"copy --hash none,":                    furtherHashes("none"),
		"sum --hash=sha256,xxh128,md5,sha512,": furtherHashes("sha256", "xxh128", "md5", "sha512"),
		"copy --preserve mode,times,":          "mode,times,owner mode,times,links mode,times,xattr mode,times,acl :6",
		"copy ":                                thenFiles,
		"copy a ":                              thenDirectories,
		"copy a b ":                            thenNothing,
		"copy -i a ":                           thenDirectories,
		"copy -i a b ":                         thenNothing,
		"copy a b -o ":                         thenDirectories,
		"verify ":                              thenFiles,
		"verify a ":                            thenFiles,
		"verify --manifest m ":                 thenFiles,
		"compare ":                             thenDirectories,
		"compare a b ":                         thenDirectories,
		"repair ":                              thenDirectories,
		"sum a ":                               thenFiles,
		"du a ":                                thenFiles,
		"stream a ":                            thenFiles,
		"completion ":                          "bash zsh fish powershell :4",
		"completion bash ":                     thenNothing,
		"man ":                                 thenDirectories,
		"man a ":                               thenNothing,
		"version ":                             thenNothing,
		"help copy ":                           thenNothing,
		"":                                     "copy verify repair scrub compare sum du stream plan run merge completion man version help :4",
	} {
		assert.Equal(t, want, completed(t, strings.Split(line, " ")...), line)
	}
}

// A similar flag or command is suggested for a wrong one. The message about a wrong value lists those that are possible.
func TestSuggestions(t *testing.T) {
	for line, want := range map[string]string{
		"copy --overwrite-policy nevre a b": "known are default, never, protect, always, ",
		"copy --hash md5,sah256 a b":        "sha256",
		"copy --preserve mode,tiems a b":    "times",
		"copy --over x a b":                 "did you mean --overwrite-policy?",
		"copy -json a b":                    "unknown flag -json; did you mean --json?",
		"du --nll":                          "did you mean --null?",
		"copyy --json a b":                  "there is no command \"copyy\"; did you mean copy?",
		"--json copy a b":                   "unknown flag --json; did you mean sealift COMMAND --json?",
		"--versiom":                         "did you mean --version?",
		"completion zhsh":                   "zsh",
	} {
		r := command(t, succeeds, "", strings.Fields(line)...)
		assert.Equal(t, 2, r.code, line)
		assert.Contains(t, r.stderr, want, line)
	}
	assert.Equal(t, "none", nearest("noen", []string{"dest", "none"}))
	assert.Empty(t, nearest("x", []string{"1", "K"}))
	assert.Empty(t, nearest("", []string{"off"}))
}
