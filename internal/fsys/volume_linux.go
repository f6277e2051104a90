package fsys

import (
	"encoding/hex"
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
	var v Volume
	v.Label, v.UUID = d.labelAndUUID()
	var st unix.Stat_t
	if err := retry(func() error { return d.fstat(&st) }); err != nil {
		return v
	}
	var mounted unix.Statx_t
	if unix.Statx(d.fd, "", unix.AT_EMPTY_PATH, unix.STATX_MNT_ID, &mounted) == nil && mounted.Mask&unix.STATX_MNT_ID != 0 {
		if mounts, err := os.ReadFile("/proc/self/mountinfo"); err == nil {
			v.FileSystem, v.Mount, v.Source = mountOf(string(mounts), mounted.Mnt_id)
		}
	}
	device, ok := st.Dev, true
	if unix.Major(device) == 0 { // btrfs, and file systems without a device
		device, ok = d.mountedDevice()
	}
	if ok {
		v.addDevice("/sys/dev/block", "/run/udev/data", fmt.Sprintf("%d:%d", unix.Major(device), unix.Minor(device)))
	}
	return v
}

// mountOf returns the type, the directory and the source of a mount from /proc/self/mountinfo.
func mountOf(mounts string, id uint64) (fileSystem, dir, source string) {
	for line := range strings.Lines(mounts) {
		before, after, _ := strings.Cut(strings.TrimSpace(line), " - ")
		front, back := strings.Split(before, " "), strings.Split(after, " ")
		if front[0] == strconv.FormatUint(id, 10) && len(front) > 4 && len(back) > 1 {
			return back[0], unescapeOctal(front[4]), unescapeOctal(back[1])
		}
	}
	return "", "", ""
}

// unescapeOctal replaces "\040" and the like, by which the kernel escapes spaces.
func unescapeOctal(s string) string {
	var sb strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				sb.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		sb.WriteByte(s[i])
	}
	return sb.String()
}

// addDevice adds the properties that udev and sysfs have of a block device, named "8:1". In
// containers without udev, only those of the disk are known.
func (v *Volume) addDevice(sysfs, udev, device string) {
	known := udevProperties(filepath.Join(udev, "b"+device))
	disk := diskOf(filepath.Join(sysfs, device))
	inSysfs := func(name string) string {
		text, _ := os.ReadFile(filepath.Join(disk, name))
		return strings.TrimSpace(string(text))
	}
	first := func(field *string, candidates ...string) {
		for _, c := range candidates {
			if *field == "" {
				*field = strings.TrimSpace(c)
			}
		}
	}
	first(&v.Label, unescapeHex(known["ID_FS_LABEL_ENC"]), known["ID_FS_LABEL"])
	first(&v.UUID, known["ID_FS_UUID"])
	first(&v.Model, unescapeHex(known["ID_MODEL_ENC"]), known["ID_MODEL"], inSysfs("device/model"))
	first(&v.Serial, known["ID_SERIAL_SHORT"], inSysfs("device/serial"))
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

// unescapeHex replaces "\x20" and the like, by which udev escapes spaces.
func unescapeHex(s string) string {
	var sb strings.Builder
	for i := 0; i < len(s); i++ {
		if strings.HasPrefix(s[i:], `\x`) && i+3 < len(s) {
			if b, err := hex.DecodeString(s[i+2 : i+4]); err == nil {
				sb.Write(b)
				i += 3
				continue
			}
		}
		sb.WriteByte(s[i])
	}
	return sb.String()
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
		if real, err := filepath.EvalSymlinks(dir); err == nil { // so that ".." is the disk
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
	if d.ioctl(ioctlLabel, unsafe.Pointer(&name)) == nil {
		label = unix.ByteSliceToString(name[:])
	}
	var id struct {
		length uint8
		bytes  [16]byte
	}
	if d.ioctl(ioctlUUID, unsafe.Pointer(&id)) == nil && int(id.length) == len(id.bytes) && id.bytes != [16]byte{} {
		b := id.bytes
		uuid = fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
	}
	return label, uuid
}

func (d *Dir) ioctl(request uintptr, result unsafe.Pointer) error {
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(d.fd), request, uintptr(result)); errno != 0 {
		return errno
	}
	return nil
}
