package fsys

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// dirent makes a linux_dirent64 record, padded as the kernel does.
func dirent(ino uint64, kind byte, name string) []byte {
	size := (19 + len(name) + 1 + 7) &^ 7
	b := binary.NativeEndian.AppendUint64(make([]byte, 0, size), ino)
	b = binary.NativeEndian.AppendUint64(b, 1)
	b = binary.NativeEndian.AppendUint16(b, uint16(size))
	return append(append(b, kind), append([]byte(name), make([]byte, size-19-len(name))...)...)
}

// Names of a hostile listing cannot lead out of the directory, nor past the read bytes.
func TestHostileDirents(t *testing.T) {
	good := slices.Concat(dirent(1, unix.DT_DIR, "."), dirent(2, unix.DT_DIR, ".."), dirent(3, unix.DT_REG, "a"))
	short, long, torn := dirent(4, 0, "b"), dirent(4, 0, "b"), dirent(4, 0, "b")
	binary.NativeEndian.PutUint16(short[16:], 0)
	binary.NativeEndian.PutUint16(long[16:], 4096)
	for what, bad := range map[string][]byte{
		"a parent":    dirent(4, unix.DT_REG, "../b"),
		"from a root": dirent(4, unix.DT_REG, "/b"),
		"no name":     dirent(4, unix.DT_REG, ""),
		"no length":   short,
		"too long":    long,
		"torn":        torn[:18],
	} {
		var names []string
		more, err := eachDirent(slices.Concat(good, bad), func(name []byte, ino uint64, kind Kind) bool {
			require.Equal(t, Regular, kind)
			require.Equal(t, uint64(3), ino)
			names = append(names, string(name))
			return true
		})
		require.ErrorIs(t, err, unix.EIO, what)
		require.False(t, more, what)
		require.Equal(t, []string{"a"}, names, what)
	}
}

// FuzzDirents reads anything as a listing: each result is a single name.
func FuzzDirents(f *testing.F) {
	f.Add(slices.Concat(dirent(1, unix.DT_DIR, "."), dirent(3, unix.DT_LNK, "...")), "a\n")
	f.Add(dirent(4, 77, "../b"), strings.Repeat("x", 255))
	f.Fuzz(func(t *testing.T, records []byte, name string) {
		size := 0
		_, err := eachDirent(records, func(name []byte, _ uint64, _ Kind) bool {
			size += 19 + len(name)
			require.NotContains(t, []string{"", ".", ".."}, string(name))
			require.False(t, bytes.ContainsAny(name, "/\x00"), "%q", name)
			return true
		})
		require.LessOrEqual(t, size, len(records))
		if err != nil || len(name) > 255 {
			return
		}
		// A record after them is read, and yield can stop the listing.
		name, _, _ = strings.Cut(name, "\x00")
		last := ""
		_, err = eachDirent(slices.Concat(records, dirent(9, unix.DT_SOCK, name)), func(name []byte, _ uint64, _ Kind) bool {
			last = string(name)
			return true
		})
		switch {
		case badName([]byte(name)):
			require.ErrorIs(t, err, unix.EIO)
		case name != "." && name != "..":
			require.NoError(t, err)
			require.Equal(t, name, last)
		}
	})
}

// A server of 9P can list what is no name of an attribute; the system says of it that
// the buffer is too small, however large that is.
func TestXattrThatIsNone(t *testing.T) {
	d, _ := tempRoot(t)
	p, err := d.Create(true)
	require.NoError(t, err)
	defer p.Abort()
	for _, name := range []string{"", "user." + strings.Repeat("a", 300)} {
		_, err := p.getxattr(name)
		require.ErrorIs(t, err, unix.ERANGE)
	}
}
