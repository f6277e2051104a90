package fsys

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Volume describes the file system of the directory.
func (d *Dir) Volume() Volume {
	v := Volume{dev: d.deviceNumber()}
	v.Label, v.UUID = d.labelAndUUID()
	mount := d.mount()
	v.FileSystem, v.Mount, v.Source = mount.FileSystem, mount.Dir, mount.Source
	if device := d.blockDevice(); device != "" {
		v.addDevice("/sys/dev/block", "/run/udev/data", device)
	}
	return v
}

// mount returns the mount of the directory; the zero Mount if the system does not report it.
func (d *Dir) mount() Mount {
	var st unix.Statx_t // STATX_MNT_ID is new in Linux 5.8
	if unix.Statx(d.fd, "", unix.AT_EMPTY_PATH, unix.STATX_MNT_ID, &st) != nil || st.Mask&unix.STATX_MNT_ID == 0 {
		return Mount{}
	}
	mounts, _ := ReadMounts()
	return mounts.withID(strconv.FormatUint(st.Mnt_id, 10))
}

// addDevice adds the properties that udev and sysfs have of a block device, named "8:1". In
// containers without udev, only those of the disk are known.
func (v *Volume) addDevice(sysfs, udev, device string) {
	known := udevProperties(filepath.Join(udev, "b"+device))
	disk := diskOf(filepath.Join(sysfs, device))
	v.disk, _ = filepath.EvalSymlinks(disk) // "" if there is no sysfs
	inSysfs := func(name string) string {
		text, _ := os.ReadFile(filepath.Join(disk, name))
		return strings.TrimSpace(string(text))
	}
	inUdev := func(name string) string { return strings.TrimSpace(known[name]) }
	encoded := func(name string) string { return strings.TrimSpace(unescape(known[name], `\x`, 16)) }
	v.Label = cmp.Or(v.Label, encoded("ID_FS_LABEL_ENC"), inUdev("ID_FS_LABEL"))
	v.UUID = cmp.Or(v.UUID, inUdev("ID_FS_UUID"))
	v.Model = cmp.Or(encoded("ID_MODEL_ENC"), inUdev("ID_MODEL"), inSysfs("device/model"))
	v.Serial = cmp.Or(inUdev("ID_SERIAL_SHORT"), inSysfs("device/serial"))
}

// udevProperties reads the properties of a device, such as ID_MODEL, from the database
// of udev.
func udevProperties(file string) map[string]string {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	properties := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if assignment, ok := strings.CutPrefix(line, "E:"); ok {
			name, value, _ := strings.Cut(strings.TrimRight(assignment, "\n"), "=")
			properties[name] = value
		}
	}
	return properties
}

// diskOf returns the directory in sysfs of the disk that has a partition, or on which an
// encrypted or logical volume is, if that is one disk.
func diskOf(dir string) string {
	const deepest = 8 // volumes on top of one another; more would be an endless loop
	for range deepest {
		below, err := os.ReadDir(dir + "/slaves")
		if err != nil || len(below) != 1 {
			break
		}
		dir += "/slaves/" + below[0].Name()
	}
	if _, err := os.Stat(dir + "/partition"); err == nil {
		if real, err := filepath.EvalSymlinks(dir); err == nil { // the parent of the resolved path is the disk
			return filepath.Dir(real)
		}
	}
	return dir
}

// The ioctls that query a file system itself, of linux/fs.h.
const (
	ioctlLabel = 0x81009431 // FS_IOC_GETFSLABEL
	ioctlUUID  = 0x80111500 // FS_IOC_GETFSUUID, new in Linux 6.5
)

// labelAndUUID queries the file system. Most file systems return one of the two.
func (d *Dir) labelAndUUID() (label, uuid string) {
	var name [256]byte
	if ioctl(d.fd, ioctlLabel, unsafe.Pointer(&name)) == nil {
		label = unix.ByteSliceToString(name[:])
	}
	var id struct {
		length uint8
		bytes  [16]byte
	}
	if ioctl(d.fd, ioctlUUID, unsafe.Pointer(&id)) == nil && int(id.length) == len(id.bytes) && id.bytes != [16]byte{} {
		b := id.bytes
		uuid = fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
	}
	return label, uuid
}
