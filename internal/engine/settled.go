package engine

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/seed65876f4f/sealift/internal/catalog"
	"github.com/seed65876f4f/sealift/internal/fsys"
)

// settledName is the file in the journal in which a run that completes notes which logs
// of unfinished copies stay, and which manifests it has written. What those manifests
// list was judged by that run: for as long as neither logs nor manifests have changed,
// the unfinished copies make nothing of it suspect.
const settledName = "settled"

// maxSettled is the size of the longest note, in bytes: some thousand logs.
const maxSettled = 1 << 20

// settledNote is the content of the note: a line for each log and each manifest.
func (l *ledger) settledNote(manifests []string) (string, error) {
	listing, err := l.target.journal.dir.List()
	if err != nil {
		return "", err
	}
	var lines []string
	for i := range listing.Len() {
		if name := listing.Name(i); isLog(name) && name != l.name {
			info, err := l.target.journal.dir.Lstat(name)
			if err != nil {
				return "", err
			}
			lines = append(lines, fmt.Sprintf("%d %s\n", info.Size, name))
		}
	}
	slices.Sort(lines)
	for _, digest := range manifests {
		lines = append(lines, digest+"\n")
	}
	return strings.Join(lines, ""), nil
}

// noteSettled writes the note when the manifests are written and logs stay.
func (l *ledger) noteSettled(written []catalog.Written) error {
	if len(l.foreign) == 0 || len(written) != len(l.hashes) || len(written) == 0 {
		return nil
	}
	digests := make([]string, len(written))
	for i, w := range written {
		digests[i] = w.SHA256
	}
	note, err := l.settledNote(digests)
	if err != nil {
		return err
	}
	p, err := l.target.journal.dir.Create(false)
	if err != nil {
		return err
	}
	defer p.Abort()
	if err := p.WriteAt([]byte(note), 0); err != nil {
		return err
	}
	if l.forces {
		if err := p.Sync(); err != nil {
			return err
		}
	}
	return p.CommitReplacing(settledName)
}

// readSettled finds out whether the note is about the logs and the manifests that are
// there now. A log of this source says that it is not: that copy was interrupted later.
func (l *ledger) readSettled() error {
	f, info, err := l.target.journal.dir.OpenRegular(settledName)
	var other *fsys.KindError
	if errors.Is(err, fs.ErrNotExist) || errors.As(err, &other) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if l.known != nil || info.Size > maxSettled {
		return nil
	}
	note, err := io.ReadAll(io.NewSectionReader(fsys.ReaderAt{File: f}, 0, info.Size))
	if err != nil {
		return err
	}
	var digests []string
	err = l.target.catalog.EachPrevious(func(manifest io.Reader) error {
		sum := sha256.New()
		_, err := io.Copy(sum, manifest)
		digests = append(digests, hex.EncodeToString(sum.Sum(nil)))
		return err
	})
	if err != nil {
		return err
	}
	now, err := l.settledNote(digests)
	l.settled = err == nil && now == string(note)
	return err
}
