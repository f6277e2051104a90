//go:build linux

package stream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/pipe"
	"github.com/seed65876f4f/sealift/internal/treetest"
)

// For each count, skip and seek, in blocks or bytes, the files and the records equal those
// of dd.
func TestLikeDD(t *testing.T) {
	if out, err := exec.Command("dd", "--version").Output(); err != nil || !bytes.Contains(out, []byte("coreutils")) {
		t.Skip("this compares with GNU dd")
	}
	dir := treetest.MemoryDir(t)
	path := func(name string) string { return filepath.Join(dir, name) }
	rapid.Check(t, func(t *rapid.T) {
		block := rapid.OneOf(rapid.Int64Range(1, 300), rapid.SampledFrom([]int64{512, 4096, 10_000, 128 << 10, 1 << 20, 1 << 30})).Draw(t, "block")
		content := patchy(t, "content")
		write(t, path("in"), content)
		standing := rapid.OneOf(rapid.Just(-1), rapid.IntRange(0, 400_000)).Draw(t, "standing")
		args := []string{"bs=" + fmt.Sprint(block), "iflag=fullblock", "if=" + path("in"), "of=" + path("want")}
		for _, name := range []string{"want", "got"} {
			_ = os.Remove(path(name))
			if standing >= 0 {
				write(t, path(name), treetest.Pattern(standing, 9))
			}
		}
		amount := func(name, flag, unit string, most int64) Amount {
			a := Amount{Bytes: rapid.Bool().Draw(t, name+" in bytes")}
			if !a.Bytes {
				most /= block
			}
			a.N = rapid.Int64Range(0, most).Draw(t, name)
			args = append(args, fmt.Sprintf("%s=%d", name, a.N))
			if a.Bytes {
				args = append(args, flag+"="+unit)
			}
			return a
		}
		change := func(o *Options) { o.BlockSize = block }
		if rapid.Bool().Draw(t, "counted") {
			change = also(change, func(o *Options) { o.Count = new(amount("count", "iflag", "count_bytes", 400_000)) })
		}
		change = also(change, func(o *Options) {
			o.Skip = amount("skip", "iflag", "skip_bytes", int64(len(content)))
			o.Seek = amount("seek", "oflag", "seek_bytes", 200_000)
			if o.NoTruncate = rapid.Bool().Draw(t, "notrunc"); !o.NoTruncate && o.Seek.Bytes && o.Seek.N > 0 && o.Seek.N < block {
				// dd truncates at 0 then, though it writes behind what it seeks.
				f, err := os.OpenFile(path("want"), os.O_WRONLY|os.O_CREATE, 0o600)
				require.NoError(t, errors.Join(err, f.Truncate(o.Seek.N), f.Close()))
				args = append(args, "conv=notrunc")
			} else if o.NoTruncate {
				args = append(args, "conv=notrunc")
			}
			// dd is not asked to be sparse: it would leave what stood there before.
			o.Sparse = rapid.Bool().Draw(t, "sparse")
			o.Cache = pipe.CacheMode(rapid.IntRange(0, 3).Draw(t, "cache"))
			o.Unsynced = rapid.Bool().Draw(t, "unsynced")
			o.Input, o.Outputs = path("in"), []string{path("got")}
		})
		got := stream(context.Background(), "", nil, change)
		require.NoError(t, got.err)
		require.Zero(t, got.summary.Errors, got.texts())
		cmd := exec.Command("dd", args...)
		cmd.Env = append(os.Environ(), "LC_ALL=C")
		printed, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", printed)
		require.Equal(t, string(read(t, path("want"))), string(read(t, path("got"))), args)
		s := got.summary
		records := fmt.Sprintf("%d+%d records in\n%d+%d records out\n%d bytes",
			s.In.Full, s.In.Partial, s.Outputs[0].Records.Full, s.Outputs[0].Records.Partial, s.Bytes)
		require.Contains(t, strings.ReplaceAll(string(printed), "1 byte ", "1 bytes "), records+" ", args)
	})
}

func also(first, second func(*Options)) func(*Options) {
	return func(o *Options) {
		first(o)
		second(o)
	}
}

// patchy draws bytes with stretches of zeros in them.
func patchy(t *rapid.T, label string) []byte {
	var b []byte
	for i, n := range rapid.SliceOfN(rapid.IntRange(0, 100_000), 0, 8).Draw(t, label) {
		if i%2 == 0 {
			b = append(b, treetest.Pattern(n, byte(i))...)
		} else {
			b = append(b, make([]byte, n)...)
		}
	}
	return b
}

// pair makes a pipe of which the run gets one end.
func pair(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	t.Cleanup(func() { r.Close(); w.Close() })
	return r, w
}

// Short reads become full blocks, and a block does not wait for the next one.
func TestPipesAreFilled(t *testing.T) {
	inR, inW := pair(t)
	outR, outW := pair(t)
	const block = 1000
	content := treetest.Pattern(10*block+77, 1)
	done := make(chan outcome, 1)
	go func() {
		done <- stream(t.Context(), "-", []string{"-"}, func(o *Options) { o.Stdin, o.Stdout, o.BlockSize = inR, outW, block })
	}()
	got := make([]byte, block)
	for i := range 10 {
		for _, part := range [][2]int{{0, 1}, {1, 700}, {700, block}} {
			_, err := inW.Write(content[i*block+part[0] : i*block+part[1]])
			require.NoError(t, err)
		}
		_, err := io.ReadFull(outR, got) // waits for ever if the block does
		require.NoError(t, err)
		require.Equal(t, content[i*block:(i+1)*block], got)
	}
	_, err := inW.Write(content[10*block:])
	require.NoError(t, err)
	require.NoError(t, inW.Close())
	s := succeeds(t, <-done)
	require.Equal(t, Records{10, 1}, s.In)
	require.Equal(t, Records{10, 1}, s.Outputs[0].Records)
	require.Equal(t, int64(len(content)), s.Bytes)
	require.Equal(t, digest(content), s.Digests[0])
}

// Another process reads the rest.
func TestNothingIsReadBeyondTheCount(t *testing.T) {
	r, w := pair(t)
	content := treetest.Pattern(50_000, 1)
	_, err := w.Write(content)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	s := succeeds(t, stream(t.Context(), "-", []string{"/dev/null"}, func(o *Options) {
		o.Stdin, o.BlockSize, o.Count, o.Skip = r, 1000, &Amount{N: 7}, Amount{N: 123, Bytes: true}
	}))
	require.Equal(t, Records{7, 0}, s.In)
	rest, err := io.ReadAll(r)
	require.NoError(t, err)
	require.Equal(t, content[7123:], rest)

	// And of a file.
	path := write(t, filepath.Join(t.TempDir(), "f"), content)
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	_, err = f.Seek(11, io.SeekStart)
	require.NoError(t, err)
	succeeds(t, stream(t.Context(), "-", []string{"/dev/null"}, func(o *Options) {
		o.Stdin, o.BlockSize, o.Count, o.Skip = f, 1000, &Amount{N: 7}, Amount{N: 2}
	}))
	rest, err = io.ReadAll(f)
	require.NoError(t, err)
	require.Equal(t, content[9011:], rest)
}

// A file that is standard output is written where it stands, and left there.
func TestStandardOutputIsContinued(t *testing.T) {
	dir := t.TempDir()
	in := write(t, filepath.Join(dir, "in"), []byte("stream"))
	out := filepath.Join(dir, "out")
	for name, c := range map[string]struct {
		flags        int
		offset, seek int64
		want         string
	}{
		"from the beginning": {0, 0, 0, "stream!890"},
		"in the middle":      {0, 2, 0, "12stream!0"},
		"behind a seek":      {0, 1, 3, "1234stream!"},
		"beyond the end":     {0, 10, 1, "1234567890\x00stream!"},
		"appended to":        {os.O_APPEND, 0, 0, "1234567890stream!"},
	} {
		t.Run(name, func(t *testing.T) {
			write(t, out, []byte("1234567890"))
			f, err := os.OpenFile(out, os.O_WRONLY|c.flags, 0)
			require.NoError(t, err)
			_, err = f.Seek(c.offset, io.SeekStart)
			require.NoError(t, err)
			succeeds(t, stream(t.Context(), in, []string{"-"}, func(o *Options) {
				o.Stdout, o.Seek = f, Amount{N: c.seek, Bytes: true}
			}))
			_, err = f.WriteString("!") // another process with the descriptor
			require.NoError(t, err)
			require.NoError(t, f.Close())
			require.Equal(t, c.want, string(read(t, out)))
		})
	}
}

// Appended data is written back at its place.
func TestAppendedIsFollowed(t *testing.T) {
	out := write(t, filepath.Join(t.TempDir(), "out"), []byte("1234567890"))
	f, err := os.OpenFile(out, os.O_WRONLY|os.O_APPEND, 0)
	require.NoError(t, err)
	defer f.Close()
	stop, err := fsys.NewStop()
	require.NoError(t, err)
	defer stop.Close()
	s, err := (*fsys.FS)(nil).InheritStream(f, stop, true)
	require.NoError(t, err)
	defer s.Close()
	o := &output{run: &run{opts: &Options{}}, name: standard, to: s}
	require.NoError(t, o.place(0))
	require.EqualValues(t, 10, o.base)
}

// Invalid requests are refused before anything is written or truncated, and leave no file
// behind.
func TestRefusals(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	require.NoError(t, os.Mkdir("d", 0o700))
	require.NoError(t, syscall.Mkfifo("fifo", 0o600))
	require.NoError(t, os.Symlink("in", "link"))
	appended, err := os.OpenFile("appended", os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	require.NoError(t, err)
	defer appended.Close()
	r, w := pair(t)
	for _, c := range []struct {
		in     string
		outs   []string
		change func(*Options)
		want   string
	}{
		{"in", []string{"old", "link"}, nil, "'in' and 'link' are the same regular file"},
		{"in", []string{"old", "hard"}, nil, "'in' and 'hard' are the same regular file"},
		{"in", []string{"old", "./d/../old"}, nil, "'old' and './d/../old' are the same regular file"},
		{"in", []string{"old", "new", "d/../new"}, nil, "'new' and 'd/../new' are the same"},
		{"in", []string{"old", "d"}, nil, "'d': is a directory"},
		{"in", []string{"old", "no/such"}, nil, "'no/such': no such file or directory"},
		{"d", []string{"old"}, nil, "'d' is a directory; copy copies those"},
		{"no", []string{"old"}, nil, "'no': no such file or directory"},
		{"in", []string{"old", "fifo"}, func(o *Options) { o.Seek.N = 1 }, "'fifo': --seek needs a file or a block device"},
		{"in", []string{"old", "-"}, func(o *Options) { o.Seek.N, o.Stdout = 1, w }, "'-': --seek needs a file or a block device"},
		{"in", []string{"old", "-"}, func(o *Options) { o.Seek.N, o.Stdout = 1, appended }, "'-': --seek needs a file or a block device"},
		{"appended", []string{"old", "-"}, func(o *Options) { o.Stdout = appended }, "'appended' and '-' are the same regular file"},
		{"fifo", []string{"old", "no/such"}, nil, "'no/such': no such file or directory"}, // no process writes
		{"in", []string{"fifo", "in"}, nil, "'in' and 'in' are the same regular file"},    // no process reads
		{"in", []string{"old", "/dev/tty0/x"}, nil, "'/dev/tty0/x': "},
		{"in", []string{"old"}, func(o *Options) { o.Skip.N, o.BlockSize = 1<<40, 1<<30 }, "so many blocks"},
		{"in", []string{"old"}, func(o *Options) { o.Count, o.BlockSize = &Amount{N: 1 << 40}, 1<<30 }, "so many blocks"},
		{"in", []string{"old"}, func(o *Options) { o.Manifest = "in" }, "--manifest 'in': it is the input"},
		{"in", []string{"old"}, func(o *Options) { o.Manifest = "old" }, "--manifest 'old': it is an output"},
		{"in", []string{"new"}, func(o *Options) { o.Manifest = "new" }, "--manifest 'new': it is an output"},
		{"in", []string{"old"}, func(o *Options) { o.Manifest = "text" }, "--manifest 'text': it is not a manifest that Sealift wrote: line 1 is not a line of this kind of manifest; choose another name"},
		{"in", []string{"old"}, func(o *Options) { o.Manifest = "d" }, "--manifest 'd': it is a directory; choose another name"},
		{"in", []string{"old"}, func(o *Options) { o.Manifest = "no/such" }, "--manifest 'no/such': no such file"},
		{"in", []string{"-"}, func(o *Options) { o.Manifest, o.Stdout, o.Skip.N = "m", w, 1 }, "--manifest 'm': there is nothing to list"},
		{"in", []string{"-"}, func(o *Options) { o.Manifest, o.Stdout, o.Count = "m", w, &Amount{N: 9, Bytes: true} }, "--manifest 'm': there is nothing to list"},
		{"in", []string{"old"}, func(o *Options) { o.Manifest, o.Seek.N, o.Skip.N = "m", 1, 1 }, "--manifest 'm': there is nothing to list"},
		{"-", []string{"/dev/null"}, func(o *Options) { o.Manifest, o.Stdin = "m", r }, "--manifest 'm': there is nothing to list"},
	} {
		files := map[string]string{"in": "input, and long enough", "old": "old content", "text": "no manifest"}
		for name, content := range files {
			write(t, name, []byte(content))
		}
		_ = os.Remove("hard")
		require.NoError(t, os.Link("in", "hard"))
		o := stream(t.Context(), c.in, c.outs, c.change)
		var refused *failure.RefusedError
		require.ErrorAs(t, o.err, &refused, c.want)
		require.Contains(t, o.err.Error(), c.want)
		require.Empty(t, o.events)
		for name, content := range files {
			require.Equal(t, content, string(read(t, name)), c.want)
		}
		require.NoFileExists(t, "new", c.want)
		require.NoFileExists(t, "m", c.want)
	}
}

// Devices that hold nothing may be there twice.
func TestNullMayRepeat(t *testing.T) {
	s := succeeds(t, stream(t.Context(), "/dev/zero", []string{"/dev/null", "/dev/null"}, func(o *Options) {
		o.Count, o.Seek, o.Skip = &Amount{N: 3}, Amount{N: 1 << 20}, Amount{N: 1 << 40}
	}))
	require.Equal(t, Records{3, 0}, s.Outputs[1].Records)
}

// skipping beyond the end is a failure, known before anything is truncated.
func TestSkippingBeyondTheEnd(t *testing.T) {
	dir := t.TempDir()
	in, out := write(t, filepath.Join(dir, "in"), []byte("12345")), write(t, filepath.Join(dir, "out"), []byte("stands"))
	empty := write(t, filepath.Join(dir, "empty"), nil)
	skip := func(n int64) func(*Options) {
		return func(o *Options) { o.Skip = Amount{N: n, Bytes: true} }
	}
	for name, o := range map[string]outcome{
		"file":  stream(t.Context(), in, []string{out, filepath.Join(dir, "new")}, skip(6)),
		"empty": stream(t.Context(), empty, []string{out}, skip(1)),
		"pipe": stream(t.Context(), "-", []string{out}, also(skip(6), func(o *Options) {
			r, w := pair(t)
			_, _ = w.WriteString("12345")
			w.Close()
			o.Stdin = r
		})),
	} {
		var failed *failure.FileError
		require.ErrorAs(t, o.err, &failed, name)
		require.Contains(t, o.err.Error(), "--skip leads beyond the end")
		require.Equal(t, "stands", string(read(t, out)), name)
	}
	require.NoFileExists(t, filepath.Join(dir, "new"))
	s := succeeds(t, stream(t.Context(), in, []string{out}, skip(5)))
	require.Zero(t, s.Bytes)
	require.Empty(t, read(t, out))
}

func slicesOf(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

// Past the page cache, what begins within a page is read to its end first.
func TestDirectWithinAPage(t *testing.T) {
	dir := t.TempDir()
	content := treetest.Pattern(3*unitSize+123, 1)
	in := write(t, filepath.Join(dir, "in"), content)
	f, err := os.OpenFile(in, os.O_RDONLY|unix.O_DIRECT, 0)
	if err != nil {
		t.Skip("the temporary directory's file system has no direct reads: ", err)
	}
	defer f.Close()
	for _, skip := range []int64{1, 100, 4096 + 511, unitSize - 7} {
		// A file system that wants the memory aligned would say so in a warning.
		odd := fsys.AlignedBuffer(2 * fsys.DirectAlignment)[1:][:fsys.DirectAlignment]
		if _, err := f.ReadAt(odd, 0); err == nil {
			t.Skip("the temporary directory's file system reads directly into any memory")
		}
		out := filepath.Join(dir, "out")
		succeeds(t, stream(t.Context(), in, []string{out}, func(o *Options) { o.Cache, o.Skip = pipe.CacheDirect, Amount{N: skip, Bytes: true} }))
		require.True(t, bytes.Equal(content[skip:], read(t, out)))
	}
}

// openTerminal makes a terminal and returns both of its ends.
func openTerminal(t *testing.T) (user, terminal *os.File) {
	t.Helper()
	user, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip("no terminal can be made here: ", err)
	}
	t.Cleanup(func() { user.Close() })
	require.NoError(t, unix.IoctlSetPointerInt(int(user.Fd()), unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(int(user.Fd()), unix.TIOCGPTN)
	require.NoError(t, err)
	terminal, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { terminal.Close() })
	return user, terminal
}

// A device that keeps records gives one with each read, and takes one with each
// write: nothing is filled, and lines are counted like dd's.
func TestRecords(t *testing.T) {
	user, terminal := openTerminal(t)
	_, err := user.WriteString("skipped\none\nlonger than a block\nthe rest\n")
	require.NoError(t, err)
	out := filepath.Join(t.TempDir(), "out")
	s := succeeds(t, stream(t.Context(), "-", []string{out}, func(o *Options) {
		o.Stdin, o.BlockSize, o.Skip, o.Count = terminal, 14, Amount{N: 1}, &Amount{N: 3}
	}))
	require.Equal(t, "one\nlonger than a block\n", string(read(t, out)))
	require.Equal(t, Records{1, 2}, s.In)
	require.Equal(t, Records{1, 2}, s.Outputs[0].Records)
	rest := make([]byte, 100)
	n, err := terminal.Read(rest)
	require.NoError(t, err)
	require.Equal(t, "the rest\n", string(rest[:n]))

	other, screen := openTerminal(t)
	s = succeeds(t, stream(t.Context(), out, []string{"-"}, func(o *Options) { o.Stdout, o.BlockSize = screen, 10 }))
	require.Equal(t, Records{2, 1}, s.Outputs[0].Records)
	seen := make([]byte, len("one\r\nlonger than a block\r\n"))
	_, err = io.ReadFull(other, seen)
	require.NoError(t, err)
	require.Equal(t, "one\r\nlonger than a block\r\n", string(seen))
}

// Other processes that share a descriptor find its old state, also after direct I/O.
func TestDirectIsRestored(t *testing.T) {
	dir := treetest.MemoryDir(t)
	content := treetest.Pattern(3*unitSize+123, 1)
	in, err := os.Open(write(t, filepath.Join(dir, "in"), content))
	require.NoError(t, err)
	defer in.Close()
	out, err := os.Create(filepath.Join(dir, "out"))
	require.NoError(t, err)
	defer out.Close()
	succeeds(t, stream(t.Context(), "-", []string{"-"}, func(o *Options) { o.Stdin, o.Stdout, o.Cache = in, out, pipe.CacheDirect }))
	require.True(t, bytes.Equal(content, read(t, out.Name())))
	for _, f := range []*os.File{in, out} {
		flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFL, 0)
		require.NoError(t, err)
		require.Zero(t, flags&unix.O_DIRECT)
	}
}
