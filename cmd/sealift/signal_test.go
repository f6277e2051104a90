//go:build unix

package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// A program that writes to a full pipe does not end at the first signal, so only the second signal
// can end it.
func TestASecondSignalKillsOnlyAfterAWhile(t *testing.T) {
	dir := t.TempDir()
	for i := range 2000 { // their lines are longer than a pipe is
		if err := os.WriteFile(filepath.Join(dir, strconv.Itoa(i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	cmd := exec.Command("sealift", "sum", dir)
	cmd.Stdout = writer
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	writer.Close()
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	if _, err := reader.Read(make([]byte, 1)); err != nil { // when there is output, the program catches signals
		t.Fatal(err)
	}
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
