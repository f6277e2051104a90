package fsys

// Volume describes the file system of a directory and the disk below it. A field is empty if
// the system does not report it. Labels and models come from the disk, and may have any
// content.
type Volume struct {
	FileSystem string // type of the file system: "ext4"
	Mount      string // the directory where it is mounted
	Source     string // the device or the share that is mounted
	Label      string
	UUID       string // UUID of the file system, or its serial number if it has no UUID
	Model      string // model of the disk
	Serial     string // serial number of the disk

	dev  uint64 // device number of the directory
	disk string // identity of the disk; "" if it is not known
}

// OnOneDevice reports whether two directories are on the same file system or, if that is
// known, on the same disk.
func (v Volume) OnOneDevice(other Volume) bool {
	return v.dev != 0 && v.dev == other.dev || v.disk != "" && v.disk == other.disk
}

// deviceNumber returns the device of the directory; 0 if it is unknown.
func (d *Dir) deviceNumber() uint64 {
	info, err := d.Stat()
	if err != nil {
		return 0
	}
	return info.ID.Dev
}
