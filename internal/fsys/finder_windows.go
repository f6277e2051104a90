package fsys

import "golang.org/x/sys/windows"

// NTFS says of a name that is too long that it is none.
func nameTooLong(err error) bool {
	return is(err, windows.ERROR_FILENAME_EXCED_RANGE, windows.ERROR_INVALID_NAME)
}
