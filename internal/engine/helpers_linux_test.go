package engine

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/fsys/faultfs"
)

func init() {
	unix.Umask(0o022) // the tests expect the modes that this umask gives
}

// setAttribute does nothing on file systems without user attributes.
func setAttribute(t require.TestingT, path, name, value string) {
	if err := unix.Setxattr(path, name, []byte(value), 0); err != nil {
		require.True(t, errors.Is(err, unix.ENOTSUP) || errors.Is(err, unix.EPERM), "%v", err)
	}
}

// asOrdinaryUser runs f without privileges. dir becomes the user's.
func asOrdinaryUser(t *testing.T, dir string, f func()) {
	t.Helper()
	if os.Geteuid() != 0 {
		f()
		return
	}
	const nobody = 65534
	require.NoError(t, os.Chown(dir, nobody, nobody))
	require.NoError(t, syscall.Setresgid(-1, nobody, -1))
	require.NoError(t, syscall.Setresuid(-1, nobody, -1)) // of all threads
	defer func() {
		require.NoError(t, syscall.Setresuid(-1, 0, -1))
		require.NoError(t, syscall.Setresgid(-1, 0, -1))
	}()
	f()
}

// cloneDisk mounts a fresh file system of the kind that can clone, or skips the
// test with the reason.
func cloneDisk(t *testing.T, kind string) (path string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("mounting needs root")
	}
	image, path := filepath.Join(t.TempDir(), "image"), filepath.Join(t.TempDir(), "mounted")
	require.NoError(t, os.WriteFile(image, nil, 0o600))
	require.NoError(t, os.Truncate(image, 300<<20))
	require.NoError(t, os.Mkdir(path, 0o755))
	for _, args := range [][]string{{"../../scripts/apart", "mkfs." + kind, "-q", image}, {"mount", "-o", "loop", image, path}} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Skipf("%v: %v %s", args, err, out)
		}
	}
	t.Cleanup(func() {
		out, err := exec.Command("umount", path).CombinedOutput()
		require.NoError(t, err, "%s", out)
	})
	return path
}

// injector is the fault hook: it counts, and fails one operation.
type injector struct {
	mu     sync.Mutex
	counts map[fsys.Op]int
	fail   operation
	err    error // nil: only count
	hit    bool
	name   string // what the operation that failed was about
	stack  string
}

func (i *injector) fault(op fsys.Op, name string) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.counts == nil {
		i.counts = map[fsys.Op]int{}
	}
	nth := i.counts[op]
	i.counts[op]++
	if i.err == nil || i.hit || i.fail != (operation{op, nth}) {
		return nil
	}
	i.hit, i.name, i.stack = true, name, string(debug.Stack())
	return i.err
}

func (i *injector) fs() *fsys.FS { return faultfs.New(i.fault) }

// excuse returns the function of mayBeSilent that is in this stack, "" if there is none.
func excuse(stack string) string {
	for function := range mayBeSilent {
		if strings.Contains(stack, function+"(") {
			return function
		}
	}
	return ""
}

// mayBeSilent lists the functions in which a failure need not be reported, because the run has a
// fallback for the failed operation. The result must then be complete.
var mayBeSilent = map[string]string{
	"engine.(*run).Enter":               "checks whether a source directory is a destination; route has refused those that it can recognize",
	"source.(*Entry).mayHaveXattrs":     "asks whether there are extended attributes; without an answer the file is opened",
	"engine.(*run).hasMetadata":         "asks for extended attributes by name; without an answer the file is opened",
	"catalog.(*manifests).Kept":         "asks the previous manifest; without an answer the file is compared",
	"catalog.(*Tree).Kept":              "the same",
	"catalog.(*manifests).BeforeChange": "asks the previous manifest; without an answer it is moved aside",
	"dest.(*Space).Measure":             "reads the free space, for a warning; without an answer there is none",
	"pipe.findsHoles":                   "checks whether the file system reports holes; the reading itself checks again",
	"resume.(*Log).Close":               "closes the journal's log, whose records that count were synced",
}

// seldomSilent are the functions of mayBeSilent that not every sweep excuses: some read only if
// no other look-up has read the same part of the manifest before.
var seldomSilent = map[string]bool{"catalog.(*manifests).BeforeChange": true, "dest.(*Space).Measure": true}

// linksAndAttributes returns the number of names and the user attributes of a file.
func linksAndAttributes(path string, info fs.FileInfo) (links uint64, attributes string) {
	for _, name := range []string{"user.sealift", "user.surplus"} {
		var value [64]byte
		if size, err := unix.Lgetxattr(path, name, value[:]); err == nil {
			attributes += name + "=" + string(value[:size]) + " "
		}
	}
	return uint64(info.Sys().(*syscall.Stat_t).Nlink), attributes
}
