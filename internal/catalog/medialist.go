package catalog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/manifest"
	"github.com/seed65876f4f/sealift/internal/mhl/classic"
	"github.com/seed65876f4f/sealift/internal/mhl/safexml"
	"github.com/seed65876f4f/sealift/internal/quote"
	"github.com/seed65876f4f/sealift/internal/record"
)

// MediaList is a media hash list of version 1 that a run adds to the root of a tree.
// Existing lists are ordinary files, and the run replaces none of them.
type MediaList struct {
	Dir     string          // the absolute path of the tree; the list is named after it
	Creator classic.Creator // without the time of the end
	Hashes  []hash.Algorithm
	Durable bool // the list is synced
}

// Write writes the list of the files in a builder. The list gets its name in the root when
// it is complete.
func (l *MediaList) Write(root *fsys.Dir, from *manifest.Builder) (record.Written, error) {
	w := record.Written{Path: l.name(), Algorithm: string(l.Hashes[0])}
	name, err := freeName(root, w.Path)
	if err != nil {
		return w, err
	}
	w.Path = name
	format := manifest.ClassicMHL{Creator: l.Creator}
	format.Creator.Finished = time.Now()
	r := replacement{home: root, name: name, durable: l.Durable, compose: func(to io.Writer) (manifest.Counts, error) {
		return from.Write(to, manifest.Document{Format: format, Hashes: l.Hashes})
	}}
	n, digest, err := r.write()
	w.Count(n, digest)
	if err == nil && l.Durable {
		err = root.Sync()
	}
	return w, err
}

// name returns the name of the list, before freeName adds a number.
func (l *MediaList) name() string { return classic.FileName(l.base(), l.Creator.Begun) }

// base returns the name of the directory, with "_" for characters that no list can hold,
// because a later list has to list this one.
func (l *MediaList) base() string {
	base := filepath.Base(l.Dir)
	if strings.ContainsRune(base, filepath.Separator) { // the root of a file system
		return "root"
	}
	return strings.Map(func(c rune) rune {
		if c == utf8.RuneError || !safexml.CanHold(string(c)) {
			return '_'
		}
		return c
	}, base)
}

// freeName returns the name, with a number if the name exists in the directory.
func freeName(root *fsys.Dir, wanted string) (string, error) {
	name, stem := wanted, strings.TrimSuffix(wanted, classic.Extension)
	for n := 2; ; n++ {
		_, err := root.Lstat(name)
		if errors.Is(err, fs.ErrNotExist) {
			return name, nil
		}
		if err != nil {
			return wanted, err
		}
		name = fmt.Sprintf("%s_%d%s", stem, n, classic.Extension)
	}
}

// isWritten reports whether the last list of this name in the root has the same content as
// a new list of the files in a builder. The builder has digests of the hashes.
func (l *MediaList) isWritten(root *fsys.Dir, from *manifest.Builder, hashes []hash.Algorithm) (bool, error) {
	last := ""
	err := root.Each(func(name []byte, _ uint64, _ fsys.Kind) bool {
		s := string(name)
		if strings.HasPrefix(s, l.base()+"_") && strings.HasSuffix(s, classic.Extension) {
			last = max(last, s)
		}
		return true
	})
	if err != nil || last == "" {
		return false, err
	}
	f, info, err := root.OpenRegular(last)
	if err != nil {
		return false, nil //nolint:nilerr // a new list is written
	}
	defer f.Close()
	listed := classic.NewReader(f.Reader(info.Size))
	slots := make([]int, len(l.Hashes))
	for i, a := range l.Hashes {
		slots[i] = slices.Index(hashes, a)
	}
	err = from.Each(func(e manifest.Entry) error {
		was, err := listed.Next()
		if err != nil || was.Path != e.Path || was.Size != e.Size || len(was.Digests) != len(slots) {
			return errDiffers
		}
		for i, slot := range slots {
			if was.Digests[i].Algorithm != l.Hashes[i] || !bytes.Equal(was.Digests[i].Digest, e.Digests[slot]) {
				return errDiffers
			}
		}
		return nil
	})
	if err == nil {
		_, end := listed.Next()
		return errors.Is(end, io.EOF), nil
	}
	if errors.Is(err, errDiffers) {
		err = nil
	}
	return false, err
}

// MediaLists is the record.Recorder of media hash lists. Each destination gets one if no entry of the
// source is missing, and if it would not equal the last one.
type MediaLists struct {
	record.NoRecorder
	Creator classic.Creator // without the times
	Hashes  []hash.Algorithm
}

// Refuse implements record.Recorder. It refuses names of files that no list can hold.
func (m *MediaLists) Refuse(r *record.Run) error {
	if err := refuseLists(r); err != nil {
		return err
	}
	m.Creator.Begun = time.Unix(r.Begun.Sec, r.Begun.Nsec)
	var names MediaListNames
	complete, err := r.Scan(func(path string, kind fsys.Kind) bool {
		if kind == fsys.Regular {
			names.Add(path)
		}
		return true
	})
	if err != nil {
		return failure.Refuse("source %s: %s", quoteName(r.Source), err)
	}
	if !complete { // a run that was stopped copies nothing
		return nil
	}
	return names.Refusal()
}

// Open implements record.Recorder.
func (m *MediaLists) Open(d *record.Destination) (record.Book, error) {
	return &mediaListBook{dest: d, list: MediaList{Dir: d.Dir, Creator: m.Creator, Hashes: m.Hashes, Durable: d.Durable}}, nil
}

type mediaListBook struct {
	record.NoBook
	dest *record.Destination
	list MediaList
}

// Finish implements record.Book.
func (b *mediaListBook) Finish(end record.End) ([]record.Written, error) {
	if !end.Complete {
		return nil, nil
	}
	d := b.dest
	if same, err := b.list.isWritten(d.Root, d.Files.Builder, d.Hashes); same || err != nil {
		return nil, err
	}
	w, err := b.list.Write(d.Root, d.Files.Builder)
	if w.Path = filepath.Join(d.Shown, w.Path); err != nil {
		return nil, fmt.Errorf("%s: %w", quoteName(w.Path), err)
	}
	if w.Lines == 0 {
		return nil, nil
	}
	return []record.Written{w}, nil
}

// MediaListNames collects the names of files that a media hash list cannot hold. Several
// goroutines use it.
type MediaListNames struct{ unfit quote.Unfit }

// Add adds the path of a file if no list can hold it.
func (v *MediaListNames) Add(path string) {
	if !safexml.CanHold(path) {
		v.unfit.Add(path, "")
	}
}

// Refusal returns an error with the names, or nil if there are none.
func (v *MediaListNames) Refusal() error {
	names := v.unfit.String()
	if names == "" {
		return nil
	}
	return failure.Refuse("a media hash list cannot hold these names, because they are not UTF-8 or have control characters: %s; rename the files, leave them out with --exclude, or write lines (--manifest)", names)
}
