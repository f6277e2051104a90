package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// enter makes the file system of a container in its own mount namespace, changes the user, and
// replaces this process by the program. The arguments are an empty directory, the program on this
// machine and in the container, kind and path of each mount, "--", and the arguments of the program.
func enter(args []string) error {
	root, program, command := args[0], args[1], args[2]
	end := slices.Index(args, "--")
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return err
	}
	if err := syscall.Mount("pod", root, "tmpfs", 0, "mode=755"); err != nil {
		return err
	}
	if err := bind(program, filepath.Join(root, command), false); err != nil {
		return err
	}
	for _, dir := range []string{"/proc", "/dev"} {
		if err := bind(dir, filepath.Join(root, dir), false); err != nil {
			return err
		}
	}
	for i := 3; i < end; i += 2 {
		kind, path := args[i], args[i+1]
		there := filepath.Join(root, path)
		var err error
		if kind == "empty" {
			err = os.MkdirAll(there, 0o755)
			if err == nil {
				err = syscall.Mount("empty", there, "tmpfs", 0, "mode=1777")
			}
		} else {
			err = bind(path, there, kind == "read-only")
		}
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	if err := syscall.Mount("", root, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		return err
	}
	if err := os.Chdir(root); err != nil {
		return err
	}
	if err := syscall.Chroot("."); err != nil {
		return err
	}
	user, err := strconv.Atoi(os.Getenv("PODS_USER"))
	if err != nil {
		return err
	}
	group, err := strconv.Atoi(os.Getenv("PODS_GROUP"))
	if err != nil {
		return err
	}
	for _, change := range []func() error{
		func() error { return syscall.Setgroups(nil) },
		func() error { return syscall.Setgid(group) },
		func() error { return syscall.Setuid(user) },
	} {
		if err := change(); err != nil {
			return err
		}
	}
	env := slices.DeleteFunc(os.Environ(), func(e string) bool { return strings.HasPrefix(e, "PODS_") })
	return syscall.Exec(command, append([]string{command}, args[end+1:]...), env)
}

// bind mounts a file or directory at a path that it makes.
func bind(what, where string, readOnly bool) error {
	info, err := os.Stat(what)
	if err != nil {
		return err
	}
	if info.IsDir() {
		err = os.MkdirAll(where, 0o755)
	} else if err = os.MkdirAll(filepath.Dir(where), 0o755); err == nil {
		err = os.WriteFile(where, nil, 0o755)
	}
	if err != nil {
		return err
	}
	if err := syscall.Mount(what, where, "", syscall.MS_BIND|syscall.MS_REC, ""); err != nil {
		return err
	}
	if readOnly {
		return syscall.Mount("", where, "", syscall.MS_REMOUNT|syscall.MS_BIND|syscall.MS_RDONLY, "")
	}
	return nil
}
