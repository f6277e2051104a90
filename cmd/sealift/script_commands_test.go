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
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/seed65876f4f/sealift/internal/treetest"
)

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
