package fsys

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseMounts(t *testing.T) {
	mounts := parseMounts("36 35 98:0 / / rw - ext4 /dev/root rw\n" +
		"41 36 8:17 /c\\040d /media/A\\040B rw,noatime shared:7 master:1 - exfat /dev/sdb\\0401 rw,fmask=0022\n" +
		"42 36 broken\n")
	require.Equal(t, Mount{"41", "36", "8:17", "/c d", "/media/A B", "exfat", "/dev/sdb 1"}, mounts.withID("41"))
	require.Zero(t, mounts.withID("42"))
}

// A partition has the model and the serial number of its disk, and what lies encrypted on
// one has them, too.
func TestVolumeOfADevice(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	link := func(target, name string) {
		t.Helper()
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700))
		require.NoError(t, os.Symlink(target, filepath.Join(dir, name)))
	}
	write("sys/devices/sdb/device/model", "Extreme Pro    \n")
	write("sys/devices/sdb/device/serial", "S1\n")
	write("sys/devices/sdb/sdb1/partition", "1\n")
	link("../../devices/sdb/sdb1", "sys/dev/block/8:17")
	link("../../../dev/block/8:17", "sys/devices/dm-0/slaves/sdb1")
	link("../../devices/dm-0", "sys/dev/block/253:0")
	write("udev/b8:17", "N:sdb1\nE:ID_FS_LABEL=A_B\nE:ID_FS_LABEL_ENC=A\\x20B\nE:ID_FS_UUID=1234-ABCD\nE:ID_MODEL_ENC=Extreme\\x20Pro\\x20\\x20\nE:ID_SERIAL_SHORT=0042=7\nW:1\n")

	var v Volume
	v.addDevice(dir+"/sys/dev/block", dir+"/udev", "8:17")
	require.Equal(t, Volume{Label: "A B", UUID: "1234-ABCD", Model: "Extreme Pro", Serial: "0042=7", disk: dir + "/sys/devices/sdb"}, v)
	first := v

	v = Volume{Label: "from the file system"}
	v.addDevice(dir+"/sys/dev/block", dir+"/none", "253:0")
	require.Equal(t, Volume{Label: "from the file system", Model: "Extreme Pro", Serial: "S1", disk: dir + "/sys/devices/sdb"}, v)
	require.True(t, v.OnOneDevice(first))

	v = Volume{}
	v.addDevice(dir+"/sys/dev/block", dir+"/udev", "9:9")
	require.Zero(t, v)
	require.False(t, v.OnOneDevice(first))
	require.False(t, v.OnOneDevice(v), "nothing is known")
}

func TestVolumeOfADirectory(t *testing.T) {
	d, err := OpenRoot("/proc")
	require.NoError(t, err)
	defer d.Close()
	v := d.Volume()
	require.Equal(t, "proc", v.FileSystem)
	require.Equal(t, "/proc", v.Mount)
	require.Empty(t, v.Model)
}
