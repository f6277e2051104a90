package compare

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/metadata"
	"github.com/seed65876f4f/sealift/internal/quote"
)

// compareMetadata compares the metadata that Options.Metadata selects.
func (w *worker) compareMetadata(j *job, a, s *side) {
	at := Letter(s.tree)
	differs := func(format string, args ...any) { s.meta = append(s.meta, fmt.Sprintf(format, args...)) }
	link := a.info.Kind == fsys.Symlink // the mode of a link has no meaning
	if a.info.Mode != s.info.Mode && !link {
		differs("mode %04o in A, %04o in %s", a.info.Mode, s.info.Mode, at)
	}
	if a.info.UID != s.info.UID || a.info.GID != s.info.GID {
		differs("owner %d:%d in A, %d:%d in %s", a.info.UID, a.info.GID, s.info.UID, s.info.GID, at)
	}
	if !sameTime(a.info, s.info) && !s.differs {
		differs("modified %s", times(a.info.Mtime, s.info.Mtime, at))
	}
	if link {
		return // the system stores no user attributes on links
	}
	var lists [2][]fsys.Xattr
	for i, side := range []*side{a, s} {
		var err error
		if lists[i], err = side.object.Xattrs(metadata.IsCopied); err != nil && !fsys.Unsupported(err) {
			w.failed(j, s, failure.StageMetadata, fmt.Errorf("extended attributes in %s: %w", Letter(side.tree), err))
			return
		}
		slices.SortFunc(lists[i], func(x, y fsys.Xattr) int { return cmp.Compare(x.Name, y.Name) })
	}
	for _, name := range differingXattrs(lists[0], lists[1]) {
		differs("%s", name)
	}
}

// differingXattrs describes the differences of two sorted lists of attributes.
func differingXattrs(a, b []fsys.Xattr) (list []string) {
	kind := func(name string) string {
		if strings.HasPrefix(name, "system.posix_acl_") {
			return "ACL"
		}
		return "attribute " + quote.Name(name)
	}
	for len(a) > 0 || len(b) > 0 {
		switch {
		case len(b) == 0, len(a) > 0 && a[0].Name < b[0].Name:
			list = append(list, kind(a[0].Name)+" in A only")
			a = a[1:]
		case len(a) == 0, b[0].Name < a[0].Name:
			list = append(list, kind(b[0].Name)+" not in A")
			b = b[1:]
		default:
			if !bytes.Equal(a[0].Value, b[0].Value) {
				list = append(list, kind(a[0].Name)+" differs")
			}
			a, b = a[1:], b[1:]
		}
	}
	return list
}

// sameTime compares modification times at the coarser granularity of both file systems.
// Change times show the granularity: they have odd nanoseconds if the file system stores
// these.
func sameTime(a, b fsys.Info) bool {
	return a.Mtime.Within(b.Mtime, max(granularity(a), granularity(b)))
}

// granularity returns the longest distance, in nanoseconds, of two time stamps that the
// file system of an entry may store as one.
func granularity(info fsys.Info) int64 {
	switch {
	case info.Ctime.Nsec%1e7 == 0:
		return 2e9 // the granularity of FAT
	case info.Ctime.Nsec%100 == 0:
		return 100 // the granularity of NTFS
	}
	return 1
}

// times describes two modification times that differ, with as many digits as needed.
func times(a, b fsys.Time, at string) string {
	shown := func(t fsys.Time, format string) string { return time.Unix(t.Sec, t.Nsec).UTC().Format(format) }
	format := time.DateTime
	if a.Sec == b.Sec {
		format += ".000000000"
	}
	return fmt.Sprintf("%s UTC in A, %s in %s", shown(a, format), shown(b, format), at)
}
