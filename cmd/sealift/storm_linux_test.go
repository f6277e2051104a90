package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seed65876f4f/sealift/internal/treetest"
)

// A storm exchanges names of trees for others as fast as possible, while commands work on
// the trees. It never follows a symbolic link itself.
type storm struct {
	dir   int // the directory with the trees and "bait"
	pairs []stormPair

	stop      atomic.Bool
	blowing   sync.WaitGroup
	exchanges int64
	blown     time.Duration
}

// stormPair is a path and the name in "bait" that it is exchanged for.
type stormPair struct{ path, bait string }

func (s *storm) blow() {
	s.stop.Store(false)
	s.blowing.Go(func() {
		begun := time.Now()
		for !s.stop.Load() {
			if s.exchange(s.pairs[rand.IntN(len(s.pairs))]) {
				s.exchanges++
			}
			// Sleeping needs more time than a small file.
			for pause := time.Now().Add(time.Duration(rand.IntN(50)) * time.Microsecond); time.Now().Before(pause); {
				runtime.Gosched()
			}
		}
		s.blown += time.Since(begun)
	})
}

func (s *storm) calm() {
	s.stop.Store(true)
	s.blowing.Wait()
}

func (s *storm) exchange(p stormPair) bool {
	up, err := unix.Openat2(s.dir, filepath.Dir(p.path), &unix.OpenHow{
		Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_BENEATH,
	})
	if err != nil {
		return false
	}
	defer unix.Close(up) //nolint:errcheck // only a handle
	return unix.Renameat2(up, filepath.Base(p.path), s.dir, "bait/"+p.bait, unix.RENAME_EXCHANGE) == nil
}

// stormTree returns the tree that commands work on.
func stormTree() treetest.Dir {
	file := func(size int, seed byte, o ...treetest.Option) treetest.Node {
		return treetest.File(string(treetest.Pattern(size, seed)), o...)
	}
	many := treetest.Dir{"c": file(300, 4)}
	for i := range 20 {
		many[fmt.Sprint("f", i)] = file(1000+i, byte(10+i))
	}
	return treetest.Dir{
		"a": file(100, 1), "z": file(500, 6),
		"d": treetest.Dir{
			"b": file(200, 2), "big": file(700_000, 3), "e": treetest.Dir(many),
			"fifo": treetest.Fifo(), "symlink": treetest.Symlink("b"),
		},
		"links": treetest.Dir{"one": file(400, 5, treetest.Linked("l")), "two": file(400, 5, treetest.Linked("l")), "three": file(400, 5, treetest.Linked("l"))},
	}
}

// stormOutside has the same names, and others.
func stormOutside(t *testing.T, root string) *treetest.Trap {
	file, dir := treetest.CanaryFile, treetest.CanaryDir
	many := treetest.Dir{"c": file(300), "canary": file(30)}
	for i := range 20 {
		many[fmt.Sprint("f", i)] = file(1000 + i)
	}
	return treetest.NewTrap(t, root, dir(treetest.Dir{
		"a": file(100), "z": file(500), "canary": file(30),
		"d":                dir(treetest.Dir{"b": file(200), "big": file(700_000), "canary": file(30), "e": dir(many), "symlink": file(10)}),
		"links":            dir(treetest.Dir{"one": file(400), "two": file(400), "three": file(400), "canary": file(30)}),
		".sealift-journal": dir(treetest.Dir{"lock": file(0), "root": file(0), "canary": file(30)}),
		"SHA256SUMS":       file(90),
	}))
}

// baits creates the entries for which the names of a tree are exchanged, and returns the
// pairs.
func baits(tree, outside string, into treetest.Dir) (pairs []stormPair) {
	for path, node := range map[string]treetest.Node{
		"d":         treetest.Symlink(filepath.Join(outside, "d")),
		"d/e":       treetest.Symlink(filepath.Join(outside, "d/e")),
		"links":     treetest.Symlink(filepath.Join(outside, "links")),
		"a":         treetest.Symlink(filepath.Join(outside, "a")),
		"d/b":       treetest.Fifo(),
		"d/e/f1":    treetest.Dir{"in": treetest.File("in")},
		"d/e/f2":    treetest.File(string(treetest.Pattern(1002, 99))),
		"d/big":     treetest.File(string(treetest.Pattern(700_000, 98))),
		"links/one": treetest.Symlink(filepath.Join(outside, "links/one")),
		"z":         treetest.Socket(),
	} {
		name := tree + "-" + strings.ReplaceAll(path, "/", "-")
		into[name] = node
		pairs = append(pairs, stormPair{tree + "/" + path, name})
	}
	return pairs
}

// TestStorm runs commands in a storm, in as many rounds as SEALIFT_STORM says. They read,
// list, write and report nothing outside of the trees. A manifest lists the existing
// content of a destination that no other process changes. Each command ends with a
// documented exit code, and its messages name the object.
func TestStorm(t *testing.T) {
	rounds := 1
	if n, err := strconv.Atoi(os.Getenv("SEALIFT_STORM")); err == nil {
		rounds = n
	}
	dir := treetest.MemoryDir(t)
	outside := stormOutside(t, filepath.Join(dir, "outside"))
	digests := digestsOutside()
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd) //nolint:errcheck // only a handle
	s, shift := &storm{dir: fd}, rand.IntN(3)
	if err := unix.Renameat2(fd, "none", fd, "none", unix.RENAME_EXCHANGE); !errors.Is(err, unix.ENOENT) {
		t.Skip("names cannot be exchanged here: ", err)
	}
	// "own": the source has a manifest; "full": the destination has one as well, from an
	// earlier copy; "killed": the command before is killed at some time.
	commands := []struct{ given, command string }{
		{"", "copy src dst"},
		{"", "copy --verify=full src dst -o dst2"},
		{"", "copy --reflink=never --hash=none src dst"},
		{"full", "copy --overwrite-policy=update src dst"},
		{"full", "copy --overwrite-policy=checksum src dst"},
		{"full", "copy --overwrite-policy=always --verify src dst -o dst2"},
		{"full", "copy src dst"},
		{"killed", "copy --sync=file src dst"},
		{"killed", "copy src dst"},
		{"own", "copy src dst"},
		{"own", "copy --verify src dst"},
		{"", "copy --files-from list src dst"},
		{"own", "verify src"},
		{"own full", "verify --unlisted src dst"},
		{"", "sum src"},
		{"", "sum --manifest sums --files-from list src"},
		{"", "sum --manifest src/SHA256SUMS src"},
		{"", "du -a src"},
		{"", "du src src/links"},
	}
	places := []string{"src", "dst", "src dst"}
	for round := range rounds {
		for n, c := range commands {
			where := places[(n+round+shift)%len(places)]
			if !strings.Contains(c.command, " dst") {
				where = "src"
			}
			s.prepare(t, dir, outside.Root, where, c.given)
			args := strings.Fields(c.command)
			s.blow()
			if c.given == "killed" {
				stormRun(t, dir, time.Duration(1+rand.IntN(60))*time.Millisecond, args...)
			}
			out := stormRun(t, dir, 0, args...)
			s.calm()
			wrong := slices.Concat(outside.Touched(), strange(out), leaked(dir, digests, out))
			if where == "src" && args[0] == "copy" {
				wrong = slices.Concat(wrong, untrue(t, filepath.Join(dir, "dst")), untrue(t, filepath.Join(dir, "dst2")))
			}
			if len(wrong) > 0 {
				t.Errorf("%s, %s, exchanged in %s: exit code %d\n%s\nit printed:\n%s%s", c.command, c.given, where, out.code, strings.Join(wrong[:min(len(wrong), 5)], "\n"), out.stdout, out.stderr)
			}
			for _, tree := range []string{"src", "dst", "dst2", "bait", "list", "sums"} {
				treetest.Remove(t, filepath.Join(dir, tree))
			}
		}
	}
	t.Logf("%d exchanges in %v", s.exchanges, s.blown)
	if s.exchanges == 0 {
		t.Error("there was no storm")
	}
}

// prepare creates the trees, and the entries for which their names are exchanged.
func (s *storm) prepare(t *testing.T, dir, outside, where, given string) {
	s.pairs = nil
	bait := treetest.Dir{}
	for _, tree := range strings.Fields(where) {
		s.pairs = append(s.pairs, baits(tree, outside, bait)...)
	}
	if strings.Contains(where, "dst") {
		bait["dst-journal"] = treetest.Symlink(filepath.Join(outside, ".sealift-journal"))
		bait["dst-sums"] = treetest.Symlink(filepath.Join(outside, "SHA256SUMS"))
		s.pairs = append(s.pairs, stormPair{"dst/.sealift-journal", "dst-journal"})
		if rand.IntN(3) == 0 { // if it is not a directory at the start, the command refuses everything
			s.pairs = append(s.pairs, stormPair{"dst/SHA256SUMS", "dst-sums"})
		}
	}
	treetest.Create(t, filepath.Join(dir, "bait"), bait)
	treetest.Create(t, filepath.Join(dir, "src"), stormTree())
	treetest.Create(t, filepath.Join(dir, "list"), treetest.File("d\nlinks/two\na\nd/e/f3\nz\n"))
	if strings.Contains(given, "own") {
		stormRun(t, dir, 0, "sum", "--manifest", "src/SHA256SUMS", "src")
	}
	if !strings.Contains(given, "full") {
		return
	}
	stormRun(t, dir, 0, "copy", "src", "dst")
	for _, name := range []string{"d", "d/e", "a", "d/big", "d/e/f3", "links/one"} {
		path, old := filepath.Join(dir, "dst", name), time.Unix(1e9, 0)
		if err := errors.Join(os.Chmod(path, 0o700), os.Chtimes(path, old, old)); err != nil { //nolint:gosec // others than the source's
			t.Fatal(err)
		}
	}
}

type stormOut struct {
	stdout, stderr string
	code           int
}

// stormRun runs a command, and kills it after a delay that is not 0.
func stormRun(t *testing.T, dir string, kill time.Duration, args ...string) stormOut {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sealift", args...) //nolint:gosec // ours
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0", "LC_ALL=C")
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGQUIT) } // it prints where it hangs
	cmd.WaitDelay = 10 * time.Second
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if kill > 0 {
		time.Sleep(kill)
		if err := cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
			t.Fatal(err)
		}
	}
	err := cmd.Wait()
	if ctx.Err() != nil {
		t.Fatalf("%v does not end:\n%s", args, stderr.String())
	}
	out := stormOut{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
	if failed := (*exec.ExitError)(nil); err != nil && !errors.As(err, &failed) {
		t.Fatal(err)
	}
	return out
}

// strange describes errors in a command's exit code and messages.
func strange(out stormOut) (list []string) {
	refused := out.code == 2 && strings.Count(out.stderr, "\n") == 1 && strings.Contains(out.stderr, "/SHA256SUMS'")
	if !slices.Contains([]int{0, 1, 3, 4}, out.code) && !refused {
		list = append(list, fmt.Sprintf("exit code %d", out.code))
	}
	if out.code != 0 && out.stderr == "" {
		list = append(list, "there is no message")
	}
	for line := range strings.Lines(out.stderr) {
		if strings.HasSuffix(line, " (--log-file lists all)\n") {
			continue // the count of further messages like those before
		}
		if !strings.HasPrefix(line, "sealift: ") || strings.Count(line, "'") < 2 {
			list = append(list, "a message without a path: "+line)
		}
	}
	return list
}

// leaked describes parts of the tree outside that other trees or messages contain.
func leaked(dir string, digests []string, out stormOut) (list []string) {
	search := func(where, text string) {
		for _, secret := range append(digests, treetest.Canary, "canary") {
			if strings.Contains(text, secret) {
				list = append(list, fmt.Sprintf("%s has %s, which is from outside", where, secret))
			}
		}
	}
	search("standard output", out.stdout)
	search("standard error", out.stderr)
	for _, tree := range []string{"dst", "dst2", "sums"} {
		_ = filepath.WalkDir(filepath.Join(dir, tree), func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return nil //nolint:nilerr // it is not there
			}
			search("a path", path)
			if d.Type().IsRegular() {
				content, err := os.ReadFile(path)
				if err != nil {
					list = append(list, err.Error())
				}
				search(path, string(content))
			}
			return nil
		})
	}
	return list
}

// untrue describes the lines of a destination's manifest that differ from its files.
func untrue(t *testing.T, path string) (list []string) {
	root, err := os.OpenRoot(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	sums, err := root.ReadFile("sealift.sha256") // if the source has the other name
	if errors.Is(err, fs.ErrNotExist) {
		sums, err = root.ReadFile("SHA256SUMS")
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(sums)) {
		digest, name := line[:64], strings.TrimSuffix(line[66:], "\n")
		content, err := root.ReadFile(name)
		if sum := sha256.Sum256(content); err != nil || hex.EncodeToString(sum[:]) != digest {
			list = append(list, fmt.Sprintf("the manifest has %q, and there is %x (%v)", line, sum, err))
		}
	}
	return list
}

// digestsOutside returns the digests of the files of a Trap. It does not read them, because
// the Trap would report that as an access.
func digestsOutside() (list []string) {
	for _, size := range []int{30, 90, 100, 200, 300, 400, 500, 1001, 1002, 700_000} {
		sum := sha256.Sum256([]byte(strings.Repeat(treetest.Canary+"\n", size/7+1)[:size]))
		list = append(list, hex.EncodeToString(sum[:]))
	}
	return list
}
