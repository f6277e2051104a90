package fsys

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
)

const tempSuffix = ".tmp"

var (
	errNotOurTemp = errors.New("it is not the temporary that was left")
	errNoTemp     = errors.New("the file has no temporary name to be kept under")
)

// TempName returns a new name for a temporary: ".sealift-<16 hex>.tmp". Files are always
// created exclusively, so if another process guesses the name, the creation fails.
func TempName() string {
	return fmt.Sprintf("%s%016x%s", Reserved, rand.Uint64(), tempSuffix)
}

// SetTempID adds the id of a run to the names of temporaries of d's complete tree, that is,
// of every Dir opened from the same root. A later run recognizes them by the id. It has 16
// hexadecimal digits in lower case; "" removes it. Existing temporaries keep their names.
func (d *Dir) SetTempID(id string) { d.caps.tempID.Store(&id) }

// TempName returns a new name for a temporary in d's tree. With an id (see SetTempID) it is
// ".sealift-<id>-<8 or more hex>.tmp", otherwise a name of the function TempName.
func (d *Dir) TempName() string {
	id := d.caps.tempID.Load()
	if id == nil || *id == "" {
		return TempName()
	}
	return fmt.Sprintf("%s%s-%08x%s", Reserved, *id, rand.Uint32(), tempSuffix)
}

// The number of hexadecimal digits of an id, and the smallest number of those of the rest of a
// name.
const (
	tempIDLength    = 16
	tempFreshLength = 8
)

// doublePrefix begins the names of AppleDouble files of macOS. While a temporary gets its final
// name, its own name can begin with it: see Dir.moving.
const doublePrefix = "._"

// MayBeTemp reports whether a name can be that of a temporary. TempID is more exact, and needs
// a string.
func MayBeTemp(name []byte) bool {
	return bytes.HasPrefix(bytes.TrimPrefix(name, []byte(doublePrefix)), []byte(Reserved))
}

// TempID returns the id in the name of a temporary that Dir.TempName has made with one. ok is false
// for any other name.
func TempID(name string) (id string, ok bool) {
	rest, prefixed := strings.CutPrefix(strings.TrimPrefix(name, doublePrefix), Reserved)
	rest, suffixed := strings.CutSuffix(rest, tempSuffix)
	id, fresh, parted := strings.Cut(rest, "-")
	if !prefixed || !suffixed || !parted || len(id) != tempIDLength || len(fresh) < tempFreshLength ||
		!isHex(id) || !isHex(fresh) {
		return "", false
	}
	return id, true
}

// isHex reports whether s has only the digits of %x.
func isHex(s string) bool { return strings.Trim(s, "0123456789abcdef") == "" }
