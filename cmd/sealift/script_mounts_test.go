//go:build unix

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	"github.com/rogpeppe/go-internal/testscript"
)

// canMount reports whether mountAt works here. It tries each kind once.
var canMount = map[string]func() bool{
	"tmpfs":     sync.OnceValue(func() bool { return tryMount("tmpfs") }),
	"ext4":      sync.OnceValue(func() bool { return tryMount("ext4") }),
	"xfs":       sync.OnceValue(func() bool { return tryMount("xfs") }),
	"btrfs":     sync.OnceValue(func() bool { return tryMount("btrfs") }),
	"exfat":     sync.OnceValue(func() bool { return tryMount("exfat") }),
	"overlay":   sync.OnceValue(func() bool { return tryMount("overlay") }),
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
// minimum of xfs and btrfs. An overlay is on dir.lower, and its upper layer is dir.layers/upper.
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
	if kind == "overlay" {
		lower, layers := dir+".lower", dir+".layers"
		if err := errors.Join(os.MkdirAll(lower, 0o755), os.Mkdir(layers, 0o755)); err != nil { //nolint:gosec // for the ordinary user
			return nil, err
		}
		// The directory of the script may itself be on an overlay, which can have no upper layer.
		if _, err := run("mount", "-t", "tmpfs", "tmpfs", layers); err != nil {
			return nil, err
		}
		unmount := func() { eject(); _, _ = run("umount", layers) }
		err := errors.Join(os.Mkdir(layers+"/upper", 0o755), os.Mkdir(layers+"/work", 0o755)) //nolint:gosec // as above
		if err == nil {
			_, err = run("mount", "-t", "overlay", "-o", "lowerdir="+lower+",upperdir="+layers+"/upper,workdir="+layers+"/work", "overlay", dir)
		}
		if err != nil {
			unmount()
			return nil, err
		}
		return unmount, nil
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
		// mkfs.btrfs inspects all mounts, and fails if another test detaches the device of one meanwhile.
		if _, err := run("../../scripts/apart", format...); err != nil {
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
