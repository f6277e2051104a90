package route

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/quote"
)

// resolveBag resolves a destination that is going to be a bag. The copy is written into its
// payload directory.
func resolveBag(o *Options, src fs.FileInfo, given string) (Destination, error) {
	d := Destination{Given: given, Shown: filepath.Join(given, o.Payload), FS: o.FS}
	switch info, err := os.Stat(given); {
	case given == "":
		return d, failure.Refuse("a destination has an empty name")
	case err == nil && !info.IsDir():
		return d, failure.Refuse("destination %s is not a directory; a bag is one", quote.Name(given))
	case errors.Is(err, fs.ErrNotExist):
		if _, err := os.Lstat(given); err == nil {
			return d, failure.Refuse("destination %s is a symbolic link to nothing", quote.Name(given))
		}
	case err != nil:
		return d, failure.Refuse("destination %s: %s", quote.Name(given), Reason(err))
	}
	anchor, rest, err := anchorOf(given)
	if err != nil {
		return d, failure.Refuse("destination %s: %s", quote.Name(given), Reason(err))
	}
	if info, err := os.Stat(anchor); err == nil && !info.IsDir() {
		return d, failure.Refuse("destination %s: %s is not a directory", quote.Name(given), quote.Name(anchor))
	}
	d.BagDir, d.Anchor = filepath.Join(anchor, rest), anchor
	d.Dir = filepath.Join(d.BagDir, o.Payload)
	switch info, err := os.Lstat(d.Dir); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return d, failure.Refuse("destination %s: %s", quote.Name(d.Shown), Reason(err))
	case !info.IsDir():
		return d, failure.Refuse("destination %s is not a directory, and the payload of the bag would be in it", quote.Name(d.Shown))
	default:
		d.Exists, d.Anchor = true, d.Dir
		d.id, d.closed = identityOf(o.FS, d.Dir)
	}
	return d, refuseInside(&d, src)
}

// refuseInside refuses a destination that is the source or inside it.
func refuseInside(d *Destination, src fs.FileInfo) error {
	inside, err := isInside(d.Dir, src)
	if err != nil {
		return failure.Refuse("destination %s: %s", quote.Name(d.Given), Reason(err))
	}
	if inside {
		return failure.Refuse("destination %s is the source or inside it", quote.Name(d.Given))
	}
	return nil
}

// top returns the directory that no other copy may write into.
func (d *Destination) top() string {
	if d.BagDir != "" {
		return d.BagDir
	}
	return d.Dir
}
