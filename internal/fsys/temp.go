package fsys

import (
	"errors"
	"fmt"
	"hash/fnv"
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

// SharedTempName returns the name of the temporary that all processes use for a purpose. It has the
// form of the function TempName.
func SharedTempName(purpose string) string {
	sum := fnv.New64a()
	sum.Write([]byte(purpose))
	return fmt.Sprintf("%s%016x%s", Reserved, sum.Sum64(), tempSuffix)
}

// SetTempID adds the id of a run to the names of temporaries of d's complete tree, that is,
// of every Dir opened from the same root. A later run recognizes them by the id. It has 16
// hexadecimal digits in lower case; "" removes it. Existing temporaries keep their names.
func (d *Dir) SetTempID(id string) { d.caps.tempID.Store(&id) }

// TempName returns a new name for a temporary in d's tree. With an id (see SetTempID) it is
// ".sealift-<id>-<8 or more hex>.tmp", otherwise a name of the function TempName. Where macOS keeps
// AppleDouble files, the name begins with doublePrefix.
func (d *Dir) TempName() string {
	name := TempName()
	if id := d.caps.tempID.Load(); id != nil && *id != "" {
		name = fmt.Sprintf("%s%s-%08x%s", Reserved, *id, rand.Uint32(), tempSuffix)
	}
	if d.keepsDoubles() {
		return doublePrefix + name
	}
	return name
}

// The number of hexadecimal digits of an id, and the smallest number of those of the rest of a
// name.
const (
	tempIDLength    = 16
	tempFreshLength = 8
)

// doublePrefix begins the names of AppleDouble files of macOS.
const doublePrefix = "._"

// IsTemp reports whether a name has exactly the form of the names that Sealift gives to temporaries.
func IsTemp[T string | []byte](name T) bool {
	if len(name) < len(doublePrefix+Reserved) || string(name[:len(Reserved)]) != Reserved && string(name[:len(doublePrefix)]) != doublePrefix {
		return false
	}
	_, _, ok := parseTemp(string(name))
	return ok
}

// IsJournal reports whether a name is that of the journal of a tree or of a single file, in any case.
func IsJournal(name string) bool {
	const prefix, suffix = Reserved, "journal"
	if len(name) < len(prefix+suffix) || !strings.EqualFold(name[:len(prefix)], prefix) {
		return false
	}
	rest := name[len(prefix):]
	at := len(rest) - len(suffix)
	return strings.EqualFold(rest[at:], suffix) && (at == 0 || at > 1 && rest[at-1] == '.')
}

// TempID returns the id in the name of a temporary that Dir.TempName has made with one. ok is false
// for any other name.
func TempID(name string) (id string, ok bool) {
	id, fresh, ok := parseTemp(name)
	if fresh == "" {
		return "", false
	}
	return id, ok
}

// parseTemp splits the name of a temporary into its two numbers. fresh is "" if there is only one.
func parseTemp(name string) (id, fresh string, ok bool) {
	rest, prefixed := strings.CutPrefix(strings.TrimPrefix(name, doublePrefix), Reserved)
	rest, suffixed := strings.CutSuffix(rest, tempSuffix)
	id, fresh, parted := strings.Cut(rest, "-")
	if !prefixed || !suffixed || len(id) != tempIDLength || parted && len(fresh) < tempFreshLength || !isHex(id) || !isHex(fresh) {
		return "", "", false
	}
	return id, fresh, true
}

// isHex reports whether s has only the digits of %x.
func isHex(s string) bool { return strings.Trim(s, "0123456789abcdef") == "" }
