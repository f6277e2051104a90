package fsys

import (
	"fmt"

	"golang.org/x/sys/windows"
)

// Volume describes the file system of the directory. The UUID is the volume's serial
// number, as dir prints it.
func (d *Dir) Volume() Volume {
	var label, fileSystem [windows.MAX_PATH + 1]uint16
	var serial, longest, flags uint32
	err := windows.GetVolumeInformationByHandle(d.h, &label[0], uint32(len(label)), &serial, &longest, &flags, &fileSystem[0], uint32(len(fileSystem)))
	if err != nil {
		return Volume{dev: d.deviceNumber()}
	}
	return Volume{
		FileSystem: windows.UTF16ToString(fileSystem[:]),
		Label:      windows.UTF16ToString(label[:]),
		UUID:       fmt.Sprintf("%04X-%04X", serial>>16, serial&0xffff),
		dev:        d.deviceNumber(),
	}
}
