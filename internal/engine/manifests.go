package engine

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
)

// line is what a file's fate means for the manifests.
type line uint8

const (
	lineKeep    line = iota // whatever the previous manifests say
	lineUnknown             // something stands, of which it is not known that it is the source's
	lineChecked             // the file stood already and has these digests
	lineNew                 // the file is new and has these digests; manifests of other kinds lose it
	lineDrop                // no such file stands, or nothing is known of it
)

// record notes a file's line. It is called by the collector only.
func (t *target) record(what line, path string, digests hash.Digests, have fsys.Info) {
	for _, m := range t.manifests {
		var err error
		switch {
		case what == lineUnknown && m.prev != nil && t.ctimeHolds && have.Kind == fsys.Regular && have.Ctime.Compare(m.prevTime) < 0:
			continue // what the previous manifest says of it is still true
		case what == lineKeep || what == lineChecked && m.slot < 0:
			continue
		case what == lineDrop || what == lineUnknown || m.slot < 0:
			err = m.builder.Drop(path)
		default:
			err = m.builder.Put(path, digests[m.slot])
		}
		m.changed = true
		if m.err == nil {
			m.err = err
		}
	}
}

// writeManifests makes the new manifests.
func (t *target) writeManifests(r *run) (written []ManifestSummary, err error) {
	for _, m := range t.manifests {
		if m.slot < 0 && !m.changed && len(t.fallen) == 0 && m.prevDir != nil {
			continue // a manifest of another kind that lost nothing
		}
		if m.err != nil {
			return written, m.err
		}
		outdated := m.prev != nil && m.prevDir != nil && m.prevName == alternativeName(m.algorithm) && m.name != m.prevName
		summary, err := m.write(t, r)
		if err != nil {
			if m.rel == "" { // it is elsewhere
				err = fmt.Errorf("%s: %w", quoteName(m.shown(t)), err)
			}
			return written, err
		}
		if m.slot < 0 || summary.Lines == 0 {
			continue
		}
		written = append(written, summary)
		if outdated {
			// Ours, of the other name, and out of date now.
			if err := m.prevDir.Remove(m.prevName); err != nil {
				return written, err
			}
		}
	}
	return written, nil
}

func (m *manifestFile) write(t *target, r *run) (ManifestSummary, error) {
	dir, err := m.openHome(t, m.rel, true)
	if err != nil {
		return ManifestSummary{}, err
	}
	before, err := dir.Stat()
	if err != nil {
		return ManifestSummary{}, err
	}
	if dir != t.root {
		defer dir.Close()
	}
	p, err := dir.Create(false)
	if err != nil {
		return ManifestSummary{}, err
	}
	defer p.Abort()
	sum := sha256.New()
	w := bufio.NewWriterSize(io.MultiWriter(&fsys.Writer{File: &p.File}, sum), 256<<10)
	lines, err := m.writeLines(t, w)
	if err == nil {
		err = w.Flush()
	}
	if err != nil {
		return ManifestSummary{}, err
	}
	if lines == 0 { // nothing to list, and no program takes an empty list
		if m.prev != nil && m.prevDir != nil && !m.foreign {
			return ManifestSummary{}, m.prevDir.Remove(m.prevName)
		}
		return ManifestSummary{}, nil
	}
	if err := p.Chmod(0o666 &^ fsys.Umask()); ignoreRefusal(err) != nil {
		return ManifestSummary{}, err
	}
	if m.slot < 0 { // its other lines were not checked today
		if err := p.SetTimes(m.prevTime, m.prevTime, m.prevTime); ignoreRefusal(err) != nil {
			return ManifestSummary{}, err
		}
	}
	if r.opts.Sync != SyncNone {
		if err := p.Sync(); err != nil {
			return ManifestSummary{}, err
		}
	}
	// It replaces its predecessor, and its equal: a copy of the source's manifest,
	// made when the source was not yet, or not any more, what that lists.
	replaces := m.prev != nil && m.prevDir != nil && m.prevName == m.name || sameFile(dir, m.name, &p.File)
	if m.prev != nil { // its lines are taken over; Windows replaces no open file on FAT
		m.prev.Close()
		m.prev = nil
	}
	if replaces {
		err = p.CommitReplacing(m.name)
	} else if err = p.Commit(m.name); errors.Is(err, fs.ErrExist) {
		// It was free or out of the way when we began.
		err = fmt.Errorf("its name %s is taken by something else", quoteName(m.shown(t)))
	}
	if err != nil {
		return ManifestSummary{}, err
	}
	if dir != t.root && m.rel != "" && r.opts.Preserve&PreserveTimes != 0 { // a directory of the copy
		if err := dir.SetTimes(before.Atime, before.Mtime, before.Btime); ignoreRefusal(err) != nil {
			return ManifestSummary{}, err
		}
	}
	if r.opts.Sync != SyncNone {
		if err := dir.Sync(); err != nil {
			return ManifestSummary{}, err
		}
	}
	return ManifestSummary{
		Path: m.shown(t), Algorithm: string(m.algorithm), Lines: lines, SHA256: hexString(sum.Sum(nil)),
	}, nil
}

// writeLines writes the manifest's lines. Those that are taken over from the
// previous manifest are marked unless the file is what it was then.
func (m *manifestFile) writeLines(t *target, w io.Writer) (lines int, err error) {
	look := newFinder(t.root)
	defer look.Close()
	skip := func(path string) bool { return m.isItself(path) || t.hasFallen(path) }
	return m.builder.Write(w, skip, func(path string) bool { return m.unchanged(t, look, path) })
}

// isItself keeps a manifest from listing itself.
func (m *manifestFile) isItself(path string) bool { return path == m.rel }

// noteFallen notes a directory of the source whose name falls together with another
// one's at the destination: what an earlier manifest lists below it would be read
// from that one.
func (t *target) noteFallen(dir string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.fallen = append(t.fallen, dir+"/")
}

func (t *target) hasFallen(path string) bool {
	return slices.ContainsFunc(t.fallen, func(dir string) bool { return strings.HasPrefix(path, dir) })
}

// takePrevious merges the lines of the previous manifests.
func (t *target) takePrevious() {
	for _, m := range t.manifests {
		if m.prev == nil || m.err != nil || m.foreign {
			continue
		}
		previous := io.NewSectionReader(fsys.ReaderAt{File: m.prev}, 0, m.prevSize)
		m.err = m.builder.Previous(previous)
	}
}

// equals reports whether the manifest would be byte for byte the file f.
func (m *manifestFile) equals(t *target, f *fsys.File, size int64) (bool, error) {
	c := &comparer{want: bufio.NewReader(io.NewSectionReader(fsys.ReaderAt{File: f}, 0, size))}
	lines, err := m.writeLines(t, c)
	if errors.Is(err, errDiffers) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	_, err = c.want.ReadByte()
	return lines > 0 && errors.Is(err, io.EOF), nil
}

// sameFile reports whether the file name in dir has the content of f.
func sameFile(dir *fsys.Dir, name string, f *fsys.File) bool {
	stands, info, err := dir.OpenRegular(name)
	if err != nil {
		return false
	}
	defer stands.Close()
	own, err := f.Stat()
	if err != nil || own.Size != info.Size {
		return false
	}
	c := &comparer{want: bufio.NewReader(io.NewSectionReader(fsys.ReaderAt{File: stands}, 0, info.Size))}
	_, err = io.Copy(c, io.NewSectionReader(fsys.ReaderAt{File: f}, 0, own.Size))
	return err == nil
}

var errDiffers = errors.New("differs")

// comparer is a writer that fails at the first byte that want does not have.
type comparer struct{ want *bufio.Reader }

func (c *comparer) Write(p []byte) (int, error) {
	have := make([]byte, len(p))
	if _, err := io.ReadFull(c.want, have); err != nil || !bytes.Equal(have, p) {
		return 0, errDiffers
	}
	return len(p), nil
}

func (t *target) closeManifests() {
	for _, m := range t.manifests {
		if m.prev != nil {
			m.prev.Close()
			m.prev = nil
		}
		if m.home != nil {
			m.home.Close()
			m.home = nil
		}
		if m.builder != nil {
			_ = m.builder.Close() // a temporary that is not needed any more
		}
	}
}

func hexString(b []byte) string { return hex.EncodeToString(b) }

func parentOf(dir string) string { return filepath.Dir(filepath.Clean(dir)) }
