package fsys

// Volume is what the system reports about the file system of a directory, and about the
// disk below it. A field is empty where the system reports nothing. Labels and models
// come from the disk, and may hold anything.
type Volume struct {
	FileSystem string // its type: "ext4"
	Mount      string // where it is mounted
	Source     string // the device or the share that is mounted
	Label      string
	UUID       string // or the serial number, where the file system has nothing longer
	Model      string // of the disk
	Serial     string // of the disk
}
