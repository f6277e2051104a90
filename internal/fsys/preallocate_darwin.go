package fsys

import "golang.org/x/sys/unix"

// Preallocate reserves room on the device for an empty file that will have size
// bytes, and leaves the size that it has: F_PREALLOCATE of fcntl(2), all of it or
// nothing, in as many pieces as it takes. What stays unused is given back when
// the file is truncated. An error for which Unsupported holds says that the file
// system cannot; a full device is ENOSPC.
func (f *File) Preallocate(size int64) error {
	if err := f.fault(OpPreallocate, ""); err != nil {
		return err
	}
	if size <= 0 {
		return nil
	}
	return retry(func() error {
		return unix.FcntlFstore(uintptr(f.fd), unix.F_PREALLOCATE, &unix.Fstore_t{
			Flags:   unix.F_ALLOCATEALL,
			Posmode: unix.F_PEOFPOSMODE,
			Length:  size,
		})
	})
}
