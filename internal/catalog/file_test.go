//go:build unix

package catalog

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/fsys/faultfs"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/manifest"
	"github.com/seed65876f4f/sealift/internal/record"
	"github.com/seed65876f4f/sealift/internal/treetest"
)

// fileTest is a File at the path M, with a line for each of puts. A put is the path of a
// file that contains its own path.
type fileTest struct {
	FileOptions
	tree bool // names are those of a tree
}

func (o fileTest) open() (*File, error) {
	if o.Hashes == nil {
		o.Hashes = []hash.Algorithm{hash.SHA256}
	}
	o.Builder = manifest.NewBuilder(o.Hashes, nil, 0)
	o.Builder.Named = !o.tree
	if len(o.Hashes) > 1 {
		o.Format = manifest.BSD
	}
	if o.Path == "" {
		o.Path = "M"
	}
	o.Hint = "choose another name"
	return OpenFile(o.FileOptions)
}

func (o fileTest) write(t require.TestingT, puts ...string) (record.Written, error) {
	f, err := o.open()
	require.NoError(t, err)
	defer f.Close()
	return writeTo(t, f, puts...)
}

func writeTo(t require.TestingT, f *File, puts ...string) (record.Written, error) {
	for _, path := range puts {
		require.NoError(t, f.opts.Builder.Put(manifest.Entry{Path: path, Digests: digestsOf(path, f.opts.Hashes...)}))
	}
	return f.Write(context.Background())
}

// lineOf returns the line of a file that contains its own path.
func lineOf(path string) string { return fmt.Sprintf("%x  %s\n", sha256.Sum256([]byte(path)), path) }

func linesOf(paths ...string) (text string) {
	for _, path := range paths {
		text += lineOf(path)
	}
	return text
}

func tagged(paths ...string) (text string) {
	for _, path := range paths {
		text += fmt.Sprintf("SHA256 (%s) = %x\n", path, sha256.Sum256([]byte(path)))
	}
	return text
}

// place changes into a new directory with these files; a name that ends in / is a
// directory.
func inPlace(t *testing.T, names ...string) {
	t.Helper()
	t.Chdir(t.TempDir())
	for _, name := range names {
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o700))
		if !strings.HasSuffix(name, "/") {
			require.NoError(t, os.WriteFile(name, []byte(name), 0o600))
		}
	}
}

func content(t require.TestingT, name string) string {
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	return string(text)
}

func TestFileKeepsLinesOfOtherFiles(t *testing.T) {
	inPlace(t, "a", "b", "d/c", "dir/", "new", "-")
	require.NoError(t, os.Symlink("a", "link"))
	require.NoError(t, os.Symlink("nowhere", "dangling"))
	require.NoError(t, os.Symlink("dir", "loop"))
	absolute, err := filepath.Abs("b")
	require.NoError(t, err)
	for name, tt := range map[string]struct {
		fileTest
		before, want []string // lines
		dropped      int
	}{
		"kept":            {fileTest{}, []string{"a", "b", "d/c"}, []string{"a", "b", "d/c", "new"}, 0},
		"gone":            {fileTest{}, []string{"a", "a/x", "d/gone", "gone"}, []string{"a", "new"}, 3},
		"no regular file": {fileTest{}, []string{"dangling", "dir", "link", "loop"}, []string{"link", "new"}, 3},
		"renewed":         {fileTest{}, []string{"new"}, []string{"new"}, 0},
		"other spellings": {fileTest{}, []string{"../gone", "./a", absolute, "d/../a"}, []string{"./a", absolute, "d/../a", "new"}, 1},
		"standard input":  {fileTest{}, []string{"-", "./-"}, []string{"./-", "new"}, 1},
		"itself":          {fileTest{}, []string{"./M", "M"}, []string{"new"}, 2},
		"another base":    {fileTest{FileOptions: FileOptions{Base: "d"}, tree: true}, []string{"a", "c"}, []string{"c", "new"}, 1},
		"changed": {fileTest{FileOptions: FileOptions{Changed: func(i fsys.Info) bool { return i.Size == int64(len("d/c")) }}},
			[]string{"a", "d/c"}, []string{"a", "new"}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			slices.Sort(tt.before)
			slices.Sort(tt.want)
			require.NoError(t, os.WriteFile("M", []byte(linesOf(tt.before...)), 0o600))
			w, err := tt.write(t, "new")
			require.NoError(t, err)
			want := linesOf(tt.want...)
			require.Equal(t, want, content(t, "M"))
			require.Equal(t, record.Written{Path: "M", Lines: len(tt.want), Dropped: tt.dropped, SHA256: fmt.Sprintf("%x", sha256.Sum256([]byte(want)))}, w)
		})
	}
}

// A file that cannot be accessed may exist, so its line stays.
func TestFileKeepsTheLineOfAFileThatCannotBeSeen(t *testing.T) {
	inPlace(t, "a", "b")
	require.NoError(t, os.WriteFile("M", []byte(linesOf("a", "b")), 0o600))
	sys := &fsys.FS{Fault: faultfs.OnOp(faultfs.OnName("a", faultfs.Fail(syscall.EIO)), fsys.OpStat)}
	_, err := fileTest{FileOptions: FileOptions{FS: sys}}.write(t, "c")
	require.NoError(t, err)
	require.Equal(t, linesOf("a", "b", "c"), content(t, "M"))
}

func TestFileMergesBlockByBlock(t *testing.T) {
	inPlace(t, "a", "b")
	o := fileTest{FileOptions: FileOptions{Hashes: []hash.Algorithm{hash.SHA256, hash.MD5}}}
	_, err := o.write(t, "a", "gone")
	require.NoError(t, err)
	w, err := o.write(t, "b")
	require.NoError(t, err)
	require.Equal(t, 4, w.Lines)
	require.Equal(t, 2, w.Dropped)
	require.Equal(t, tagged("a", "b")+"MD5 (a) = 0cc175b9c0f1b6a831c399e269772661\nMD5 (b) = 92eb5ffee6ae2fec3ad71c777531578f\n", content(t, "M"))
}

// TestFileOfEachHash is rule 5 for the manifest of sum and stream.
func TestFileOfEachHash(t *testing.T) {
	eachHash(t, func(t *testing.T, a hash.Algorithm, _ string) {
		other := hash.C4
		if a == other {
			other = hash.XXH3
		}
		for _, hashes := range [][]hash.Algorithm{{a}, {a, other}, {other, a}} {
			inPlace(t, "a", "b")
			o := fileTest{FileOptions: FileOptions{Hashes: hashes}}
			_, err := o.write(t, "a")
			if err != nil {
				t.Fatal(err)
			}
			w, err := o.write(t, "b")
			if err != nil || w.Lines != 2*len(hashes) || w.Dropped != 0 {
				t.Errorf("%v: %+v, %v\n%s", hashes, w, err, content(t, "M"))
			}
			before := content(t, "M")
			if _, err := o.write(t, "a", "b"); err != nil || content(t, "M") != before {
				t.Errorf("%v: %v: it changed:\n%s%s", hashes, err, before, content(t, "M"))
			}
		}
	})
}

func TestFileReplacesNothingElse(t *testing.T) {
	sha1 := strings.Repeat("ab", 20)
	for name, tt := range map[string]struct {
		fileTest
		before string // content of M
		make   func() error
		want   string
	}{
		"a text":        {before: "some notes\n", want: "it is not a manifest that Sealift wrote: line 1 is not a line of this kind of manifest; choose another name"},
		"a long file":   {before: strings.Repeat("x", 1<<20), want: "line 1 is not a line of this kind of manifest; choose another name"},
		"another hash":  {before: sha1 + "  a\n", want: "line 1 is not a line of this kind of manifest"},
		"another order": {before: linesOf("b", "a"), want: "line 2 is not in ascending order"},
		"more":          {before: linesOf("a") + "# noted by hand\n", want: "line 2 is not a line of this kind of manifest"},
		"tagged":        {before: tagged("a"), want: "line 1 is not written as Sealift writes it"},
		"untagged":      {fileTest: fileTest{FileOptions: FileOptions{Format: manifest.BSD}}, before: linesOf("a"), want: "line 1 is not written as Sealift writes it"},
		"one of two hashes": {fileTest: fileTest{FileOptions: FileOptions{Hashes: []hash.Algorithm{hash.SHA256, hash.MD5}}}, before: tagged("a"),
			want: "line 1 is the last one, and there is none of MD5"},
		"a name of another hash": {fileTest: fileTest{FileOptions: FileOptions{Path: "b3.blake3"}}, make: func() error { return os.WriteFile("b3.blake3", []byte(linesOf("a")), 0o600) },
			want: "its name says that its lines are of blake3, not of sha256; choose another name"},
		"signed, .asc":  {before: linesOf("a"), make: func() error { return os.WriteFile("M.asc", nil, 0o600) }, want: "there is also 'M.asc'; choose another name"},
		"signed, .sig":  {before: linesOf("a"), make: func() error { return os.WriteFile("M.sig", nil, 0o600) }, want: "there is also 'M.sig'"},
		"signed, .gpg":  {before: linesOf("a"), make: func() error { return os.WriteFile("M.gpg", nil, 0o600) }, want: "there is also 'M.gpg'"},
		"a directory":   {make: func() error { return os.Mkdir("M", 0o700) }, want: "it is a directory; choose another name"},
		"a fifo":        {make: func() error { return syscall.Mkfifo("M", 0o600) }, want: "it is a fifo"},
		"a broken link": {make: func() error { return os.Symlink("nowhere", "M") }, want: "it is a symbolic link"},
		"no directory":  {fileTest: fileTest{FileOptions: FileOptions{Path: "no/M"}}, want: "no such file or directory"},
		"refused":       {fileTest: fileTest{FileOptions: FileOptions{Refuse: func(fsys.Info) error { return errors.New("it is the input") }}}, before: linesOf("a"), want: "it is the input"},
	} {
		t.Run(name, func(t *testing.T) {
			inPlace(t)
			if tt.before != "" {
				require.NoError(t, os.WriteFile("M", []byte(tt.before), 0o600))
			}
			if tt.make != nil {
				require.NoError(t, tt.make())
			}
			f, err := tt.open()
			require.Nil(t, f)
			require.ErrorAs(t, err, new(*failure.RefusedError))
			require.ErrorContains(t, err, "--manifest '")
			require.ErrorContains(t, err, tt.want)
			if tt.before != "" {
				require.Equal(t, tt.before, content(t, "M"))
			}
		})
	}
}

// An empty file may be replaced.
func TestFileWithoutPredecessor(t *testing.T) {
	inPlace(t)
	require.NoError(t, os.WriteFile("M", nil, 0o640))
	_, err := fileTest{}.write(t, "a")
	require.NoError(t, err)
	require.Equal(t, linesOf("a"), content(t, "M"))
}

// A manifest that would not change stays, so this needs no permission to write.
func TestFileThatWouldNotChangeIsLeftAlone(t *testing.T) {
	inPlace(t, "a", "b")
	_, err := fileTest{}.write(t, "a", "b")
	require.NoError(t, err)
	before, err := (*fsys.FS)(nil).StatPath("M")
	require.NoError(t, err)
	sys := &fsys.FS{Fault: faultfs.OnOp(faultfs.Fail(errors.New("not to be called")), fsys.OpCreate)}
	w, err := fileTest{FileOptions: FileOptions{FS: sys}}.write(t, "b")
	require.NoError(t, err)
	require.Equal(t, record.Written{Path: "M", Lines: 2, SHA256: fmt.Sprintf("%x", sha256.Sum256([]byte(linesOf("a", "b"))))}, w)
	after, err := (*fsys.FS)(nil).StatPath("M")
	require.NoError(t, err)
	after.Atime = before.Atime
	require.Equal(t, before, after)

	// A manifest with the asterisks of earlier versions stays, too.
	require.NoError(t, os.WriteFile("M", []byte(strings.ReplaceAll(linesOf("a", "b"), "  ", " *")), 0o600))
	_, err = fileTest{}.write(t, "b")
	require.NoError(t, err)
	require.Equal(t, linesOf("a", "b"), content(t, "M"))
}

func TestFileKeepsModeOwnerAndAttributes(t *testing.T) {
	inPlace(t, "a")
	_, err := fileTest{}.write(t, "a")
	require.NoError(t, err)
	require.NoError(t, os.Chmod("M", 0o640))
	owner := os.Geteuid() == 0 && os.Chown("M", 123, 456) == nil
	attribute := unix.Setxattr("M", "user.test", []byte("kept"), 0) == nil
	require.NoError(t, os.Symlink("M", "link"))
	_, err = fileTest{FileOptions: FileOptions{Path: "link"}}.write(t, "b")
	require.NoError(t, err)
	require.Equal(t, linesOf("a", "b"), content(t, "M"))
	info, err := (*fsys.FS)(nil).StatPath("M")
	require.NoError(t, err)
	require.Equal(t, 0o640, int(info.Mode&0o777))
	if owner {
		require.Equal(t, [2]uint32{123, 456}, [2]uint32{info.UID, info.GID})
	}
	if attribute {
		value := make([]byte, 10)
		n, err := unix.Getxattr("M", "user.test", value)
		require.NoError(t, err)
		require.Equal(t, "kept", string(value[:n]))
	}
	link, err := os.Readlink("link")
	require.NoError(t, err)
	require.Equal(t, "M", link)
}

// Other processes add lines to the manifest at the same time. No line is lost.
func TestFileThatAnotherProcessWritesMeanwhile(t *testing.T) {
	for _, first := range []bool{true, false} {
		inPlace(t, "a", "b")
		if !first {
			_, err := fileTest{}.write(t, "a")
			require.NoError(t, err)
		}
		f, err := fileTest{}.open()
		require.NoError(t, err)
		_, err = fileTest{}.write(t, "b")
		require.NoError(t, err)
		_, err = writeTo(t, f, "c")
		require.NoError(t, err)
		f.Close()
		want := linesOf("b", "c")
		if !first {
			want = linesOf("a", "b", "c")
		}
		require.Equal(t, want, content(t, "M"))
	}
}

// Many processes add a line to one manifest at the same moment. Each one succeeds, no line is
// lost, and no lock stays.
func TestFileThatManyProcessesWrite(t *testing.T) {
	var names []string
	for i := range 16 {
		names = append(names, string(rune('a'+i)))
	}
	inPlace(t, names...)
	for range 20 {
		var files []*File
		for _, name := range names {
			f, err := fileTest{}.open()
			require.NoError(t, err)
			require.NoError(t, f.opts.Builder.Put(manifest.Entry{Path: name, Digests: digestsOf(name, hash.SHA256)}))
			files = append(files, f)
		}
		var all errgroup.Group
		for _, f := range files {
			all.Go(func() error {
				defer f.Close()
				_, err := f.Write(context.Background())
				return err
			})
		}
		require.NoError(t, all.Wait())
		require.Equal(t, linesOf(names...), content(t, "M"))
		left, err := filepath.Glob(fsys.Reserved + "*")
		require.NoError(t, err)
		require.Empty(t, left)
		require.NoError(t, os.Remove("M"))
	}
}

// A process that was killed leaves the file of its lock. The repeated run removes it, although it changes nothing.
func TestLockThatAKilledProcessLeft(t *testing.T) {
	inPlace(t, "a")
	_, err := fileTest{}.write(t, "a")
	require.NoError(t, err)
	treetest.Create(t, ".", files{fileLockName: ""}.tree())
	_, err = fileTest{}.write(t, "a")
	require.NoError(t, err)
	require.NoFileExists(t, fileLockName)

	p := newPair(t, files{"a": "x"}.tree(), files{"a": "x", fileLockName: ""}.tree())
	_, err = p.begin(options{File: "a", Hashes: []hash.Algorithm{}}).Write()
	require.NoError(t, err)
	wantFiles(t, p.dest, files{"a": "x"})
}

// While another process holds the lock, the end of the context ends the wait. The manifest is not
// written.
func TestTheEndOfTheContextEndsTheWaitForTheLock(t *testing.T) {
	inPlace(t, "a")
	var sys *fsys.FS
	dir, err := sys.OpenRoot(".")
	require.NoError(t, err)
	defer dir.Close()
	lock, err := dir.Lock(fileLockName)
	require.NoError(t, err)
	defer lock.Unlock()
	f, err := fileTest{}.open()
	require.NoError(t, err)
	defer f.Close()
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("the user has stopped it")
	begin := time.Now()
	time.AfterFunc(5*lockPause, func() { cancel(cause) })
	_, err = f.Write(ctx)
	require.ErrorIs(t, err, cause)
	require.Less(t, time.Since(begin), lockWait/2)
	require.NoFileExists(t, "M")
}

// If another process creates the manifest, it is not replaced if it has another form, or
// was created at the last moment.
func TestFileThatIsExchanged(t *testing.T) {
	inPlace(t, "a")
	f, err := fileTest{}.open()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile("M", []byte("notes"), 0o600))
	_, err = writeTo(t, f, "a")
	require.ErrorContains(t, err, "another process has changed it meanwhile: it is not a manifest that Sealift wrote")
	f.Close()
	require.Equal(t, "notes", content(t, "M"))

	for _, before := range []bool{false, true} {
		require.NoError(t, os.Remove("M"))
		if before {
			require.NoError(t, os.WriteFile("M", []byte(linesOf("a")), 0o600))
		}
		exchange := func(fsys.Call) error {
			return errors.Join(os.WriteFile("other", []byte("notes"), 0o600), os.Rename("other", "M"))
		}
		sys := &fsys.FS{Fault: faultfs.OnOp(faultfs.OnIndex(0, exchange), fsys.OpSync)}
		_, err = fileTest{FileOptions: FileOptions{FS: sys}}.write(t, "b")
		require.ErrorContains(t, err, "another process has ")
		require.Equal(t, "notes", content(t, "M"))
		left, err := filepath.Glob(fsys.Reserved + "*")
		require.NoError(t, err)
		require.Empty(t, left)
	}
}

// If an operation fails, either the old or the new manifest exists.
func TestFileFaultSweep(t *testing.T) {
	inPlace(t, "a", "b")
	old, want := linesOf("a", "gone"), linesOf("a", "b")
	for nth, hit := 0, true; hit; nth++ {
		require.NoError(t, os.WriteFile("M", []byte(old), 0o600))
		n, syncs := 0, 0
		var failed fsys.Op
		sys := faultfs.New(func(op fsys.Op, _ string) error {
			if op == fsys.OpSync {
				syncs++
			}
			if n++; n == nth+1 {
				failed = op
				return syscall.EIO
			}
			return nil
		})
		var w record.Written
		f, err := fileTest{FileOptions: FileOptions{FS: sys}}.open()
		if err == nil {
			w, err = writeTo(t, f, "b")
			f.Close()
		}
		hit = failed != ""
		switch text := content(t, "M"); {
		case err == nil && text == linesOf("a", "b", "gone"): // Write could not find out that the file is gone
			require.Equal(t, fsys.OpStat, failed)
		case err == nil:
			require.Equal(t, want, text, "%d: %s", nth, failed)
			require.Equal(t, 1, w.Dropped)
			require.Equal(t, 2, syncs, "the file and its directory")
		default:
			require.ErrorContains(t, err, syscall.EIO.Error())
			require.Contains(t, []string{old, want}, text, "%d: %s", nth, failed)
		}
		left, err := filepath.Glob(fsys.Reserved + "*")
		require.NoError(t, err)
		if failed != fsys.OpRemove {
			require.Empty(t, left, "%d: %s", nth, failed)
		}
	}
}

// Is identifies the manifest by its place.
func TestFileIs(t *testing.T) {
	inPlace(t, "d/")
	f, err := fileTest{FileOptions: FileOptions{Path: "d/M"}}.open()
	require.NoError(t, err)
	defer f.Close()
	idOf := func(name string) fsys.ID {
		info, err := (*fsys.FS)(nil).StatPath(name)
		require.NoError(t, err)
		return info.ID
	}
	require.True(t, f.Is(idOf("d"), "M", fsys.ID{}))
	require.False(t, f.Is(idOf("."), "M", fsys.ID{}))
	require.False(t, f.Is(idOf("d"), "m", fsys.ID{}))
	_, err = writeTo(t, f, "a")
	require.NoError(t, err)
	g, err := fileTest{FileOptions: FileOptions{Path: "d/M"}}.open()
	require.NoError(t, err)
	defer g.Close()
	require.True(t, g.Is(idOf("d"), "m", idOf("d/M")), "a file system that folds case says so")
	require.False(t, g.Is(idOf("d"), "x", idOf("d/M")), "a hard link")
}

// TestFileAgainstMap writes at random and compares with a map.
func TestFileAgainstMap(t *testing.T) {
	names := []string{"a", "b", "c", "d e", "e\nf", "g\\"}
	inPlace(t)
	rapid.Check(t, func(t *rapid.T) {
		_ = os.Remove("M")
		listed := map[string]bool{}
		for range rapid.IntRange(1, 6).Draw(t, "runs") {
			for _, name := range names {
				if rapid.Bool().Draw(t, "exists") {
					require.NoError(t, os.WriteFile(name, nil, 0o600))
				} else if err := os.Remove(name); !errors.Is(err, fs.ErrNotExist) {
					require.NoError(t, err)
				}
			}
			puts := rapid.SliceOfNDistinct(rapid.SampledFrom(names), 1, len(names), rapid.ID).Draw(t, "puts")
			dropped := 0
			for name := range listed {
				if _, err := os.Lstat(name); err != nil && !slices.Contains(puts, name) {
					delete(listed, name)
					dropped++
				}
			}
			for _, name := range puts {
				listed[name] = true
			}
			w, err := fileTest{}.write(t, puts...)
			require.NoError(t, err)
			var want []byte
			for _, name := range names { // they are sorted
				if listed[name] {
					want = append(want, sha(name, name)...)
				}
			}
			require.Equal(t, string(want), content(t, "M"))
			require.Equal(t, len(listed), w.Lines)
			require.Equal(t, dropped, w.Dropped)
		}
	})
}
