package catalog

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"strings"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/manifest"
)

// composer writes the content of a manifest.
type composer func(io.Writer) (manifest.Counts, error)

// equals reports whether compose writes byte for byte the content of the file f. Then it
// returns the SHA-256 of it in hexadecimal, otherwise "". If the file cannot be read, it
// returns an error, because that must not cause a manifest to be replaced.
func equals(f *fsys.File, size int64, compose composer) (n manifest.Counts, digest string, err error) {
	want := bufio.NewReader(f.Reader(size))
	sum := sha256.New()
	n, err = compose(io.MultiWriter(&comparer{want: want}, sum))
	if err == nil {
		if _, err = want.ReadByte(); errors.Is(err, io.EOF) {
			return n, hex.EncodeToString(sum.Sum(nil)), nil
		}
	}
	if errors.Is(err, errDiffers) {
		err = nil
	}
	return n, "", err
}

// sameContent reports whether two files of these sizes have equal content.
func sameContent(a, b *fsys.File, sizeA, sizeB int64) (bool, error) {
	if sizeA != sizeB {
		return false, nil
	}
	_, digest, err := equals(a, sizeA, func(w io.Writer) (manifest.Counts, error) {
		_, err := io.Copy(w, b.Reader(sizeB))
		return manifest.Counts{}, err
	})
	return digest != "", err
}

// sameFile reports whether the regular files of one name in two directories have equal content.
func sameFile(a, b *fsys.Dir, name string) (bool, error) {
	f, info, err := a.OpenRegular(name)
	if err != nil {
		return false, err
	}
	defer f.Close()
	g, other, err := b.OpenRegular(name)
	if err != nil {
		return false, err
	}
	defer g.Close()
	return sameContent(f, g, info.Size, other.Size)
}

// replacement is a manifest, or another file of a bag, that gets its name when it is complete.
type replacement struct {
	home     *fsys.Dir
	name     string
	replaces *existing // the file that has the name; nil if there is none
	like     *existing // supplies owner, attributes and mode; nil for the defaults
	durable  bool      // the file is synced
	empty    bool      // the file is also written without lines
	compose  composer
}

// write writes the manifest, and returns its SHA-256 in hexadecimal. Unless empty is
// true, it writes no manifest without lines, because no program accepts one. The error is
// errCreated if another process has created a file of this name.
func (r replacement) write() (n manifest.Counts, digest string, err error) {
	p, err := r.home.Create(false)
	if err != nil {
		return n, "", err
	}
	defer p.Abort()
	sum := sha256.New()
	if n, err = r.compose(io.MultiWriter(&fsys.Writer{File: &p.File}, sum)); err != nil || n.Lines == 0 && !r.empty {
		return n, "", err
	}
	if err := r.takeAttributes(p); err != nil {
		return n, "", err
	}
	if r.durable {
		if err := p.Sync(); err != nil {
			return n, "", err
		}
	}
	if r.replaces == nil {
		if err = p.Commit(r.name); errors.Is(err, fs.ErrExist) {
			err = errCreated
		}
	} else if err = stillSame(r.home, r.name, r.replaces); err == nil {
		r.replaces.close() // its lines are copied; on FAT, Windows cannot replace an open file
		err = p.CommitReplacing(r.name)
	}
	return n, hex.EncodeToString(sum.Sum(nil)), err
}

var errCreated = errors.New("another process has created it meanwhile")

// takeAttributes gives a new manifest the owner, the attributes and the mode of the
// replaced one, unless another user may have planted that.
func (r replacement) takeAttributes(p *fsys.Pending) error {
	prev := r.like
	if prev != nil {
		home, err := r.home.Stat()
		if err != nil {
			return err
		}
		ours, err := p.Stat()
		if err != nil {
			return err
		}
		if prev.info.PlantedIn(home, ours.UID) {
			prev = nil
		}
	}
	if prev == nil {
		return fsys.IgnoreRefusal(p.Chmod(0o666 &^ fsys.Umask()))
	}
	if err := fsys.IgnoreRefusal(p.Chown(prev.info.UID, prev.info.GID)); err != nil {
		return err
	}
	if err := fsys.IgnoreRefusal(p.RemoveXattr(inheritedACL)); err != nil {
		return err
	}
	list, err := prev.file.Xattrs(keepsXattr)
	if fsys.IgnoreRefusal(err) != nil {
		return err
	}
	for _, x := range list {
		if err := fsys.IgnoreRefusal(p.SetXattr(x.Name, x.Value)); err != nil {
			return err
		}
	}
	return fsys.IgnoreRefusal(p.Chmod(prev.info.Mode & 0o777))
}

// inheritedACL is the ACL that a new file gets if its directory has a default ACL.
const inheritedACL = "system.posix_acl_access"

// keepsXattr excludes attributes that belong to one inode or its content.
func keepsXattr(name string) bool {
	return name != "security.ima" && name != "security.evm" &&
		!strings.HasPrefix(name, "trusted.overlay.") && !strings.HasPrefix(name, "lustre.")
}

// stillSame returns an error if the file to be replaced is not the manifest that existed
// when the run began.
func stillSame(home *fsys.Dir, name string, prev *existing) error {
	now, err := home.Lstat(name)
	if err == nil && !prev.isSame(now) {
		err = errMeddled
	}
	return err
}

var errMeddled = errors.New("another process has changed the manifest meanwhile")

func (o *existing) isSame(now fsys.Info) bool {
	return now.ID == o.info.ID && now.Size == o.info.Size && now.Mtime == o.info.Mtime
}

// isInPlace reports whether the manifest still has its name. It does not if another process has
// removed or changed it.
func (o *existing) isInPlace() (bool, error) {
	err := stillSame(o.home, o.name, o)
	if errors.Is(err, errMeddled) || errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

var errDiffers = errors.New("differs")

// comparer is a writer that compares with want. It fails with errDiffers at the first byte
// that differs, and with the error of want if want cannot be read.
type comparer struct {
	want *bufio.Reader
	buf  []byte // for what was read of want
}

func (c *comparer) Write(p []byte) (int, error) {
	if cap(c.buf) < len(p) {
		c.buf = make([]byte, len(p))
	}
	read := c.buf[:len(p)]
	switch _, err := io.ReadFull(c.want, read); {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return 0, errDiffers
	case err != nil:
		return 0, err
	case !bytes.Equal(read, p):
		return 0, errDiffers
	}
	return len(p), nil
}

// removeSame removes a manifest that no other process has changed.
func removeSame(home *fsys.Dir, name string, prev *existing) error {
	if err := stillSame(home, name, prev); err != nil {
		return err
	}
	prev.close()
	return home.Remove(name)
}

// digestOf reads a file.
func digestOf(finder *fsys.Finder, file string, a hash.Algorithm) ([]byte, error) {
	dir, name, err := finder.Parent(file)
	if err != nil {
		return nil, err
	}
	f, info, err := dir.OpenRegular(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return digestOfOpen(f, info.Size, a)
}

// digestOfOpen reads an open file of size bytes.
func digestOfOpen(f *fsys.File, size int64, a hash.Algorithm) ([]byte, error) {
	set := hash.NewSet([]hash.Algorithm{a})
	n, err := io.CopyBuffer(set, f.Reader(size), make([]byte, 128<<10))
	if err == nil && n != size {
		err = io.ErrUnexpectedEOF
	}
	return set.Digests()[0], err
}
