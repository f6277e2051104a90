// Command slowfs mounts a directory with FUSE so that each operation waits, as for a file server
// on a network. Operations that wait at the same time do not slow each other.
//
//	slowfs DELAY DIRECTORY MOUNTPOINT      for example: slowfs 5ms /dev/shm/tree /mnt
//
// It unmounts when it gets SIGTERM or SIGINT.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "slowfs:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 3 {
		return fmt.Errorf("usage: slowfs DELAY DIRECTORY MOUNTPOINT")
	}
	delay, err := time.ParseDuration(args[0])
	if err != nil {
		return err
	}
	root, err := fs.NewLoopbackRoot(args[1])
	if err != nil {
		return err
	}
	// A client of a network file system trusts what it has read for some seconds.
	timeout := 3 * time.Second
	options := &fs.Options{EntryTimeout: &timeout, AttrTimeout: &timeout, NullPermissions: true}
	options.FsName, options.Name = args[1], "slowfs"
	options.AllowOther, options.Options = os.Getuid() == 0, []string{"default_permissions"}
	server, err := fuse.NewServer(&slow{fs.NewNodeFS(root, options), delay}, args[2], &options.MountOptions)
	if err != nil {
		return err
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	go func() {
		for range signals {
			if err := server.Unmount(); err != nil {
				fmt.Fprintln(os.Stderr, "slowfs:", err)
			}
		}
	}()
	server.Serve()
	return nil
}
