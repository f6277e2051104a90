package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/pipe"
	"github.com/seed65876f4f/sealift/internal/stream"
)

func TestEachFlagOfStreamReachesItsOption(t *testing.T) {
	blocks := func(n int64) *stream.Amount { return &stream.Amount{N: n} }
	for line, want := range map[string]func(*stream.Options){
		"":             func(*stream.Options) {},
		"a":            func(o *stream.Options) { o.Input = "a" },
		"- b":          func(o *stream.Options) { o.Outputs = []string{"b"} },
		"a b - c":      func(o *stream.Options) { o.Input, o.Outputs = "a", []string{"b", "-", "c"} },
		"--count 10":   func(o *stream.Options) { o.Count = blocks(10) },
		"--count 0":    func(o *stream.Options) { o.Count = blocks(0) },
		"--count 10M":  func(o *stream.Options) { o.Count = &stream.Amount{N: 10 << 20, Bytes: true} },
		"--skip 80MB":  func(o *stream.Options) { o.Skip = stream.Amount{N: 80_000_000, Bytes: true} },
		"--skip 7B":    func(o *stream.Options) { o.Skip = stream.Amount{N: 7, Bytes: true} },
		"--seek 3":     func(o *stream.Options) { o.Seek = stream.Amount{N: 3} },
		"--sync":       func(*stream.Options) {},
		"--sync=none":  func(o *stream.Options) { o.Unsynced = true },
		"--sparse":     func(o *stream.Options) { o.Sparse = true },
		"--hash none":  func(o *stream.Options) { o.Hashes = nil },
		"--bwlimit 1K": func(o *stream.Options) { o.BytesPerSecond = 1024 },
		"--cache drop --no-truncate --block-size 512 --manifest m": func(o *stream.Options) {
			o.Cache, o.NoTruncate, o.BlockSize, o.Manifest = pipe.CacheDrop, true, 512, "m"
		},
	} {
		r := streamCommand(t, ends[stream.Options](&stream.Summary{}, nil), strings.Fields(line)...)
		got := r.options
		require.Zero(t, r.code, "%s: %s", line, r.stderr)
		expected := &stream.Options{
			Input: "-", Outputs: []string{"-"}, BlockSize: stream.DefaultBlockSize, Hashes: []hash.Algorithm{hash.SHA256},
		}
		want(expected)
		require.NotNil(t, got.Report)
		got.Report = nil
		require.Equal(t, expected, got, line)
	}
}

func TestUsageErrorsOfStream(t *testing.T) {
	for line, want := range map[string]string{
		"a - -":                      "- is given twice as an output",
		"--manifest - a":             "--manifest needs a file",
		"--manifest m --hash none":   "--manifest needs a digest",
		"--count ten":                "--count: \"ten\" is neither a number of blocks nor a size",
		"--count -1":                 "--count: \"-1\" is neither",
		"--seek 1.5":                 "--seek: \"1.5\" is neither",
		"--skip 9999999999999999999": "--skip: \"9999999999999999999\" is neither",
		"--sync=file":                "--sync: unknown sync mode \"file\"; known are end, none",
		"--sync none a b":            "write the mode of --sync as --sync=none, or a file of that name as ./none",
		"--cache=most":               "--cache: unknown cache mode \"most\"; known are auto, keep, drop, direct",
		"--block-size 0":             "--block-size: 0 is out of range; it must be 1 to 1GiB",
		"--conv sync":                "unknown flag --conv",
	} {
		r := streamCommand(t, ends[stream.Options](&stream.Summary{}, nil), strings.Fields(line)...)
		got := r.options
		require.Equal(t, 2, r.code, line)
		require.Nil(t, got, line)
		require.Contains(t, r.stderr, want)
	}
	r := streamCommand(t, ends[stream.Options](&stream.Summary{}, nil), "")
	require.Equal(t, 2, r.code)
	require.Contains(t, r.stderr, "the name of an input or output is empty")
}

func TestMessagesAndTotalsOfStream(t *testing.T) {
	summary := &stream.Summary{
		In: stream.Records{Full: 3, Partial: 1}, Bytes: 1 << 20, Elapsed: time.Second / 2, Complete: true,
		Outputs: []stream.Written{{Name: "a", Records: stream.Records{Full: 3, Partial: 1}}, {Name: "b", Records: stream.Records{Full: 3, Partial: 1}}},
		Digests: hash.Digests{{1, 2}, {3}},
	}
	run := func(_ context.Context, o *stream.Options, _ *counters.Set) (*stream.Summary, error) {
		o.Report(stream.Event{Warning: true, Err: errors.New("a\x1bwarning")})
		if len(o.Outputs) == 2 {
			summary.Outputs[1].Records.Full = 2
			o.Report(stream.Event{Err: &failure.FileError{Path: "b", Stage: failure.StageWrite, Err: errors.New("full")}})
		}
		return summary, nil
	}
	r := streamCommand(t, run, "--hash", "sha256,md5", "a", "b")
	require.Zero(t, r.code)
	require.Empty(t, r.stdout)
	require.Equal(t, `sealift: warning: a\x1bwarning
3+1 records in
3+1 records out
1048576 bytes (1.0 MB, 1.0 MiB) copied, 0.5 s, 2.1 MB/s
sha256  0102
md5  03
`, r.stderr)
	r = streamCommand(t, run, "--hash", "sha256,md5", "a", "b", "c")
	require.Equal(t, 1, r.code)
	require.Contains(t, r.stderr, "sealift: 'b': write: full\n3+1 records in\n3+1 records out (to 'a')\n2+1 records out (to 'b')\n")
	summary.Manifest, summary.Lines, summary.Dropped = "m", 5, 2
	r = streamCommand(t, run, "--hash", "sha256,md5", "--manifest", "m", "a", "b", "c")
	require.Contains(t, r.stderr, "\nmd5  03\nmanifest 'm', 5 lines, 2 dropped (files that are gone or were replaced)\n")
	r = streamCommand(t, run, "-q", "a", "b", "c")
	require.Equal(t, 1, r.code)
	require.Equal(t, "sealift: 'b': write: full\n", r.stderr)
}

func TestAStoppedStreamPrintsItsTotalsIfItHasBegun(t *testing.T) {
	for _, s := range []*stream.Summary{nil, {In: stream.Records{Full: 5}}} {
		r := streamCommand(t, func(context.Context, *stream.Options, *counters.Set) (*stream.Summary, error) {
			return s, Interrupt{Signal: os.Interrupt}
		}, "a", "b")
		require.Equal(t, 130, r.code)
		require.Equal(t, s != nil, strings.Contains(r.stderr, "5+0 records in\n"))
		require.Contains(t, r.stderr, "sealift: stopped by SIGINT\n")
	}
}

// The last line is that of dd, to the letter.
// If the digest cannot be printed on standard error, the run fails.
func TestStreamFailsIfItsDigestCannotBePrinted(t *testing.T) {
	run := func(context.Context, *stream.Options, *counters.Set) (*stream.Summary, error) {
		return &stream.Summary{Digests: hash.Digests{{1}}}, nil
	}
	for args, want := range map[string]int{"--quiet": 0, "--progress=none": 1} {
		var stdout bytes.Buffer
		code := execute(t.Context(), rootThat(runs{stream: run}), []string{"stream", args, "a", "b"}, strings.NewReader(""), &stdout, &fullDisk{free: 5})
		require.Equal(t, want, code, args)
	}
}

func TestTransferredIsWrittenAsByDD(t *testing.T) {
	for _, c := range []struct {
		bytes   int64
		elapsed time.Duration
		want    string
	}{
		{0, 0, "0 bytes copied, 0 s, Infinity B/s"},
		{0, time.Second, "0 bytes copied, 1 s, 0.0 kB/s"},
		{1, 50 * time.Microsecond, "1 byte copied, 5e-05 s, 20.0 kB/s"},
		{999, time.Second / 3, "999 bytes copied, 0.333333 s, 3.0 kB/s"},
		{1150, time.Second, "1150 bytes (1.2 kB, 1.1 KiB) copied, 1 s, 1.2 kB/s"},
		{1000, 3 * time.Second, "1000 bytes (1.0 kB) copied, 3 s, 0.3 kB/s"},
		{2050, 3 * time.Second, "2050 bytes (2.0 kB, 2.0 KiB) copied, 3 s, 0.7 kB/s"},
		{2150, 3 * time.Second, "2150 bytes (2.2 kB, 2.1 KiB) copied, 3 s, 0.7 kB/s"},
		{1 << 30, 1234567 * time.Microsecond, "1073741824 bytes (1.1 GB, 1.0 GiB) copied, 1.23457 s, 870 MB/s"},
		{100 << 20, time.Hour, "104857600 bytes (105 MB, 100 MiB) copied, 3600 s, 29.1 kB/s"},
		{math.MaxInt64, 1000 * time.Hour, "9223372036854775807 bytes (9.2 EB, 8.0 EiB) copied, 3.6e+06 s, 2.6 TB/s"},
	} {
		require.Equal(t, c.want, transferred(c.bytes, c.elapsed))
	}
	if runtime.GOOS != "linux" {
		return
	}
	if out, err := exec.Command("dd", "--version").Output(); err != nil || !bytes.Contains(out, []byte("coreutils")) {
		t.Skip("the rest compares with GNU dd")
	}
	line := regexp.MustCompile(`(?m)^(\d+ bytes? .*copied, )`)
	rapid.Check(t, func(t *rapid.T) {
		const most = 64 << 20 // bytes; the table has what takes longer
		n := rapid.OneOf(rapid.Int64Range(0, 3000), rapid.Int64Range(0, most),
			rapid.Custom(func(t *rapid.T) int64 { // at the borders of units and of tenths
				unit := rapid.SampledFrom([]int64{1e3, 1e6, 1 << 10, 1 << 20}).Draw(t, "unit")
				hundredths := rapid.Int64Range(1, min(most/unit, 1100)*100).Draw(t, "hundredths")
				return max(unit*hundredths/100+rapid.Int64Range(-2, 2).Draw(t, "about"), 0)
			})).Draw(t, "bytes")
		cmd := exec.Command("dd", "if=/dev/zero", "of=/dev/null", "iflag=count_bytes", "bs=128K", fmt.Sprintf("count=%d", n))
		cmd.Env = append(cmd.Environ(), "LC_ALL=C")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err)
		want := line.FindString(string(out))
		require.Equal(t, want, line.FindString(transferred(n, time.Second)))
	})
}

func FuzzAmount(f *testing.F) {
	for _, s := range []string{"10", "0", "10M", "80MB", "1.5G", "007", "5B", "9223372036854775807", "-1", "", "1e3"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		a, err := parseAmount(s)
		if err != nil {
			return
		}
		n, err := parseSize(s)
		require.NoError(t, err)
		require.Equal(t, n, a.N)
		require.GreaterOrEqual(t, a.N, int64(0))
		require.Equal(t, regexp.MustCompile(`^[0-9]+$`).MatchString(s), !a.Bytes)
	})
}

func TestStreamReportsInJSON(t *testing.T) {
	run := func(_ context.Context, o *stream.Options, _ *counters.Set) (*stream.Summary, error) {
		o.Report(stream.Event{Warning: true, Err: errors.New("slow")})
		o.Report(stream.Event{Err: &failure.FileError{Path: "c", Stage: failure.StageWrite, Err: errors.New("full")}})
		return &stream.Summary{
			In: stream.Records{Full: 3, Partial: 1}, Bytes: 7, Elapsed: 2 * time.Second, Complete: true, Digests: hash.Digests{{1, 2}},
			Outputs: []stream.Written{{Name: "b", Records: stream.Records{Full: 3, Partial: 1}, Bytes: 7}, {Name: "c\xff"}},
			Errors:  1, Manifest: "m", Lines: 5, Dropped: 2,
		}, nil
	}
	r := streamCommand(t, run, "--json", "a", "b", "c")
	require.Equal(t, 1, r.code)
	require.Equal(t, "sealift: warning: slow\nsealift: 'c': write: full\n", r.stderr)
	require.Equal(t, `{"schema":1,"verdict":"not_complete","causes":[{"cause":"failed"}],"next":null,"complete":true,"bytes":7,"seconds":2,"rate":4,"in":{"full_records":3,"partial_records":1},`+
		`"outputs":[{"path":"b","full_records":3,"partial_records":1,"bytes":7},{"path":"c\ufffd","path_base64":"Y/8=","full_records":0,"partial_records":0,"bytes":0}],`+
		`"digests":[{"algorithm":"sha256","digest":"0102"}],"manifest":{"path":"m","lines":5,"dropped":2},`+
		`"failures":[{"path":"c","event":"failed","stage":"write","error":"full"}],"warnings":[{"path":"","error":"slow"}],"exit_code":1}`+"\n", headless(t, r.stdout))

	for _, line := range []string{"--json a", "--json", "--json a b -"} {
		r := streamCommand(t, run, strings.Fields(line)...)
		require.Equal(t, 2, r.code, line)
		require.Contains(t, r.stderr, "--json and an output on standard output contradict each other", line)
	}
}
