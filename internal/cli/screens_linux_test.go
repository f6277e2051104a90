package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rivo/uniseg"
	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/compare"
	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/engine"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/fsys/faultfs"
	"github.com/seed65876f4f/sealift/internal/screentest"
	"github.com/seed65876f4f/sealift/internal/treetest"
	"github.com/seed65876f4f/sealift/internal/verify"
)

// Screens of the main moments are compared with the files in testdata/screens;
// UPDATE_GOLDEN=1 writes them. A run is held at a chosen operation, so that the numbers of
// its progress do not depend on time. Rates and times are replaced, and
// screen_numbers_linux_test.go compares them with a clock.

// session is a command that runs in this process, on a terminal.
type session struct {
	*screentest.Terminal

	t     *testing.T
	ended chan int
	stop  context.CancelCauseFunc
}

// enter makes the files for a session in a new directory, and changes to it.
func enter(t *testing.T, tree treetest.Dir) {
	t.Helper()
	dir := treetest.MemoryDir(t)
	treetest.Create(t, filepath.Join(dir, "world"), tree)
	t.Chdir(filepath.Join(dir, "world"))
	t.Setenv("LC_ALL", "C.UTF-8")
	t.Setenv("TERM", "xterm-256color")
	t.Setenv("NO_COLOR", "")
}

// begin starts a command line on a new terminal of the given size. The command opens all files
// through sys.
func begin(t *testing.T, columns, rows int, sys *fsys.FS, line string) *session {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	s := &session{Terminal: screentest.OpenTerminal(t, columns, rows), t: t, ended: make(chan int, 1), stop: cancel}
	root := rootOn(sys)
	go func() {
		s.ended <- execute(ctx, root, strings.Fields(line), strings.NewReader(""), s.Program, s.Program)
	}()
	return s
}

// rootOn returns the root command of a program that opens all files through sys.
func rootOn(sys *fsys.FS) *cobra.Command {
	return rootThat(runs{
		copy: func(ctx context.Context, o *engine.Options, c *counters.Set) (*engine.Summary, error) {
			o.FS = sys
			return engine.Run(ctx, o, c)
		},
		verify: func(ctx context.Context, o *verify.Options, c *counters.Set) (*verify.Summary, error) {
			o.FS = sys
			return verify.Run(ctx, o, c)
		},
		compare: func(ctx context.Context, o *compare.Options, c *counters.Set) (*compare.Summary, error) {
			o.FS = sys
			return compare.Run(ctx, o, c)
		},
	})
}

// patience is the timeout. Only loaded machines need it.
const patience = 30 * time.Second

// await waits until the screen matches an expression.
func (s *session) await(expression string) string {
	s.t.Helper()
	re := regexp.MustCompile(expression)
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if text := strings.Join(s.Lines(), "\n"); re.MatchString(text) {
			return text
		}
	}
	s.t.Fatalf("%s does not appear:\n%s", expression, strings.Join(s.Lines(), "\n"))
	return ""
}

// end waits until the command has ended, and checks its exit code.
func (s *session) end(code int) {
	s.t.Helper()
	select {
	case got := <-s.ended:
		s.Flush(s.t)
		require.Equal(s.t, code, got, "%s", strings.Join(s.Lines(), "\n"))
	case <-time.After(time.Minute):
		s.t.Fatalf("it does not end:\n%s", strings.Join(s.Lines(), "\n"))
	}
}

// golden compares the screen with testdata/screens.
func (s *session) golden(name string) {
	s.t.Helper()
	compareScreen(s.t, name, strings.Join(s.Lines(), "\n")+"\n")
}

// goldenWithoutTimeLeft is golden for a phase that may be held before it has a rate.
func (s *session) goldenWithoutTimeLeft(name string) {
	s.t.Helper()
	text := strings.Join(s.Lines(), "\n") + "\n"
	compareScreen(s.t, name, regexp.MustCompile(` *ETA [0-9:]+`).ReplaceAllString(text, ""))
}

// rates are in columns. Their replacements have the same length, so that a moved column is a
// difference.
var (
	rates  = regexp.MustCompile(`  +[0-9.]+ [kMG]?B/s|avg +[0-9.]+ [kMG]?B/s`)
	others = []struct {
		varying *regexp.Regexp
		instead string
	}{
		{regexp.MustCompile(`ETA [0-9:]+`), "ETA #"},
		{regexp.MustCompile(`[0-9.]+ [kMG]?B free`), "# free"},
		{regexp.MustCompile(`in [0-9.:]+ m?s(, [0-9.]+ [kMG]?B/s)?`), "in #"},
		{regexp.MustCompile(`, [0-9.]+ [kMG]?B/s`), ", #"},
		{regexp.MustCompile(`(?m)^limited by .*\n`), ""}, // a short run has none
	}
)

func compareScreen(t *testing.T, name, got string) {
	t.Helper()
	got = rates.ReplaceAllStringFunc(got, func(text string) string {
		if rest, ok := strings.CutPrefix(text, "avg"); ok {
			return fmt.Sprintf("avg%*s", len(rest), "# B/s")
		}
		return fmt.Sprintf("%*s", len(text), "# B/s")
	})
	for _, x := range others {
		got = x.varying.ReplaceAllString(got, x.instead)
	}
	path := filepath.Join(screensDir, name+".txt")
	if os.Getenv("UPDATE_GOLDEN") != "" {
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), got, name)
}

// screensDir is absolute, because sessions change the current directory.
var screensDir = func() string {
	dir, err := filepath.Abs("../../testdata/screens")
	if err != nil {
		panic(err)
	}
	return dir
}()

// gate holds the operations that a test chooses until it is opened.
type gate struct {
	once   sync.Once
	opened chan struct{}
}

func newGate() *gate { return &gate{opened: make(chan struct{})} }

func (g *gate) open() { g.once.Do(func() { close(g.opened) }) }

// card is a source with a large file and some small ones.
func card() treetest.Dir {
	return treetest.Dir{"card": treetest.Dir{
		"A001_0001.mov": treetest.File(string(treetest.Pattern(6_000_000, 1))),
		"audio":         treetest.Dir{"日本語 take e\u0301 0001.wav": treetest.File(string(treetest.Pattern(3_000_000, 2)))},
		"notes.txt":     treetest.File("Reel 1\n"),
	}}
}

// holds returns an injector that stops operations of one kind on the file whose path ends in the
// given text, from the n-th operation on, until the gate is opened.
func (g *gate) holds(op fsys.Op, path string, n int64) faultfs.Injector {
	return onPath(op, path, faultfs.From(n, func(fsys.Call) error {
		<-g.opened
		return nil
	}))
}

// onPath calls then for operations of one kind on files whose paths contain the given text.
func onPath(op fsys.Op, path string, then faultfs.Injector) faultfs.Injector {
	return faultfs.OnOp(faultfs.When(func(c fsys.Call) bool { return strings.Contains(filepath.Clean(c.Path), path) }, then), op)
}

// A copy to two disks is held in the middle of the large file. Everything else is done:
// 23 blocks of 128 KiB, 3,000,000 and 7 bytes, which are 2 of 3 files.
func TestScreensOfACopy(t *testing.T) {
	for _, c := range []struct {
		name          string
		columns, rows int
		set           string
	}{
		{"copy-80", 80, 24, ""},
		{"copy-200", 200, 50, ""},
		{"copy-40", 40, 24, ""},
		{"copy-3-rows", 80, 3, ""},
		{"copy-ascii", 80, 24, "LC_ALL=C"},
		{"copy-no-color", 80, 24, "NO_COLOR=1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			enter(t, card())
			if name, value, ok := strings.Cut(c.set, "="); ok {
				t.Setenv(name, value)
			}
			g := newGate()
			defer g.open()
			sys := &fsys.FS{Fault: g.holds(fsys.OpRead, "card/A001_0001.mov", 23)}
			s := begin(t, c.columns, c.rows, sys, "copy --workers 2 card disk1 -o disk2")
			s.await(` 66%(.|\n)* [0-9.]+ .?B/s`)
			if c.rows > 3 && c.columns > 40 {
				s.await(`6.01 MB/9.00 MB +2/3 files(.|\n)*A001_0001.mov`)
			}
			s.golden(c.name)
			s.notWider()
			require.Equal(t, c.name != "copy-no-color", strings.Contains(s.Raw(), styleBar), "colours")
			g.open()
			s.end(0)
			if c.name == "copy-80" {
				s.golden("copy-end")
			}
		})
	}
}

// On a terminal, the volumes of the destinations are known before the bar appears.
func TestTheScreenNamesTheVolumes(t *testing.T) {
	enter(t, card())
	onVolumes(t, volumes{"disk1": {fsys.Volume{Label: "RAID A", FileSystem: "exfat", Source: "/dev/sdb1"}, 1_200_000_000_000}})
	g := newGate()
	defer g.open()
	s := begin(t, 80, 24, &fsys.FS{Fault: g.holds(fsys.OpRead, "card/A001_0001.mov", 23)}, "copy --workers 2 card disk1 -o disk2")
	s.await(`^'disk1' is on 'RAID A', exfat, /dev/sdb1, [0-9.]+ TB free\n(.|\n)*copying`)
	g.open()
	s.end(0)
}

// notWider checks that the last column of the terminal is empty, also with wide characters.
func (s *session) notWider() {
	s.t.Helper()
	columns, _ := s.Size()
	for _, line := range s.Lines() {
		require.Less(s.t, uniseg.StringWidth(line), columns, "%q", line)
	}
}

// The terminal is resized while a copy runs: no old line stays, and no line is broken.
func TestTheScreenOfACopyAfterResizing(t *testing.T) {
	enter(t, card())
	g := newGate()
	defer g.open()
	sys := &fsys.FS{Fault: g.holds(fsys.OpRead, "card/A001_0001.mov", 23)}
	s := begin(t, 200, 24, sys, "copy --workers 2 card disk1 -o disk2")
	s.await(`6.01 MB/9.00 MB +2/3 files`)
	for _, size := range []struct {
		columns, rows int
		name          string
	}{{80, 24, "copy-80"}, {40, 24, "copy-40"}, {80, 3, "copy-3-rows"}, {200, 50, "copy-200"}} {
		before := len(s.Raw())
		require.NoError(t, s.Resize(size.columns, size.rows))
		s.await(`copying`)
		require.Eventually(t, func() bool { return strings.Count(s.Raw()[before:], wrapOn) >= 3 }, 10*time.Second, 20*time.Millisecond)
		s.Flush(t)
		s.golden(size.name)
	}
	g.open()
	s.end(0)
}

// Reading back is held at the second disk, where 23 blocks of the large file were read. It
// has a separate total: three files of two disks.
func TestScreensOfReadingBack(t *testing.T) {
	enter(t, card())
	g := newGate()
	defer g.open()
	sys := &fsys.FS{Fault: g.holds(fsys.OpRead, "disk2/A001_0001.mov", 23)}
	s := begin(t, 80, 24, sys, "copy --verify --workers 2 card disk1 -o disk2")
	s.await(`verifying(.|\n)*A001_0001.mov`)
	s.await(`15.0 MB/18.0 MB +5/6 files`)
	s.goldenWithoutTimeLeft("copy-verify")
	g.open()
	s.end(0)
	s.golden("copy-verify-end")
}

// The second disk is full during the copy. The copy to the first one goes on. At that time, the
// disk has a directory, but no complete file.
func TestScreensOfAFullDisk(t *testing.T) {
	enter(t, card())
	g, half, small := newGate(), newGate(), newGate()
	defer g.open()
	defer half.open()
	defer small.open()
	large := func(c fsys.Call) bool {
		return !strings.Contains(c.Path, "journal") && !strings.Contains(c.Path, "audio")
	}
	sys := &fsys.FS{Fault: faultfs.All(
		onPath(fsys.OpWrite, "disk2", faultfs.When(large, faultfs.From(20, func(fsys.Call) error {
			<-half.opened
			return syscall.ENOSPC
		}))),
		g.holds(fsys.OpRead, "card/audio", 10),
		small.holds(fsys.OpRead, "card/notes.txt", 0),
	)}
	s := begin(t, 80, 24, sys, "copy --workers 3 card disk1 -o disk2")
	s.await(`/9.00 MB `) // the size of the source is known after a second
	half.open()
	s.await(`'disk2' +dropped: `)
	small.open()
	s.await(`'disk2' +dropped: (.|\n)*wav'$`)
	s.await(`7.31 MB/9.00 MB +2/3 files`)
	s.golden("full-disk")
	g.open()
	s.end(1)
	s.golden("full-disk-end")
}

// The second disk is pulled out: every operation on it fails. With one worker, it is always the same
// file that is reported.
func TestScreensOfAPulledDisk(t *testing.T) {
	enter(t, card())
	g := newGate()
	defer g.open()
	var isPulled atomic.Bool
	sys := &fsys.FS{Fault: faultfs.All(
		func(c fsys.Call) error {
			if strings.Contains(c.Path, "disk2") && isPulled.Load() {
				return syscall.EIO
			}
			return nil
		},
		onPath(fsys.OpRead, "card/A001_0001.mov", faultfs.OnIndex(40, func(fsys.Call) error {
			isPulled.Store(true)
			return nil
		})),
		g.holds(fsys.OpRead, "card/audio", 10),
	)}
	s := begin(t, 80, 24, sys, "copy --workers 1 card disk1 -o disk2")
	s.await(`'disk2' +dropped: (.|\n)*wav'$`)
	s.await(`7.31 MB/9.00 MB +1/3 files`)
	s.golden("pulled-disk")
	g.open()
	s.end(1)
	s.golden("pulled-disk-end")
}

// A copy is stopped in the middle of the large file, and the same command resumes it.
func TestScreensOfAResumedCopy(t *testing.T) {
	enter(t, treetest.Dir{"card": treetest.Dir{
		"A001_0001.mov": treetest.File(string(treetest.Pattern(40_000_000, 1))),
		"notes.txt":     treetest.File("Reel 1\n"),
	}})
	g := newGate()
	defer g.open()
	sys := &fsys.FS{Fault: g.holds(fsys.OpRead, "card/A001_0001.mov", 200)}
	s := begin(t, 80, 24, sys, "copy --workers 2 card disk")
	s.await(`26.2 MB/40.0 MB +1/2 files`)
	s.stop(Interrupt{Signal: syscall.SIGINT})
	g.open()
	s.end(130)
	s.golden("interrupted")

	again := newGate()
	defer again.open()
	// It reads the part that the first run has copied at the destination, and goes on there.
	sys = &fsys.FS{Fault: again.holds(fsys.OpRead, "card/A001_0001.mov", 50)}
	s = begin(t, 80, 24, sys, "copy --workers 2 card disk")
	s.await(`32.9 MB/40.0 MB +1/2 files`)
	s.golden("resumed")
	again.open()
	s.end(0)
	s.golden("resumed-end")
}

// A BLAKE3 digest cannot go on in the middle of a file, so the part that is copied is read again. The
// screen says so, and the bar counts it.
func TestTheScreenOfAResumedCopyThatChecksWhatIsKept(t *testing.T) {
	enter(t, treetest.Dir{"card": treetest.Dir{"A001_0001.mov": treetest.File(string(treetest.Pattern(40_000_000, 1)))}})
	g := newGate()
	defer g.open()
	sys := &fsys.FS{Fault: g.holds(fsys.OpRead, "card/A001_0001.mov", 200)}
	s := begin(t, 80, 24, sys, "copy --workers 2 --hash blake3 card disk -o disk2")
	s.await(`26.2 MB/40.0 MB`)
	s.stop(Interrupt{Signal: syscall.SIGINT})
	g.open()
	s.end(130)

	again := newGate()
	defer again.open()
	sys = &fsys.FS{Fault: again.holds(fsys.OpRead, "card/A001_0001.mov", 50)}
	s = begin(t, 80, 24, sys, "copy --workers 2 --hash blake3 card disk -o disk2")
	s.await(`6.55 MB/40.0 MB(.|\n)*checking (.|\n)*A001`)
	s.goldenWithoutTimeLeft("resumed-checking")
	again.open()
	s.end(0)
}

// One file has another content than its manifest lists, one is missing.
func TestScreensOfVerify(t *testing.T) {
	enter(t, card())
	copyCard(t)
	rot(t, "disk1/A001_0001.mov")
	require.NoError(t, os.Remove("disk1/notes.txt"))
	g := newGate()
	defer g.open()
	s := begin(t, 80, 24, &fsys.FS{Fault: g.holds(fsys.OpRead, "disk1/A001_0001.mov", 23)}, "verify --workers 2 disk1")
	s.await(`6.01 MB/9.00 MB +2/3 files(.|\n)*A001`)
	s.goldenWithoutTimeLeft("verify")
	g.open()
	s.end(3)
	s.golden("verify-damage")
}

// One file differs, one is only in each tree.
func TestScreensOfCompare(t *testing.T) {
	enter(t, card())
	copyCard(t)
	rot(t, "disk1/A001_0001.mov")
	require.NoError(t, os.Rename("disk1/notes.txt", "disk1/notes (1).txt"))
	g := newGate()
	defer g.open()
	s := begin(t, 80, 24, &fsys.FS{Fault: g.holds(fsys.OpRead, "card/A001_0001.mov", 23)}, "compare --workers 2 --cache keep card disk1")
	s.await(`6.01 MB/9.00 MB +2/3 files(.|\n)*A001_0001.mov`)
	s.golden("compare")
	g.open()
	s.end(3)
	s.golden("compare-differences")
}

// There is no bar on a terminal that cannot redraw, and none in a pipe.
func TestNoBarWhereNothingCanBeRedrawn(t *testing.T) {
	enter(t, card())
	t.Setenv("TERM", "dumb")
	s := begin(t, 80, 24, nil, "copy --bwlimit 10MB card disk1")
	s.end(0)
	require.NotContains(t, s.Raw()[:strings.Index(s.Raw(), "flushed")-4], "\x1b")
	require.NotContains(t, s.Raw(), "copying")

	var stderr bytes.Buffer
	execute(t.Context(), rootOn(nil), []string{"copy", "--bwlimit", "10MB", "card", "disk2"}, strings.NewReader(""), &stderr, &stderr)
	require.NotContains(t, stderr.String(), "\x1b")
	require.NotContains(t, stderr.String(), "copying")
}

// copyCard copies card to disk1.
func copyCard(t *testing.T) {
	t.Helper()
	s := begin(t, 80, 24, nil, "copy --progress none card disk1")
	s.end(0)
}

// rot changes the last byte of a file, which keeps its times.
func rot(t *testing.T, path string) {
	t.Helper()
	info, err := os.Stat(path)
	require.NoError(t, err)
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteAt([]byte{0}, info.Size()-1)
	require.NoError(t, errors.Join(err, f.Close(), os.Chtimes(path, info.ModTime(), info.ModTime())))
}
