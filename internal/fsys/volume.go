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
}
