package fsys

import (
	"encoding/binary"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/windows"
)

func TestTargetsOfLinks(t *testing.T) {
	for target, form := range map[string]string{
		`sub\f`: `sub\f`, `..\..\x`: `..\..\x`, "a/b": "a/b", `\rooted`: `\rooted`, "漢字😀": "漢字😀", "\xed\xa0\x80": "\xed\xa0\x80",
		`C:\x`: `\??\C:\x`, `\\server\share\x`: `\??\UNC\server\share\x`,
		`\\?\Volume{0b}\x`: `\??\Volume{0b}\x`,
	} {
		data, err := encodeLink(target)
		require.NoError(t, err, target)
		require.Len(t, data, reparseHead+int(binary.LittleEndian.Uint16(data[4:])), target)
		require.Equal(t, form == target, binary.LittleEndian.Uint32(data[16:]) == linkIsRelative, target)
		got, err := decodeLink(data)
		require.NoError(t, err, target)
		require.Equal(t, target, got)

		// Programs show the second name, which is the target as it was given.
		copy(data[8:12], data[12:16])
		binary.LittleEndian.PutUint32(data[16:], linkIsRelative)
		got, err = decodeLink(data)
		require.NoError(t, err, target)
		require.Equal(t, target, got)

		real, _, err := ntTarget(target)
		require.NoError(t, err)
		require.Equal(t, form, real)
	}
	for _, target := range []string{"", "x\x00y", "C:x"} {
		_, err := encodeLink(target)
		require.True(t, InvalidArgument(err), "%q: %v", target, err)
	}
	_, err := encodeLink(strings.Repeat("x", 8<<10))
	require.True(t, NameTooLong(err), "%v", err)
}

// A file system can return anything.
func TestDamagedLinks(t *testing.T) {
	good, err := encodeLink("target")
	require.NoError(t, err)
	damage := func(at int, value byte) []byte {
		b := append([]byte{}, good...)
		b[at] = value
		return b
	}
	for name, data := range map[string][]byte{
		"empty": nil, "short": good[:linkHead-1], "without names": good[:linkHead], "another tag": damage(0, 3),
		"offset beyond the end": damage(9, 0xff), "length beyond the end": damage(11, 0xff), "odd length": damage(10, 11),
	} {
		_, err := decodeLink(data)
		require.True(t, InvalidArgument(err), "%s: %v", name, err)
	}
}

// A link to a directory is one before the directory exists, and also if the target is outside
// the tree.
func TestKindOfALinkIsThatOfTheSource(t *testing.T) {
	d, _ := tempRoot(t)
	err := d.Symlink("missing", "to-file", Info{})
	if err != nil {
		require.Empty(t, names(t, d), "nothing is left of a link that could not be created")
	}
	need(t, "symbolic links", err)
	file, err := d.Lstat("to-file")
	require.NoError(t, err)
	require.Equal(t, Symlink, file.Kind)
	for _, target := range []string{"later", `..\elsewhere`, `C:\Windows`} {
		require.NoError(t, d.Symlink(target, "to-dir", Info{Mode: modeOf(windows.FILE_ATTRIBUTE_DIRECTORY)}))
		dir, err := d.Lstat("to-dir")
		require.NoError(t, err)
		require.Equal(t, Symlink, dir.Kind)
		require.NotEqual(t, file.Mode&0o111, dir.Mode&0o111, target)
		got, err := d.Readlink("to-dir")
		require.NoError(t, err)
		require.Equal(t, target, got)
		require.NoError(t, d.Symlink(got, "again", dir))
		again, err := d.Lstat("again")
		require.NoError(t, err)
		require.Equal(t, dir.Mode, again.Mode)
		require.NoError(t, d.Remove("again"))
		require.NoError(t, d.Remove("to-dir"))
	}
}
