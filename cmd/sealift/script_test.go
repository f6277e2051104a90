//go:build unix

package main

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/seed65876f4f/sealift/internal/treetest"
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

func cmdExit(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exit CODE PROGRAM ARG...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		got = failed.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("%s exited with %d; want %d", args[1], got, want)
	}
}

// unescape decodes the escapes of Go's string literals.
func unescape(ts *testscript.TestScript, s string) string {
	text, err := strconv.Unquote(`"` + strings.ReplaceAll(s, `"`, `\"`) + `"`)
	if err != nil {
		ts.Fatalf("%s: %v", s, err)
	}
	return text
}

func writeFile(ts *testscript.TestScript, name string, content []byte) {
	path := ts.MkAbs(name)
	ts.Check(os.MkdirAll(filepath.Dir(path), 0o755)) //nolint:gosec // for the ordinary user
	ts.Check(os.WriteFile(path, content, 0o644))     //nolint:gosec // as above
}

func cmdWrite(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: write NAME TEXT")
	}
	writeFile(ts, unescape(ts, args[0]), []byte(unescape(ts, args[1])))
}

func cmdFill(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 || len(args) > 3 {
		ts.Fatalf("usage: fill NAME SIZE [SEED]")
	}
	size, err := strconv.Atoi(args[1])
	ts.Check(err)
	seed := uint64(1)
	if len(args) == 3 {
		seed, err = strconv.ParseUint(args[2], 10, 64)
		ts.Check(err)
	}
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], seed)
	// The race detector slows down loops over bytes, and the first use of memory. So one
	// small buffer is best.
	writeFile(ts, args[0], nil)
	f, err := os.OpenFile(ts.MkAbs(args[0]), os.O_WRONLY, 0) //nolint:gosec // a script's
	ts.Check(err)
	_, err = io.CopyBuffer(struct{ io.Writer }{f}, io.LimitReader(rand.NewChaCha8(key), int64(size)), make([]byte, 64<<10))
	ts.Check(errors.Join(err, f.Close()))
}

func cmdSame(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: same WANT GOT [IGNORE...]")
	}
	o := treetest.Options{}
	for _, arg := range append([]string{"SHA256SUMS"}, args[2:]...) {
		switch arg {
		case "--no-times":
			o.NoTimes = true
		case "--no-modes":
			o.NoModes = true
		case "--no-owners":
			o.NoOwners = true
		case "--no-links":
			o.NoLinks = true
		case "--no-xattrs":
			o.NoXattrs = true
		case "--root":
			o.Root = true
		default:
			o.Ignore = append(o.Ignore, arg)
		}
	}
	differences, err := treetest.Diff(ts.MkAbs(args[0]), ts.MkAbs(args[1]), o)
	ts.Check(err)
	switch {
	case neg && len(differences) == 0:
		ts.Fatalf("%s and %s are the same", args[0], args[1])
	case !neg && len(differences) > 0:
		ts.Fatalf("%s is not as %s:\n%s", args[1], args[0], strings.Join(differences, "\n"))
	}
}

func cmdClean(ts *testscript.TestScript, neg bool, args []string) {
	if neg {
		ts.Fatalf("unsupported: ! clean")
	}
	journal := ""
	if args[0] == "--but-journal" {
		journal, args = ".sealift-journal", args[1:]
	}
	for _, dir := range args {
		ts.Check(filepath.WalkDir(ts.MkAbs(dir), func(path string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case d.Name() == journal && d.IsDir():
				return fs.SkipDir
			case strings.HasPrefix(d.Name(), ".sealift-"):
				return fmt.Errorf("%s is left over", path)
			}
			return nil
		}))
	}
}

func cmdObject(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: object FILE")
	}
	text := ts.ReadFile(args[0])
	if !strings.HasSuffix(text, "\n") {
		ts.Fatalf("the last line of %s has no end", args[0])
	}
	for line := range strings.Lines(text) {
		var object map[string]any
		if err := json.Unmarshal([]byte(line), &object); err != nil {
			ts.Fatalf("%s: %v", args[0], err)
		}
	}
}

// cmdWild makes, of each wild name, a file, a directory with a file, two links of each
// kind, a fifo, and entries that cannot be read.
func cmdWild(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: wild DIR")
	}
	root := ts.MkAbs(args[0])
	for _, dir := range []string{"files", "dirs", "links", "fifos", "closed", "shut"} {
		ts.Check(os.MkdirAll(filepath.Join(root, dir), 0o755)) //nolint:gosec // for the ordinary user
	}
	for i, name := range treetest.WildNames() {
		file := filepath.Join(root, "files", name)
		ts.Check(errors.Join(
			os.WriteFile(file, []byte(name), 0o644),                           //nolint:gosec // as above
			os.Mkdir(filepath.Join(root, "dirs", name), 0o755),                //nolint:gosec // as above
			os.WriteFile(filepath.Join(root, "dirs", name, name), nil, 0o644), //nolint:gosec // as above
			os.Symlink(name, filepath.Join(root, "links", name)),
			os.Link(file, filepath.Join(root, "links", strconv.Itoa(i))),
			syscall.Mkfifo(filepath.Join(root, "fifos", name), 0o644),
			os.WriteFile(filepath.Join(root, "closed", name), []byte("closed"), 0),
			os.Mkdir(filepath.Join(root, "shut", name), 0),
		))
	}
	ts.Defer(func() {
		for _, name := range treetest.WildNames() {
			_ = os.Chmod(filepath.Join(root, "shut", name), 0o700) //nolint:gosec // to be removed
		}
	})
}

func cmdTame(ts *testscript.TestScript, neg bool, args []string) {
	terminal := len(args) > 0 && args[0] == "--terminal"
	if terminal {
		args = args[1:]
	}
	if neg || len(args) == 0 {
		ts.Fatalf("usage: tame [--terminal] FILE...")
	}
	for _, file := range args {
		if found := treetest.Wild(ts.ReadFile(file), terminal); found != "" {
			ts.Fatalf("%s holds %q", file, found)
		}
	}
}

func cmdAwait(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: await PATTERN[=REGEXP]")
	}
	if !appears(ts.MkAbs(args[0])) {
		ts.Fatalf("%s did not appear", args[0])
	}
}

// appears waits for a name, or for a file of that name with content that matches the
// expression behind "=". Only loaded machines need the long timeout.
func appears(what string) bool {
	pattern, expression, within := strings.Cut(what, "=")
	text := regexp.MustCompile(expression)
	for range 2000 {
		names, _ := filepath.Glob(pattern)
		for _, name := range names {
			if content, err := os.ReadFile(name); !within || err == nil && text.Match(content) { //nolint:gosec // a script's
				return true
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	return false
}

// ordinaryID is the user and group number of the ordinary user.
const ordinaryID = 65534

func cmdGive(ts *testscript.TestScript, neg bool, args []string) {
	if neg {
		ts.Fatalf("unsupported: ! give")
	}
	if os.Geteuid() != 0 {
		return // the tests already run as the ordinary user
	}
	for _, dir := range args {
		ts.Check(filepath.WalkDir(ts.MkAbs(dir), func(path string, _ fs.DirEntry, err error) error {
			return errors.Join(err, os.Lchown(path, ordinaryID, ordinaryID))
		}))
	}
}

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
		"INT": syscall.SIGINT, "TERM": syscall.SIGTERM, "USR1": syscall.SIGUSR1, "KILL": syscall.SIGKILL,
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

// canMount reports whether mountAt works here. It tries each kind once.
var canMount = map[string]func() bool{
	"tmpfs":     sync.OnceValue(func() bool { return tryMount("tmpfs") }),
	"ext4":      sync.OnceValue(func() bool { return tryMount("ext4") }),
	"xfs":       sync.OnceValue(func() bool { return tryMount("xfs") }),
	"btrfs":     sync.OnceValue(func() bool { return tryMount("btrfs") }),
	"exfat":     sync.OnceValue(func() bool { return tryMount("exfat") }),
	"owned":     sync.OnceValue(func() bool { return tryMount("owned") }),
	"casefold":  sync.OnceValue(func() bool { return tryMount("casefold") }),
	"ntfs":      sync.OnceValue(func() bool { return tryMount("ntfs") }),
	"lowercase": sync.OnceValue(func() bool { return tryMount("lowercase") }),
	"streams":   sync.OnceValue(func() bool { return tryMount("streams") }),
	"sshfs":     sync.OnceValue(func() bool { return tryMount("sshfs") }),
	"weak":      sync.OnceValue(func() bool { return tryMount("weak") }),
}

func tryMount(kind string) bool {
	dir, err := os.MkdirTemp("", "mount")
	if err != nil {
		return false
	}
	defer os.RemoveAll(dir) //nolint:errcheck // nothing is in it
	unmount, err := mountAt(kind, filepath.Join(dir, "point"))
	if err == nil {
		unmount()
	}
	return err == nil
}

func cmdMount(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: mount KIND DIR")
	}
	unmount, err := mountAt(args[0], ts.MkAbs(args[1]))
	ts.Check(err)
	ts.Defer(unmount)
}

// mountAt creates dir and mounts a new file system on it, of 4 MiB (tmpfs), 64 MiB, or the
// minimum of xfs and btrfs.
func mountAt(kind, dir string) (unmount func(), err error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("mounting takes root")
	}
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // for the ordinary user
		return nil, err
	}
	run := func(name string, args ...string) (string, error) {
		out, err := exec.Command(name, args...).CombinedOutput()
		if err != nil {
			err = fmt.Errorf("%s: %w: %s", name, err, out)
		}
		return strings.TrimSpace(string(out)), err
	}
	image := dir + ".image"
	eject := func() {
		if _, err := run("umount", dir); err != nil {
			_, _ = run("umount", "-l", dir) // another process may still use it
		}
		_ = os.Remove(image)
	}
	if kind == "tmpfs" {
		_, err := run("mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", dir)
		return eject, err
	}
	if kind == "sshfs" || kind == "weak" {
		served, ssh, server := dir+".server", dir+".ssh", "/usr/lib/openssh/sftp-server"
		options := "ssh_command=" + ssh
		if kind == "weak" { // only directories of its user are writable, and modes are not visible
			server = "setpriv --bounding-set -all --inh-caps -all " + server
			options += ",umask=022"
		}
		err := errors.Join(os.MkdirAll(served, 0o755), os.WriteFile(ssh, []byte("#!/bin/sh\nexec "+server+"\n"), 0o755)) //nolint:gosec // a program
		if err == nil {
			_, err = run("sshfs", "-o", options, "nowhere:"+served, dir)
		}
		return eject, err
	}
	size := int64(64 << 20)
	if kind == "xfs" || kind == "btrfs" {
		size = 320 << 20
	}
	if err := errors.Join(os.WriteFile(image, nil, 0o600), os.Truncate(image, size)); err != nil {
		return nil, err
	}
	switch kind {
	case "exfat", "owned", "ntfs", "lowercase", "streams":
		format, program, options := []string{"mkfs.exfat", image}, "mount.exfat-fuse", "rw"
		switch kind {
		case "owned":
			options = fmt.Sprintf("uid=%d,gid=%d", ordinaryID, ordinaryID)
		case "ntfs":
			format, program = []string{"mkfs.ntfs", "-q", "-F", image}, "ntfs-3g"
		case "lowercase":
			format, program, options = []string{"mkfs.ntfs", "-q", "-F", image}, "lowntfs-3g", "ignore_case,windows_names"
		case "streams":
			format, program, options = []string{"mkfs.ntfs", "-q", "-F", image}, "ntfs-3g", "streams_interface=windows"
		}
		if _, err := run(format[0], format[1:]...); err != nil {
			return nil, err
		}
		loop, err := run("losetup", "-f", "--show", image)
		if err != nil {
			return nil, err
		}
		detach := func() { _, _ = run("losetup", "-d", loop) }
		if _, err := run(program, "-o", options, loop, dir); err != nil {
			detach()
			return nil, err
		}
		return func() { eject(); detach() }, nil
	case "ext4", "casefold", "xfs", "btrfs":
		format := []string{"mkfs." + kind, "-q", image}
		if kind == "casefold" {
			format = []string{"mkfs.ext4", "-q", "-O", "casefold", image}
		}
		if _, err := run(format[0], format[1:]...); err != nil {
			return nil, err
		}
		if _, err := run("mount", "-o", "loop", image, dir); err != nil {
			return nil, err
		}
		if kind == "casefold" {
			if _, err := run("chattr", "+F", dir); err != nil {
				eject()
				return nil, err
			}
		}
		return eject, nil
	}
	return nil, fmt.Errorf("unknown kind of file system %q", kind)
}
