package resume

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/seed65876f4f/sealift/internal/fsys"
)

// This file records which manifests a run has renamed while it replaces files that they list. A
// renamed manifest counts only if the journal names it.

// asidePrefix begins the name of a file with one record.
const asidePrefix = "aside-"

// aside is a record.
type aside struct {
	Path []byte `json:"path"` // path of the manifest, relative to the destination
	Name []byte `json:"name"` // present name in the same directory
}

// maxAside is more than the length of any record, in bytes.
const maxAside = 1 << 20

func asideName(file string) string { return asidePrefix + hashOf(file)[:16] }

// RecordAside records that the manifest of a path is going to be renamed to name. If durable is true,
// the record is on the device.
func (j *Journal) RecordAside(file, name string, durable bool) error {
	text, err := json.Marshal(aside{[]byte(file), []byte(name)})
	if err != nil {
		return err
	}
	if err := put(j.dir, asideName(file), text, durable); err != nil || !durable {
		return err
	}
	return errors.Join(j.dir.Sync(), j.root.Sync())
}

// ForgetAside removes the record of a path.
func (j *Journal) ForgetAside(file string) error { return remove(j.dir, asideName(file)) }

// ReadAsides reads the records in the journal of that name at a destination: the present names of
// manifests, by their paths.
func ReadAsides(root *fsys.Dir, journal string) (map[string]string, error) {
	dir, err := openJournalDir(root, journal, func() (uint32, error) {
		uid, _ := fsys.Identity()
		return uid, nil
	})
	if errors.Is(err, fs.ErrNotExist) || fsys.IsSymlinkRefusal(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	var names []string
	err = dir.Each(func(name []byte, _ uint64, _ fsys.Kind) bool {
		if strings.HasPrefix(string(name), asidePrefix) {
			names = append(names, string(name))
		}
		return true
	})
	if err != nil {
		return nil, err
	}
	asides := map[string]string{}
	for _, name := range names {
		record, err := readAside(dir, name)
		if err != nil {
			return nil, err
		}
		if file, now := string(record.Path), string(record.Name); asideName(file) == name && filepath.IsLocal(filepath.FromSlash(file)) &&
			strings.HasPrefix(now, fsys.Reserved) && filepath.Base(now) == now {
			asides[file] = now
		}
	}
	return asides, nil
}

func readAside(dir *fsys.Dir, name string) (a aside, err error) {
	file, info, err := dir.OpenRegular(name)
	if err != nil {
		return a, err
	}
	defer file.Close()
	text, err := io.ReadAll(file.Reader(min(info.Size, maxAside)))
	if err == nil && json.Unmarshal(text, &a) != nil {
		a = aside{} // a damaged record does not count
	}
	return a, err
}
