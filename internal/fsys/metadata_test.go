package fsys

import (
	"bytes"
	"errors"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestXattrRoundTrip(t *testing.T) {
	d, path := tempRoot(t)
	put(t, filepath.Join(path, "f"), "x")
	f, _, err := d.Open("f")
	require.NoError(t, err)
	defer f.Close()
	o, err := d.OpenObject("f")
	require.NoError(t, err)
	defer o.Close()
	all := func(string) bool { return true }

	values := map[string][]byte{
		"user.empty": {},
		"user.nul":   []byte("a\x00b\xff"),
		"user.long":  bytes.Repeat([]byte("v"), 3000), // more than one buffer
	}
	for name, value := range values {
		need(t, "extended attributes", f.SetXattr(name, value))
	}
	for _, object := range []*Object{&f.Object, o} {
		got := map[string][]byte{}
		list, err := object.Xattrs(func(n string) bool { return strings.HasPrefix(n, "user.") })
		require.NoError(t, err)
		for _, x := range list {
			got[x.Name] = x.Value
		}
		require.Len(t, got, len(values))
		for name, value := range values {
			require.Equal(t, string(value), string(got[name]), name)
		}
	}
	list, err := f.Xattrs(func(n string) bool { return n == "user.nul" })
	require.NoError(t, err)
	require.Len(t, list, 1)

	require.NoError(t, o.SetXattr("user.nul", []byte("new")))
	require.NoError(t, o.RemoveXattr("user.long"))
	require.NoError(t, f.RemoveXattr("user.empty"))
	require.NoError(t, f.RemoveXattr("user.empty"), "none is no error")
	list, err = f.Xattrs(func(n string) bool { return all(n) && strings.HasPrefix(n, "user.") })
	require.NoError(t, err)
	require.Equal(t, []Xattr{{Name: "user.nul", Value: []byte("new")}}, list)
}

// Many names make the list of them outgrow its buffer.
func TestManyXattrs(t *testing.T) {
	d, _ := tempRoot(t)
	p, err := d.Create(true)
	require.NoError(t, err)
	defer p.Abort()
	count := 0
	for c := 'a'; c <= 'j'; c++ {
		err := p.SetXattr("user."+strings.Repeat(string(c), 100), []byte("1"))
		if count > 5 && XattrTooBig(err) {
			break
		}
		need(t, "extended attributes", err)
		count++
	}
	list, err := p.Xattrs(func(n string) bool { return strings.HasPrefix(n, "user.") })
	require.NoError(t, err)
	require.Len(t, list, count)
}

func TestTimesOfEveryKind(t *testing.T) {
	d, path := tempRoot(t)
	put(t, filepath.Join(path, "file"), "x")
	require.NoError(t, d.Mkdir("dir"))
	list := []string{"file", "dir"}
	for name, kind := range map[string]Kind{"fifo": Fifo, "socket": Socket} {
		if err := d.Mknod(name, Info{Kind: kind}); err == nil {
			list = append(list, name)
		} else {
			require.True(t, Unsupported(err), "%s: %v", name, err)
			t.Logf("no %s: %v", name, err)
		}
	}
	atime, mtime := Time{Sec: 1_500_000_000, Nsec: 1_234_500}, Time{Sec: 1_600_000_000, Nsec: 987_654_300}
	for _, name := range list {
		o, err := d.OpenObject(name)
		require.NoError(t, err, name)
		require.NoError(t, o.SetTimes(atime, mtime, Time{}), name)
		require.NoError(t, o.Chmod(0o640), name)
		info, err := o.Stat()
		require.NoError(t, err)
		o.Close()
		byName, err := d.Lstat(name)
		require.NoError(t, err)
		require.Equal(t, info.ID, byName.ID, name)
		require.Equal(t, mtime, byName.Mtime, name)
		require.Equal(t, atime, byName.Atime, name)
		if runtime.GOOS != "windows" {
			require.EqualValues(t, 0o640, byName.Mode, name)
		}
	}
	sub, err := d.OpenDir("dir")
	require.NoError(t, err)
	defer sub.Close()
	require.NoError(t, sub.SetTimes(mtime, atime, Time{}), "through the directory's own descriptor")
	info, err := sub.Stat()
	require.NoError(t, err)
	require.Equal(t, atime, info.Mtime)
}

// File systems differ in what they hold: ext4 from 1901 to 2446, XFS to 2486,
// NTFS from 1601, FAT from 1980. Times in the range must be returned unchanged.
func TestTimesFarAway(t *testing.T) {
	d, _ := tempRoot(t)
	p, err := d.Create(false)
	require.NoError(t, err)
	defer p.Abort()
	held := 0
	for _, mtime := range []Time{
		{Sec: -1, Nsec: 999_999_900}, // just before 1970
		{Sec: -1_000_000_000, Nsec: 100},
		{Sec: 1<<31 + 5, Nsec: 700},       // after 2038
		{Sec: 9_300_000_000, Nsec: 100},   // after April 2262, where int64 nanoseconds end
		{Sec: 13_000_000_000, Nsec: 4200}, // 2381
	} {
		require.NoError(t, p.SetTimes(mtime, mtime, Time{}))
		info, err := p.Stat()
		require.NoError(t, err)
		if info.Mtime.Sec != mtime.Sec {
			require.False(t, runtime.GOOS == "windows", "%v became %v", mtime, info.Mtime)
			t.Logf("this file system cannot hold %v: %v", mtime, info.Mtime)
			continue
		}
		held++
		require.Equal(t, mtime, info.Mtime)
		require.Equal(t, mtime.Sec, info.Atime.Sec)
	}
	require.NotZero(t, held)
	for _, extreme := range []Time{{Sec: -1 << 63}, {Sec: 1<<63 - 1}} { // cut, not wrapped, where not refused
		if err := p.SetTimes(extreme, extreme, Time{}); err == nil {
			info, err := p.Stat()
			require.NoError(t, err)
			require.Equal(t, extreme.Sec < 0, info.Mtime.Sec < 0, "%v became %v", extreme, info.Mtime)
		}
	}
}

func TestChown(t *testing.T) {
	d, _ := tempRoot(t)
	p, err := d.Create(true)
	require.NoError(t, err)
	defer p.Abort()
	uid, gid := Identity()
	need(t, "owners", p.Chown(uid, gid))
	if !Privileged() {
		require.True(t, NotPermitted(p.Chown(uid+1, gid)))
		return
	}
	require.NoError(t, p.Chown(1234, 4321))
	info, err := p.Stat()
	require.NoError(t, err)
	require.EqualValues(t, 1234, info.UID)
	require.EqualValues(t, 4321, info.GID)
}

func TestErrorClasses(t *testing.T) {
	require.False(t, Unsupported(nil) || NotPermitted(nil) || DestinationLost(nil) || LinkRefused(nil) || IsSymlinkRefusal(nil))
	other := errors.New("other")
	require.False(t, Unsupported(other) || NotPermitted(other) || DestinationLost(other))
	require.Positive(t, OpenLimit())
	require.LessOrEqual(t, Umask(), uint32(0o777))
}
