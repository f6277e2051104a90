//go:build unix

package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// A program that reads its manifest from a pipe does not end at the first signal while the pipe is
// open, so only the second signal can end it.
func TestASecondSignalKillsOnlyAfterAWhile(t *testing.T) {
	dir := t.TempDir()
	list := filepath.Join(dir, "list")
	if err := syscall.Mkfifo(list, 0o600); err != nil {
		t.Skip(err)
	}
	cmd := exec.Command("sealift", "verify", "--manifest", list, dir)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	end, err := os.OpenFile(list, os.O_WRONLY, 0) // when both ends are open, the program catches signals
	if err != nil {
		t.Fatal(err)
	}
	defer end.Close()
	for range 2 { // as timeout(1) does
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond)
	}
	select {
	case err := <-ended:
		t.Fatalf("the second signal at once ended it: %v", err)
	case <-time.After(2 * oneRequest):
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	failed, ok := errors.AsType[*exec.ExitError](<-ended)
	if !ok {
		t.Fatal("it ended well")
	}
	if status, ok := failed.Sys().(syscall.WaitStatus); !ok || !status.Signaled() {
		t.Errorf("it ended with %v, want to be killed", failed)
	}
}
