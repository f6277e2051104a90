package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/hash"
)

// One schema lists every hash, those that Sealift writes first, and the others refer to it.
func TestTheSchemaOfHashesNamesEachOne(t *testing.T) {
	var want []any
	for _, a := range hash.All() {
		want = append(want, string(a))
	}
	schemas := readSchemas(t)
	assert.Equal(t, append(want, ""), schemas["hash"].raw["examples"])
	for i, a := range hash.Algorithms() {
		assert.EqualValues(t, want[i], a)
	}
	for name, d := range schemas {
		text, err := json.Marshal(d.raw)
		require.NoError(t, err)
		assert.Equal(t, strings.Count(string(text), `"algorithm":{`), strings.Count(string(text), `"$ref":"hash.json"`), name)
	}
}

// TestJSONIsWhatItsSchemaSays runs the program in many situations. All its JSON
// output must be valid and declared, and each declared field must have been printed.
func TestJSONIsWhatItsSchemaSays(t *testing.T) {
	t.Parallel()
	schemas := readSchemas(t)
	dir := t.TempDir()
	shell(t, dir, `mkdir src src/deep
echo one >src/a; ln src/a src/b; echo two >src/deep/c; ln -s a src/link; mkfifo src/fifo
printf x >"$(printf 'src/\377')"; echo x >"$(printf 'src/line\nfeed')"
mkdir rotten; printf '%064d  \376\n%064d  absent\n%064d  \377\n' 0 0 0 >rotten/SHA256SUMS
(cd rotten; echo bad >"$(printf '\377')"; echo other >g)
mkdir "$(printf 'rotten/\375')"; touch "$(printf 'rotten/\375/.sealift-0123456789abcdef.tmp')"
mkdir large; echo small >large/a; head -c 3000000 /dev/zero >large/b
mkdir old; echo new >old/f; touch -d 2030-01-01 old/f; mkdir "$(printf 'old/\377')"; mkdir mine; echo x >mine/f; echo x >"$(printf 'mine/\377')"
sealift copy -q src kept
mkdir many; (cd many; echo a >a; mkdir dir; sealift copy -q --hash sha256,md5 . ../both); echo b >both/a; echo z >both/z; echo nonsense >>both/MD5SUMS
mkdir named; echo x >"$(printf 'named/\376')"; printf '%064d  \376\n%064d  dir\n' 0 0 >named/SHA256SUMS; mkdir named/dir; touch "$(printf 'named/\375')"
mkdir "$(printf 'dir \377')"; printf '%064d  missing\nnonsense\n' 0 >"$(printf 'dir \377/SHA256SUMS')"
cp "$(printf 'dir \377/SHA256SUMS')" "$(printf 'dir \377/\376.sha256')"
mkdir "$(printf 'mhl \377')"; echo a >"$(printf 'mhl \377/abc')"
mkdir tagged; (cd tagged; echo a >a; sealift sum --tag --hash sha256,blake3 a >SHA256SUMS)
printf '%064d  ../etc/passwd\n' 0 >hostile; printf 'a\nno \377\n' >wanted
cp -a src changed; (cd changed; echo other >deep/c; rm link; mkdir link; chmod 600 a; mkdir "$(printf '\376')"; touch "$(printf '\376/x')")
mkdir aged; touch -d 2030-01-01 aged/f; mkdir "$(printf 'aged/\377')"; sealift plan -q --into aging --shards 1 mine aged
mkdir linked; echo x >linked/z; ln linked/z "$(printf 'linked/a\377')"; printf '%064d  z\n' 0 >linked/SHA256SUMS
echo y >"$(printf 'linked/\377')"; sealift plan -q --into linking --shards 1 linked joined; rm "$(printf 'linked/\377')"
sealift plan -q --source-manifest present --into "$(printf 'tasks \377')" --shards 2 "$(printf 'dir \377')" "$(printf 'done \377')"
mkdir hurt ill; (cd ill; printf bad >a; ln a b; (cd ../src; sha256sum a b deep/c) >SHA256SUMS; printf '%064d  wrong\nnonsense\n' 0 >>SHA256SUMS; mkdir wrong)
cp -a old split; cp -a old split5; mkdir half; touch "$(printf 'half/SEALIFT-INCOMPLETE-\377.txt')"`)

	raw := "\xff"
	runs := []struct {
		schema string
		code   int
		line   string // for sh
	}{
		{"copy", 0, `copy --json --verify --hash sha256,blake3 src one -o two`},
		{"copy", 0, `copy --json --hash ` + strings.Join(hash.Names(), ",") + ` src hashed`},
		{"verify", 0, `verify --json hashed`},
		{"copy", 0, `copy --json --verify=full src one -o two`},
		{"copy", 0, `copy --json --dry-run src three`},
		{"copy", 0, `copy --json --hash none src none`},
		{"copy", 0, `copy --json src/a file`},
		{"copy", 0, `copy --json 'src/` + raw + `' raw`},
		{"copy", 0, `copy --json src 'to ` + raw + `'`},
		{"copy", 4, `copy --json mine old`},
		{"copy", 4, `copy --json --backup-dir 'kept ` + raw + `' mine old`},
		{"copy", 4, `copy --json --overwrite-policy update mine old`},
		{"copy", 3, `copy --json rotten clean -o tidy`},
		{"copy", 3, `copy --json --source-manifest present rotten present`},
		{"copy", 3, `copy --json --fail-fast rotten faster`},
		{"copy", 1, `copy --json --log-file /dev/full src logged`},
		{"copy", 1, `copy --json large full -o also`}, // see below
		{"copy", 130, `copy --json --workers 1 --bwlimit 1MB large stopped`},
		{"copy", 0, `copy --json large stopped`},                // continued
		{"copy", 0, `copy --json --bwlimit 10MB large limited`}, // long enough for the limit to be reported
		{"verify", 0, `verify --json kept`},
		{"verify", 0, `verify --json --unlisted tagged kept`},
		{"verify", 0, `verify --json --ignore-missing --cache drop kept`},
		{"verify", 3, `verify --json --unlisted rotten`},
		{"scrub", 0, `scrub --json --state kept.state --for 1h kept`},
		{"scrub", 3, `scrub --json --state rotten.state --for 1h rotten`},
		{"scrub", 3, `scrub --json --state both.state --for 1h both`},
		{"scrub", 3, `scrub --json --state named.state --for 1h named`},
		{"scrub", 3, `scrub --json --state raw.state --for 1h 'dir ` + raw + `'`},
		{"verify", 3, `verify --json --unlisted both`},
		{"verify", 3, `verify --json --strict both`},
		{"verify", 3, `verify --json --unlisted named`},
		{"verify", 3, `verify --json 'dir ` + raw + `'`},
		{"verify", 1, `verify --json --manifest hostile kept`},
		{"repair", 3, `repair --json --discard rotten --from hurt --from 'dir ` + raw + `'`},
		{"repair", 3, `repair --json --dry-run ill --from 'to ` + raw + `'`},
		{"repair", 3, `repair --json ill --from 'to ` + raw + `' --from src`},
		{"repair", 1, `repair --json --log-file /dev/full ill --from src --exclude wrong`},
		{"repair", 3, `repair --json 'dir ` + raw + `' --from src`},
		{"compare", 0, `compare --json src one`},
		{"compare", 0, `compare --json --one-way --quick --metadata --exclude line* --exclude nothing src one two`},
		{"compare", 3, `compare --json src 'to ` + raw + `' changed`},
		{"compare", 3, `compare --json mine half`},
		{"compare", 1, `compare --json --log-file /dev/full src one`},
		{"compare", 130, `compare --json --workers 1 --bwlimit 1MB large stopped`},
		{"sum", 0, `sum --json --hash ` + strings.Join(hash.Names(), ",") + ` src`},
		{"sum", 0, `sum --json --cache drop --manifest 'sums ` + raw + `' src`},
		{"sum", 0, `sum --json --mhl --mhl-ignore 'c*' --mhl-ignore '?' 'mhl ` + raw + `'`},
		{"sum", 0, `sum --json --mhl=classic --manifest 'lines ` + raw + `' 'mhl ` + raw + `'`},
		{"copy", 0, `copy --json --mhl 'mhl ` + raw + `' 'mhl to ` + raw + `'`},
		{"copy", 0, `copy --json --mhl=classic,md5,xxh64 'mhl ` + raw + `' 'classic ` + raw + `'`},
		{"sum", 1, `sum --json 'no ` + raw + `' src/a`},
		{"sum", 0, `sum --json rotten`},
		{"sum", 1, `sum --json --log-file /dev/full src`},
		{"sum", 130, `sum --json --bwlimit 1MB large`},
		{"du", 0, `du --json`},
		{"du", 0, `du --json -a --apparent-size src kept`},
		{"du", 0, `du --json --top 3 --exclude none src`},
		{"du", 0, `du --json -a --inodes --time src`},
		{"du", 1, `du --json 'src/` + raw + `' 'no ` + raw + `'`},
		{"stream", 0, `stream --json --hash ` + strings.Join(hash.Names(), ",") + ` --manifest 'out ` + raw + `' src/a 's ` + raw + `'`},
		{"stream", 1, `stream --json large/b /dev/full`},
		{"stream", 0, `stream --json --cache=direct /proc/version s`},   // a warning
		{"stream", 1, `stream --json large/b 'large full ` + raw + `'`}, // see below
		{"stream", 130, `stream --json --bwlimit 1MB large/b s`},
		{"plan", 0, `plan --json --into 'plan ` + raw + `' --shards 2 --source-manifest present --exclude nothing 'dir ` + raw + `' 'planned ` + raw + `'`},
		{"merge", 1, `merge --json --dry-run 'plan ` + raw + `'`},
		{"merge", 0, `run -q 'plan ` + raw + `' --shard 0 --of 1 && exec sealift merge --json --wait 'plan ` + raw + `'`},
		{"merge", 0, `merge --json 'plan ` + raw + `'`},
		{"merge", 4, `plan -q --into plan3 --backup-dir 'kept ` + raw + `' mine split; sealift run -q plan3 --shard 0 --of 1; exec sealift merge --json plan3`},
		{"run", 4, `plan -q --into plan5 --backup-dir 'kept ` + raw + `' mine split5; exec sealift run --json plan5 --shard 0`},
		{"merge", 3, `plan -q --into plan4 rotten mended; sealift run -q plan4 --shard 0 --of 1; exec sealift merge --json plan4`},
		{"merge", 0, `merge --json --abandon plan4`},
		{"run", 0, `run --json 'plan ` + raw + `' --shard 0`}, // merged before
		{"plan", 1, `plan --json --into plan2 --files-from wanted src planned2`},
		{"run", 0, `run --json 'tasks ` + raw + `' --shard 0`},
		{"run", 0, `run --json 'tasks ` + raw + `' --shard 0 --of 1`}, // finished before, and another one
		{"run", 0, `run --json 'tasks ` + raw + `' --shard 5 --of 6`}, // there is none
		{"run", 4, `run --json aging --shard 0`},
		{"run", 3, `run --json --workers 1 linking --shard 0`},
		{"version", 0, `version --json`},
		// Refused runs, and invalid command lines.
		{"refusal", 2, `copy --json nowhere new`},
		{"refusal", 2, `copy --json src src/new`},
		{"refusal", 2, `copy --json src`},
		{"refusal", 2, `copy --json`},
		{"refusal", 2, `copy --json src new third`},
		{"refusal", 2, `copy --json src /dev/null`},
		{"refusal", 2, `copy --json --verify --hash none src new`},
		{"refusal", 2, `copy --json --log-file no/such/log src new`},
		{"refusal", 2, `copy --json --files-from nowhere src new`},
		{"refusal", 2, `copy --json=true --sycn end src new`},
		{"refusal", 2, `copy --sycn end src new --json`},
		{"refusal", 2, `copy --sync ned --json src new`},
		{"refusal", 2, `copy -Z --json src '` + raw + `'`},
		{"refusal", 2, `copy --json src '` + raw + `/../src'`},
		{"refusal", 2, `copyy --json src new`},
		{"refusal", 2, `--json`},
		{"refusal", 2, `verify --json nowhere`},
		{"refusal", 2, `verify --json src`},
		{"refusal", 2, `verify --json --silent kept`},
		{"refusal", 2, `verify --workers 0 --json kept`},
		{"refusal", 2, `verify --json --manifest nowhere kept`},
		{"refusal", 2, `compare --json src src`},
		{"refusal", 2, `repair --json kept --from kept`},
		{"refusal", 2, `compare --json nowhere src`},
		{"refusal", 2, `compare --json src`},
		{"refusal", 2, `du --json --null`},
		{"refusal", 2, `du --json ''`},
		{"refusal", 2, `du --block-size x --json`},
		{"refusal", 2, `version --json now`},
		{"refusal", 2, `sum --json --tag src`},
		{"refusal", 2, `stream --json src/a`},
		{"refusal", 2, `plan --json src new`},
		{"refusal", 2, `run --json nowhere --shard 1`},
		{"refusal", 2, `run --json 'tasks ` + raw + `'`},
		{"refusal", 2, `merge --json`},
		{"refusal", 2, `merge --json src`},
		{"refusal", 2, `merge --json --wait --dry-run 'plan ` + raw + `'`},
	}
	if os.Geteuid() == 0 && canMount["tmpfs"]() {
		unmount, err := mountAt("tmpfs", filepath.Join(dir, "small"))
		require.NoError(t, err)
		defer unmount()
		shell(t, dir, `mkdir big; head -c 9000000 /dev/zero >big/b; echo a >big/a`)
		runs = append(runs, runs[0])
		runs[len(runs)-1].code, runs[len(runs)-1].line = 1, `copy --json --hash md5 big small -o full`
	} else {
		t.Log("without a destination that is full: that takes root and a tmpfs")
	}
	for _, run := range runs {
		command := "exec sealift " + run.line
		if strings.Contains(run.line, "exec sealift") { // the last of several commands
			command = "sealift " + run.line
		}
		switch {
		case strings.Contains(run.line, "large full"):
			command = "ulimit -f 2000; " + command // blocks of 512 bytes, or of 1024
		case run.code == 130 && !strings.HasPrefix(run.line, "copy"):
			command = "timeout --preserve-status -s INT 1 sealift " + run.line
		case run.code == 130:
			command = "exec signal INT stopped/a sealift " + run.line
		}
		code, stdout, stderr := program(t, dir, command)
		assert.Equal(t, run.code, code, "%s: %s", run.line, stderr)
		if assert.Equal(t, 1, strings.Count(stdout, "\n"), "%s: %q", run.line, stdout) && assert.True(t, strings.HasSuffix(stdout, "\n"), run.line) {
			schemas[run.schema].check(t, run.line, stdout)
			var object struct {
				ExitCode *int `json:"exit_code"`
			}
			if assert.NoError(t, json.Unmarshal([]byte(stdout), &object), run.line) && run.schema != "version" {
				assert.Equal(t, run.code, *object.ExitCode, run.line)
			}
		}
	}

	var declared []string
	for _, d := range schemas {
		declared = append(declared, d.fields(t)...)
	}
	for _, field := range sometimesPrinted {
		assert.Contains(t, declared, field, "sometimesPrinted")
	}
	delete(schemas, "progress") // the next tests cover it
	delete(schemas, "log")
	delete(schemas, "hash")
	for _, d := range schemas {
		d.wasAllSeen(t)
	}
}

// sometimesPrinted has fields that depend on how the program was built, or on what the file system
// cannot store.
var sometimesPrinted = []string{"version/commit", "version/time", "version/modified"}

// TestProgressIsWhatItsSchemaSays does the same with lines of progress, in each phase that
// the test can extend until the first line.
func TestProgressIsWhatItsSchemaSays(t *testing.T) {
	t.Parallel()
	d := readSchemas(t)["progress"]
	dir := t.TempDir()
	shell(t, dir, `mkdir large slow; echo small >large/a; head -c 3000000 /dev/zero >large/b; head -c 500000 /dev/zero >slow/b
ln -s b slow/link # so that the file system is flushed, and not each file
sealift sum large --manifest large/SHA256SUMS`)
	phases := []string{"copying", "hashing", "done", "stopped"} // phases that must occur
	commands := map[string]int{
		`sealift stream --quiet --progress json large/a -`: 0,
		`mkfifo in; sealift sum --progress json - <in 2>printed & exec 3>in; until grep -q hashing printed; do sleep 0.1; done; exec 3>&-; wait $! && cat printed >&2`: 0,
		`sealift verify --progress json large`: 0,
		`exec signal INT halted/a sealift copy -q --progress json --workers 1 --bwlimit 1MB large halted`: 130,
		`sealift copy -q --progress json --bwlimit 200KB --block-size 4K --dirty-window 1M slow slowly`:   0,
	}
	if _, err := exec.LookPath("strace"); err == nil {
		commands[`exec strace -f -o calls -e trace=syncfs,pread64 -e inject=syncfs:delay_enter=1600000 -e inject=pread64:delay_enter=320000 `+
			`sealift copy -q --progress json --cache keep --verify slow traced`] = 0
		phases = append(phases, "flushing", "verifying")
	} else {
		t.Log("without strace, flushing and verifying end before progress shows them")
	}
	seen := map[string]bool{}
	for command, want := range commands {
		code, _, stderr := program(t, dir, command)
		assert.Equal(t, want, code, "%s: %s", command, stderr)
		for line := range strings.Lines(stderr) {
			if strings.HasPrefix(line, "{") {
				d.check(t, command, line)
				var object struct {
					Phase string `json:"phase"`
				}
				require.NoError(t, json.Unmarshal([]byte(line), &object))
				seen[object.Phase] = true
			}
		}
	}
	for _, phase := range phases {
		assert.True(t, seen[phase], "no line was %s", phase)
	}
	d.wasAllSeen(t)
	known := d.raw["properties"].(map[string]any)["phase"].(map[string]any)["examples"].([]any)
	for i, phase := range known {
		assert.Equal(t, counters.Phase(i).String(), phase) //nolint:gosec // a handful
	}
	assert.Equal(t, counters.PhaseStopped, counters.Phase(len(known)-1)) //nolint:gosec // as above
}

// TestTheLogIsWhatItsSchemaSays does the same with lines of logs.
func TestTheLogIsWhatItsSchemaSays(t *testing.T) {
	t.Parallel()
	d := readSchemas(t)["log"]
	dir := t.TempDir()
	shell(t, dir, `mkdir "$(printf 's\377')" src dst bad newer mine half
echo a >src/a; ln src/a src/b; touch src/same src/touched src/replaced src/newer "$(printf 'src/\377')"
echo other >dst/replaced; touch -d 2020-01-01 dst/replaced; echo newer >dst/newer; touch -d 2100-01-01 dst/newer; cp -a src/touched dst; chmod 600 dst/touched; cp -a src/same dst
printf '%064d  f\n%064d  none\n' 0 0 >bad/SHA256SUMS; mkdir "$(printf 'b\377')"; cp bad/SHA256SUMS "$(printf 'b\377')"; cp bad/SHA256SUMS "$(printf 'bad/\376.sha256')"; echo f >bad/f; touch bad/unlisted "$(printf 'bad/\377')"; ln -s a mine/a; chmod 700 mine
head -c 3000000 /dev/zero >large; touch half/SEALIFT-INCOMPLETE-x.txt`)
	for command, want := range map[string]int{
		`copy src dst -o "$(printf 'd\377')"`:   4,
		`copy src dst`:                          4,
		`copy --overwrite-policy never src dst`: 0,
		`copy "$(printf 's\377')" empty`:        0,
		`copy -n src empty`:                     0,
		`copy src/a src/a`:                      2,
		`copy bad good`:                         3,
		`copy --bwlimit 10MB large limited`:     0,
		`verify --unlisted bad`:                 3,
		`verify dst/none`:                       2,
		`compare --metadata src mine`:           3,
		`verify "$(printf 'b\377')"`:            3,
		`compare --metadata src dst`:            3,
		`compare src half`:                      3,
		`sum src none`:                          1,
		`du none`:                               1,
		`stream --json large /dev/full`:         1,
		`stream -q src/a s`:                     0,
	} {
		code, _, stderr := program(t, dir, "sealift "+command+" --progress none --log-file log --log-format json")
		if strings.HasPrefix(command, "du") {
			code, _, stderr = program(t, dir, "sealift "+command+" --log-file log --log-format json")
		}
		assert.Equal(t, want, code, "%s: %s", command, stderr)
	}
	log, err := os.ReadFile(filepath.Join(dir, "log"))
	require.NoError(t, err)
	for line := range strings.Lines(string(log)) {
		d.check(t, "log", line)
	}
	d.wasAllSeen(t)
}

// shell runs a script that must succeed.
func shell(t *testing.T, dir, script string) {
	t.Helper()
	code, _, stderr := program(t, dir, "set -e\n"+script)
	require.Equal(t, 0, code, "%s\n%s", script, stderr)
}

// program runs a script in a directory.
func program(t *testing.T, dir, script string) (code int, stdout, stderr string) {
	t.Helper()
	var out, messages bytes.Buffer
	cmd := exec.CommandContext(t.Context(), "sh", "-c", script)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &out, &messages
	cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0", "LC_ALL=C")
	err := cmd.Run()
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		code = failed.ExitCode()
	} else {
		require.NoError(t, err, script)
	}
	return code, out.String(), messages.String()
}
