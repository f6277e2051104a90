package engine

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/seed65876f4f/sealift/internal/dest"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/incomplete"
	"github.com/seed65876f4f/sealift/internal/journal"
	"github.com/seed65876f4f/sealift/internal/manifest"
	"github.com/seed65876f4f/sealift/internal/resume"
	"github.com/seed65876f4f/sealift/internal/treetest"
)

// judge returns the guarantees that do not hold for a destination after a power cut.
func (c *cutCase) judge(dst string, old map[string][]byte) (wrong []string) {
	complain := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	if _, err := os.Stat(dst); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	have, err := regularFiles(dst)
	if err != nil {
		complain("%v", err)
	}
	matches := func(path string, digest []byte) bool {
		sum := sha256.Sum256(have[path])
		return have[path] != nil && string(digest) == string(sum[:])
	}
	for path, content := range have {
		name := filepath.Base(path)
		whole := string(content) == string(c.files[path]) || old[path] != nil && string(content) == string(old[path])
		switch {
		case strings.HasPrefix(path, resume.JournalName("")+"/log."):
			log, err := journal.Read(strings.NewReader(string(content)), int64(len(content)))
			if err != nil {
				continue // what is damaged is not trusted
			}
			for file := range c.files {
				if f, _, ok, err := log.File(file); ok && err == nil && !matches(file, f.Digests[0]) {
					complain("a checkpoint lists %s, which is not on the disk", file)
				}
			}
		case strings.Contains(path, fsys.Reserved):
		case name == "SHA256SUMS":
			lines := manifest.NewReader(strings.NewReader(string(content)), manifest.GNU, hash.SHA256)
			for {
				l, err := lines.Next()
				if err != nil {
					break
				}
				if !matches(l.Path, l.Digest) {
					complain("the manifest is wrong about %s", l.Path)
				}
			}
			if bad, _ := lines.Malformed(); bad > 0 {
				complain("the manifest is torn")
			}
		case incomplete.IsName(path):
			if _, err := incomplete.ReadHead(strings.NewReader(string(content)), int64(len(content))); err != nil {
				complain("the marker is torn: %v", err)
			}
		case whole:
		case c.sync == dest.SyncFile:
			complain("%s is neither the old nor the new one, %d bytes", path, len(content))
		case !lostPart(content, c.files[path]):
			complain("%s holds what never was in it", path)
		}
	}
	return wrong
}

// lostPart reports whether have differs from content only by zeros and a missing end.
func lostPart(have, content []byte) bool {
	if len(have) > len(content) {
		return false
	}
	for i, b := range have {
		if b != 0 && b != content[i] {
			return false
		}
	}
	return true
}

// regularFiles returns the content of the files below root by their paths.
func regularFiles(root string) (map[string][]byte, error) {
	files := map[string][]byte{}
	return files, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		files[filepath.ToSlash(rel)], err = os.ReadFile(path)
		if files[filepath.ToSlash(rel)] == nil {
			files[filepath.ToSlash(rel)] = []byte{}
		}
		return err
	})
}

// gaps returns the differences of destinations below base from a complete copy.
func (c *cutCase) gaps(base string, old map[string][]byte) (wrong []string) {
	for _, name := range []string{"one", "two"} {
		before := old
		if name == "two" {
			before = nil
		}
		for _, w := range c.gapsAt(filepath.Join(base, name), before) {
			wrong = append(wrong, name+": "+w)
		}
	}
	return wrong
}

// gapsAt returns the gaps of one destination, ignored names aside.
func (c *cutCase) gapsAt(dst string, old map[string][]byte, ignored ...string) []string {
	wrong, err := treetest.Diff(c.src, dst, treetest.Options{Ignore: append(ignored, "SHA256SUMS", "kept"), NoHoles: true})
	if err != nil {
		wrong = append(wrong, err.Error())
	}
	have, _ := regularFiles(dst)
	listed := 0
	lines := manifest.NewReader(strings.NewReader(string(have["SHA256SUMS"])), manifest.GNU, hash.SHA256)
	for l, err := lines.Next(); err == nil; l, err = lines.Next() {
		if c.files[l.Path] != nil {
			listed++
		} else if old[l.Path] == nil { // which may have lost its line: Lose has made it anew
			wrong = append(wrong, "the manifest lists "+l.Path)
		}
	}
	if string(have["kept"]) != string(old["kept"]) {
		wrong = append(wrong, "what the source lacks was not kept")
	}
	if listed != len(c.files) {
		wrong = append(wrong, fmt.Sprintf("the manifest lists %d files of %d", listed, len(c.files)))
	}
	return append(wrong, c.judge(dst, old)...)
}

// begun reports whether a copy has changed an entry of the destination. old is its content
// before.
func begun(dst string, old map[string][]byte) bool {
	missing := len(old)
	changed := filepath.WalkDir(dst, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dst {
			return err
		}
		rel, err := filepath.Rel(dst, path)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		switch {
		case strings.HasPrefix(rel, fsys.Reserved) && d.IsDir():
			return fs.SkipDir
		case strings.Contains(rel, fsys.Reserved), rel == "SHA256SUMS" && old != nil, rel == "d" && old != nil:
			return nil
		}
		content, err := os.ReadFile(path)
		if err != nil || old[rel] == nil || string(content) != string(old[rel]) {
			return errors.New("changed")
		}
		missing--
		return nil
	})
	return changed != nil || missing > 0
}

// unmarked reports whether a destination is incomplete and has neither a journal nor a marker.
func (c *cutCase) unmarked(dst string, old map[string][]byte) (bool, error) {
	root, err := fsys.OpenRoot(dst)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer root.Close()
	signs, err := incomplete.Find(root)
	if err != nil || len(signs) > 0 || !begun(dst, old) {
		return false, err
	}
	return len(c.gapsAt(dst, old, resume.JournalName(""))) > 0, nil // without work it is no sign
}
