package fsys

// Volume describes the file system of a directory and the disk below it. A field is empty if
// the system does not report it. Labels and models come from the disk, and may have any
// content.
type Volume struct {
	FileSystem string // its type: "ext4"
	Mount      string // where it is mounted
	Source     string // the device or the share that is mounted
	Label      string
	UUID       string // or the serial number if the file system has no UUID
	Model      string // of the disk
	Serial     string // of the disk

	dev  uint64 // of the directory
	disk string // identifies the disk, if there is one and it is known
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
