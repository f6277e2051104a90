//go:build unix

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// The scripts run the test binary under the names of these commands.
func TestMain(m *testing.M) {
	testscript.Main(withProgram{m}, map[string]func(){
		"ordinary": ordinary,
		"signal":   signalWhen,
		"deeptree": deepTree,
	})
}

// withProgram runs tests that find sealift on the PATH. It builds the program, because a
// test binary needs twice the time to start, and the tests start it thousands of times.
type withProgram struct{ *testing.M }

func (m withProgram) Run() int {
	// Programs inherit the ignored SIGINT from a shell or test2json, and would not stop.
	if signal.Ignored(os.Interrupt) {
		signal.Notify(make(chan os.Signal, 1), os.Interrupt)
	}
	dir, err := os.MkdirTemp("", "sealift")
	if err != nil {
		fail("%v", err)
	}
	defer os.RemoveAll(dir) //nolint:errcheck // only what was built
	if err := buildSealift(dir, "CGO_ENABLED=0", "-trimpath"); err != nil {
		fail("%v", err)
	}
	raceDetecting = sync.OnceValues(func() (string, error) {
		supported := exec.Command("go", "list", "-race", "runtime/race")
		supported.Env = append(os.Environ(), "CGO_ENABLED=1")
		if supported.Run() != nil {
			return "", nil
		}
		watched := filepath.Join(dir, "race")
		return watched, buildSealift(watched, "CGO_ENABLED=1", "-race")
	})
	// SEALIFT_JUDGES is the bin directory of a virtual environment with the reference tools
	// that check the output of sealift.
	path := filepath.SplitList(os.Getenv("PATH"))
	path = append(append([]string{dir}, path...), filepath.SplitList(os.Getenv("SEALIFT_JUDGES"))...)
	if err := os.Setenv("PATH", strings.Join(path, string(filepath.ListSeparator))); err != nil {
		fail("%v", err)
	}
	return m.M.Run()
}

// buildSealift builds the program in a directory. With the flags of make build, and with
// only -race as in go test, the packages are compiled already.
func buildSealift(dir, cgo string, flags ...string) error {
	args := append([]string{"build", "-buildvcs=false", "-o", filepath.Join(dir, "sealift")}, flags...)
	cmd := exec.Command("go", append(args, ".")...) //nolint:gosec // ours
	cmd.Env = append(os.Environ(), cgo)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building sealift: %w\n%s", err, out)
	}
	return nil
}

// raceDetecting returns the directory of a program with the race detector. It builds the
// program when a script first needs it. It returns "" if there is no C compiler, which cgo
// and so the race detector need.
var raceDetecting func() (string, error)

// raceScripts run a program with the race detector: each command, with several workers,
// several destinations, a stop, a failure, and each view of its progress. The tests of the
// packages run the same code with the detector, which makes programs two to three times
// slower. So other scripts use it only with SEALIFT_SCRIPTS=all.
var raceScripts = []string{
	"compare_finds", "compare_interrupt", "copy_verify", "destination_lost", "du_like_gnu", "fail_fast",
	"hard_links_exchanged", "hashes_every", "interrupt", "manifest_two_destinations", "mhl_copy", "resume_two_destinations",
	"several_destinations", "status", "stream_copy", "stream_stopped", "sum_flags", "sum_interrupt", "verify_interrupt",
	"verify_output",
}

// Each entry of raceScripts names a script that exists.
func TestEachOfRaceScriptsExists(t *testing.T) {
	for _, script := range raceScripts {
		if _, err := os.Stat(filepath.Join("..", "..", "testdata", "script", script+".txtar")); err != nil {
			t.Errorf("raceScripts has %q, which is no script: %v", script, err)
		}
	}
}

// watchForRaces puts the program with the race detector first on the PATH of the scripts
// that need it.
func watchForRaces(env *testscript.Env) error {
	script := strings.TrimPrefix(filepath.Base(env.WorkDir), "script-")
	if !slices.Contains(raceScripts, script) && os.Getenv("SEALIFT_SCRIPTS") != "all" {
		return nil
	}
	dir, err := raceDetecting()
	if dir != "" {
		env.Setenv("PATH", dir+string(filepath.ListSeparator)+env.Getenv("PATH"))
	}
	return err
}

// TestScript runs testdata/script, one rule of the contract each. Besides what
// testscript knows, scripts have
//
//	exit CODE PROGRAM ARG...   run a program, which must exit with the code
//	write NAME TEXT            make a file; both may have the escapes of Go
//	fill NAME SIZE [SEED]      make a file of so many bytes of noise
//	same WANT GOT [IGNORE...]  compare two trees completely; SHA256SUMS is ignored, too
//	clean DIR...               no temporary or journal is left below; with
//	                           --but-journal, that may be
//	object FILE                the text is one JSON object a line; "stderr" and "stdout" as in cmp
//	wild DIR                   make a tree of names that no terminal should be shown
//	tame [--terminal] FILE...  nothing in the text acts on a terminal or hides there;
//	                           "stderr" and "stdout" as in cmp
//	await PATTERN[=REGEXP]     wait until a name appears, or a file in which the expression matches
//	give PATH...               make the ordinary user the owner
//	mount KIND DIR             mount something small: tmpfs, ext4, xfs, btrfs, exfat,
//	                           owned (an exFAT of which all is the ordinary user's), casefold,
//	                           ntfs, lowercase (an NTFS that folds case and lists names in
//	                           lower case), streams (one where a:b is a stream of a),
//	                           overlay (on DIR.lower, which changes in DIR.layers/upper),
//	                           sshfs (of DIR.server, by a server without a network)
//
// the conditions [root], [mount:KIND] and [all], which is true with SEALIFT_SCRIPTS=all and
// guards scripts that repeat another script on one more file system, and the programs
//
//	ordinary PROGRAM ARG...        as an ordinary user
//	signal NAME PATTERN[=REGEXP] PROGRAM...  run it, and send it a signal when that appears
//	deeptree DIR BYTES             make a tree too deep for one path to name
func TestScript(t *testing.T) {
	if out, err := exec.Command("touch", "--version").Output(); err != nil || !strings.Contains(string(out), "GNU") {
		t.Skip("the scripts need GNU coreutils")
	}
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("..", "..", "testdata", "script"),
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup:               openToAll,
		Condition:           condition,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exit":   cmdExit,
			"write":  cmdWrite,
			"fill":   cmdFill,
			"same":   cmdSame,
			"clean":  cmdClean,
			"object": cmdObject,
			"wild":   cmdWild,
			"tame":   cmdTame,
			"await":  cmdAwait,
			"give":   cmdGive,
			"mount":  cmdMount,
		},
	})
}

// openToAll gives the ordinary user access to the work directory and the programs.
func openToAll(env *testscript.Env) error {
	sample, err := filepath.Abs(filepath.Join("..", "..", "testdata", "sample"))
	if err != nil {
		return err
	}
	env.Setenv("SAMPLE", sample)
	env.Setenv("LC_ALL", "C")
	env.Setenv("GORACE", "atexit_sleep_ms=0") // otherwise each of hundreds of programs waits for a second
	syscall.Umask(0o022)
	program, err := exec.LookPath("sealift")
	if err != nil {
		return err
	}
	if err := watchForRaces(env); err != nil {
		return err
	}
	for _, dir := range []string{env.WorkDir, filepath.Dir(env.WorkDir), filepath.Dir(program), filepath.Dir(filepath.Dir(program))} {
		if strings.HasPrefix(dir, os.TempDir()+string(filepath.Separator)) {
			if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // for the ordinary user
				return err
			}
		}
	}
	return nil
}

func condition(name string) (bool, error) {
	switch name {
	case "root":
		return os.Geteuid() == 0, nil
	case "all":
		return os.Getenv("SEALIFT_SCRIPTS") == "all", nil
	}
	if kind, ok := strings.CutPrefix(name, "mount:"); ok && canMount[kind] != nil {
		return canMount[kind](), nil
	}
	return false, fmt.Errorf("unknown condition %q", name)
}

// ordinaryID is the user and group number of the ordinary user.
const ordinaryID = 65534

func fail(format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
	os.Exit(99)
}

// ordinary runs a program without privilege.
func ordinary() {
	program, err := exec.LookPath(os.Args[1])
	if err != nil {
		fail("%v", err)
	}
	if os.Geteuid() == 0 {
		if err := errors.Join(syscall.Setgroups(nil), syscall.Setgid(ordinaryID), syscall.Setuid(ordinaryID)); err != nil {
			fail("becoming an ordinary user: %v", err)
		}
	}
	fail("%s: %v", program, syscall.Exec(program, os.Args[1:], os.Environ()))
}

// signalWhen runs a program and sends it a signal when a name appears.
func signalWhen() {
	signals := map[string]syscall.Signal{
		"HUP": syscall.SIGHUP, "INT": syscall.SIGINT, "TERM": syscall.SIGTERM, "USR1": syscall.SIGUSR1, "KILL": syscall.SIGKILL,
	}
	cmd := exec.Command(os.Args[3], os.Args[4:]...) //nolint:gosec // a script's
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		fail("%v", err)
	}
	if !appears(os.Args[2]) {
		_ = cmd.Process.Kill()
		fail("%s did not appear", os.Args[2])
	}
	if err := cmd.Process.Signal(signals[os.Args[1]]); err != nil {
		fail("%s: %v", os.Args[1], err)
	}
	_ = cmd.Wait() // its exit code is the result
	if cmd.ProcessState.ExitCode() < 0 {
		fail("%v", cmd.ProcessState)
	}
	os.Exit(cmd.ProcessState.ExitCode())
}

// deepTree makes nested directories until their path has so many bytes, and a file in the
// last one.
func deepTree() {
	long, err := strconv.Atoi(os.Args[2])
	if err != nil {
		fail("%v", err)
	}
	name := strings.Repeat("d", 200)
	err = os.MkdirAll(os.Args[1], 0o755) //nolint:gosec // for the ordinary user
	for err = errors.Join(err, os.Chdir(os.Args[1])); long > 0 && err == nil; long -= len(name) + 1 {
		err = errors.Join(os.Mkdir(name, 0o755), os.Chdir(name)) //nolint:gosec // as above
	}
	if err = errors.Join(err, os.WriteFile("bottom", []byte("deep\n"), 0o644)); err != nil { //nolint:gosec // as above
		fail("%v", err)
	}
}
