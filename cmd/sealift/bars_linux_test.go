package main

import (
	"bytes"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/screentest"
	"github.com/seed65876f4f/sealift/internal/treetest"
)

// onTerminal runs a script of sh with a terminal as standard output and error, and returns
// its output.
func onTerminal(t *testing.T, dir, script string) string {
	t.Helper()
	return onTerminalOf(t, dir, "sh", script)
}

// onTerminalOf is onTerminal with another shell.
func onTerminalOf(t *testing.T, dir, shell, script string) string {
	t.Helper()
	ours, theirs := screentest.OpenPair(t, 80, 25)
	defer ours.Close()
	cmd := exec.Command(shell, "-c", script)
	cmd.Dir = dir
	cmd.Stdin, cmd.Stdout, cmd.Stderr = theirs, theirs, theirs
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	require.NoError(t, cmd.Start())
	drawn := make(chan string, 1)
	go func() {
		var all bytes.Buffer
		_, _ = io.Copy(&all, ours) // EIO when the other end is closed
		drawn <- all.String()
	}()
	timer := time.AfterFunc(time.Minute, func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
	defer timer.Stop()
	err := cmd.Wait()
	theirs.Close()
	text := <-drawn
	require.NoError(t, err, "%q", text)
	return text
}

// In a pipeline, only one command draws a bar: not the one that waits for the other.
func TestBarsOfAPipeline(t *testing.T) {
	t.Parallel()
	dir := treetest.MemoryDir(t)
	treetest.Create(t, filepath.Join(dir, "a"), treetest.Dir{
		"f": treetest.File(string(make([]byte, 2_000_000))),
		"g": treetest.File(string(make([]byte, 1_000_000))),
	})
	text := onTerminal(t, dir, "{ sleep 0.5; sealift sum --bwlimit 3MB a; } | sealift verify --exclude g --bwlimit 2MB --manifest - a")
	require.NotContains(t, text, "starting")
	oneAfterTheOther(t, text, "/3.00 MB", "/2.00 MB")
}

// If two commands run at the same time, the second one draws its bar when the first has
// ended.
func TestBarsOfTwoCommandsAtTheSameTime(t *testing.T) {
	t.Parallel()
	dir := treetest.MemoryDir(t)
	treetest.Create(t, filepath.Join(dir, "a"), treetest.Dir{"f": treetest.File(string(make([]byte, 2_000_000)))})
	treetest.Create(t, filepath.Join(dir, "b"), treetest.Dir{"f": treetest.File(string(make([]byte, 3_000_000)))})
	text := onTerminal(t, dir, "sealift sum --bwlimit 2MB a >sums & sleep 0.1; sealift sum --bwlimit 1MB b >sums; wait")
	oneAfterTheOther(t, text, "/2.00 MB", "/3.00 MB")
}

// oneAfterTheOther checks that a terminal showed bars with one text, and then bars with the other.
func oneAfterTheOther(t *testing.T, text, first, second string) {
	t.Helper()
	require.Contains(t, text, first, "%q", text)
	require.Contains(t, text, second, "%q", text)
	require.Less(t, strings.LastIndex(text, first), strings.Index(text, second), "%q", text)
}

// A stream may contain any bytes, so it is never written to a terminal, even on request.
func TestAStreamIsNotWrittenToATerminal(t *testing.T) {
	t.Parallel()
	dir := treetest.MemoryDir(t)
	treetest.Create(t, dir, treetest.Dir{"f": treetest.File("binary")})
	for _, args := range []string{"f", "f -", "f out -", "<f"} {
		text := onTerminal(t, dir, "sealift stream "+args+"; test $? = 2")
		require.Contains(t, text, "sealift: standard output is a terminal, and stream does not write data to it; name an output, or use a pipe", args)
		require.NotContains(t, text, "binary", args)
	}
	require.NoFileExists(t, filepath.Join(dir, "out"))
	require.Contains(t, onTerminal(t, dir, "sealift stream -q f | cat"), "binary")
}

// A job in the background draws nothing and erases nothing; it prints its messages. In the foreground, it
// draws its bar.
func TestNothingIsDrawnInTheBackground(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("job control takes bash")
	}
	dir := treetest.MemoryDir(t)
	treetest.Create(t, filepath.Join(dir, "a"), treetest.Dir{"f": treetest.File(string(make([]byte, 6_000_000)))})
	text := onTerminalOf(t, dir, "bash", "set -m; sealift copy --bwlimit 2MB a b & sleep 1.5; echo FOREGROUND; fg >/dev/null; "+
		"sealift copy --bwlimit 2MB a c & sleep 1; echo 'PROMPT> '; wait; echo END")
	before, rest, _ := strings.Cut(text, "FOREGROUND")
	drawn, rest, _ := strings.Cut(rest, "PROMPT> ")
	after, _, ended := strings.Cut(rest, "END")
	require.True(t, ended, "%q", text)
	for _, quiet := range []string{before, after} {
		require.NotContains(t, quiet, "\x1b[?7l", "a bar in %q", text)
		require.NotContains(t, quiet, "\x1b[J", "something erased in %q", text)
		require.NotContains(t, quiet, " is on ", "the header in %q", text)
	}
	require.Contains(t, drawn, "\x1b[?7l", "no bar in %q", text)
	require.Contains(t, drawn, "6.00 MB", "%q", text)
	require.Contains(t, after, "complete: 1 file at 'c'", "%q", text)
}

// Ctrl-Z removes the live view before the program stops, so that the shell does not print
// into it. In the foreground again, the program draws the view below.
func TestCtrlZRemovesTheView(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("job control takes bash")
	}
	dir := treetest.MemoryDir(t)
	treetest.Create(t, filepath.Join(dir, "a"), treetest.Dir{"f": treetest.File(string(make([]byte, 8_000_000)))})
	term := screentest.OpenTerminal(t, 80, 24)
	cmd := exec.Command("bash", "-c", "set -m; sealift copy --bwlimit 2MB a b; echo SHELL; sleep 1; fg >/dev/null; echo END")
	cmd.Dir = dir
	cmd.Stdin, cmd.Stdout, cmd.Stderr = term.Program, term.Program, term.Program
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	require.NoError(t, cmd.Start())
	defer time.AfterFunc(time.Minute, func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }).Stop()
	shows := func(text string) string {
		require.Eventually(t, func() bool { return strings.Contains(strings.Join(term.Lines(), "\n"), text) }, 30*time.Second, 10*time.Millisecond, text)
		return strings.Join(term.Lines(), "\n")
	}
	shows("MB/8.00 MB")
	require.NoError(t, term.Type("\x1a"))
	stopped := shows("SHELL")
	require.Contains(t, stopped, "Stopped")
	require.NotContains(t, stopped, "%", "the bar")
	end := shows("END")
	require.NoError(t, cmd.Wait(), "%q", term.Raw())
	require.NotContains(t, end, "copying")
	require.Contains(t, end, "complete: 1 file at 'b'")
}
