package bag

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/seed65876f4f/sealift/internal/quote"
)

// RefuseHistory returns an error if the directory dir, which need not exist, is in the payload of a
// bag. A new ASC MHL history or media hash list there would make the bag invalid.
func RefuseHistory(dir string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	for parent := filepath.Dir(dir); parent != dir; dir, parent = parent, filepath.Dir(parent) {
		if filepath.Base(dir) != PayloadName {
			continue
		}
		if info, err := os.Lstat(filepath.Join(parent, DeclarationName)); err == nil && info.Mode().IsRegular() {
			return fmt.Errorf("it is in the payload of the bag %s, and a history or media hash list there would make the bag invalid", quote.Name(parent))
		}
	}
	return nil
}
