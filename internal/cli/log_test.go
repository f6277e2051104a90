package cli

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/compare"
	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/engine"
	"github.com/seed65876f4f/sealift/internal/event"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/stream"
	"github.com/seed65876f4f/sealift/internal/usage"
	"github.com/seed65876f4f/sealift/internal/verify"
)

// logged runs a command line with a log, and returns the lines of the log without their times.
func logged(t *testing.T, run func(args ...string), line string) []string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "log")
	words := strings.Fields(line)
	run(append([]string{words[0], "--log-file", name}, words[1:]...)...)
	log, err := os.ReadFile(name)
	require.NoError(t, err)
	return strings.Split(strings.TrimSuffix(regexp.MustCompile(`"time":"[^"]*",|(?m)^time=\S+ `).ReplaceAllString(string(log), ""), "\n"), "\n")
}

func TestEachLineOfAJSONLogIsAnObject(t *testing.T) {
	run := func(args ...string) { command(t, eventful, "", args...) }
	require.Equal(t, []string{
		`{"level":"INFO","event":"start","schema":1,"source":"s\u00e9","dry_run":false}`,
		`{"level":"INFO","event":"destination","schema":1,"destination":"dst"}`,
		`{"level":"INFO","event":"destination","schema":1,"destination":"dst2"}`,
		`{"level":"INFO","event":"created","schema":1,"path":"a b","bytes":5,"digests":[{"algorithm":"sha256","digest":"0102"}]}`,
		`{"level":"INFO","event":"replaced","schema":1,"path":"sub/\u001b[2J","bytes":7,"reason":"size \u202ediffers"}`,
		`{"level":"INFO","event":"metadata_updated","schema":1,"path":"touched","bytes":0,"reason":"mode"}`,
		`{"level":"WARN","event":"warning","schema":1,"destination":"dst","error":"no \u202eACLs here"}`,
		`{"level":"WARN","event":"conflict","schema":1,"path":"newer","destination":"dst","error":"the destination is newer","hint":"--overwrite-policy=always would replace it"}`,
		`{"level":"WARN","event":"conflict","schema":1,"path":"file","destination":"dst","error":"a directory is in the way","hint":"no policy replaces it; move it away"}`,
		`{"level":"ERROR","event":"failed","schema":1,"path":"bad\ufffd","path_base64":"YmFk/w==","stage":"read","error":"input/output error"}`,
		`{"level":"ERROR","event":"failed","schema":1,"path":"it's","destination":"dst","stage":"write","error":"file too large"}`,
		`{"level":"ERROR","event":"mismatch","schema":1,"path":"rotten","stage":"check","error":"source does not match its manifest"}`,
		`{"level":"ERROR","event":"destination_dropped","schema":1,"path":"a b","destination":"dst2","error":"no space left on device"}`,
	}, logged(t, run, "copy -q --log-format json s\u00e9 dst -o dst2")[:13])
}

func TestTheLogOfEveryCommand(t *testing.T) {
	bad := &failure.FileError{Path: "a", Stage: failure.StageRead, Err: errors.New("input/output error")}
	for line, c := range map[string]struct {
		runs runs
		want []string
	}{
		"du --log-format=json a": {runs{du: func(_ context.Context, o *usage.Options) (*usage.Summary, error) {
			o.Report("a", bad.Err)
			return &usage.Summary{Amount: usage.Amount{Size: 5}, Errors: 1}, nil
		}}, []string{
			`{"level":"ERROR","event":"failed","schema":1,"path":"a","stage":"scan","error":"input/output error"}`,
			`{"level":"INFO","event":"finish","schema":1,"exit_code":1,"verdict":"not_complete","bytes":5,"errors":1}`,
		}},
		"stream a b": {runs{stream: func(_ context.Context, o *stream.Options, _ *counters.Set) (*stream.Summary, error) {
			o.Report(stream.Event{Err: bad})
			return &stream.Summary{Bytes: 5, Elapsed: time.Second}, nil
		}}, []string{
			`level=ERROR event=failed path=a stage=read error="input/output error"`,
			`level=INFO event=finish exit_code=1 verdict=not_complete bytes=5 elapsed=1s`,
		}},
		"verify --log-format=json t": {runs{verify: func(_ context.Context, o *verify.Options, _ *counters.Set) (*verify.Summary, error) {
			o.Report(verify.Result{Verdict: verify.Mismatch, Path: "f", Dir: "t", Manifest: "t/MD5SUMS"})
			return &verify.Summary{Counts: verify.Counts{Files: 1, Mismatches: 1}, Elapsed: 1500 * time.Millisecond}, nil
		}}, []string{
			`{"level":"ERROR","event":"mismatch","schema":1,"path":"f","directory":"t","manifest":"t/MD5SUMS","error":"mismatch"}`,
			`{"level":"INFO","event":"finish","schema":1,"exit_code":3,"verdict":"not_verified","files":1,"bytes":0,"matches":0,"mismatches":1,"missing":0,"elapsed":1.5}`,
		}},
		"compare --log-format=json a b": {runs{compare: func(_ context.Context, o *compare.Options, _ *counters.Set) (*compare.Summary, error) {
			o.Report(compare.Event{Verdict: compare.TypeDiffers, Path: "f", Reason: "regular file, directory"})
			return &compare.Summary{Counts: compare.Counts{TypeDiffers: 1}}, nil
		}}, []string{
			`{"level":"WARN","event":"type_differs","schema":1,"path":"f","reason":"regular file, directory"}`,
			`{"level":"INFO","event":"finish","schema":1,"exit_code":3,"verdict":"not_equal","files":0,"bytes":0,"differences":1,"errors":0,"elapsed":0}`,
		}},
	} {
		got := logged(t, func(args ...string) {
			var stdout, stderr strings.Builder
			execute(t.Context(), rootThat(c.runs), args, strings.NewReader(""), &stdout, &stderr)
		}, line)
		require.Equal(t, c.want, got, line)
	}
}

func TestALogFormatNeedsALog(t *testing.T) {
	r := command(t, succeeds, "", "copy", "--log-format=json", "a", "b")
	require.Equal(t, 2, r.code)
	require.Contains(t, r.stderr, "sealift: --log-format needs --log-file\n")
	r = command(t, succeeds, "", "sum", "--log-format=xml", "a")
	require.Contains(t, r.stderr, "sealift: --log-format: unknown log format \"xml\"; known are text, json\n")
}

// A killed run leaves a log that ends with a complete line.
func TestEachLineOfTheLogIsWrittenAtOnce(t *testing.T) {
	name := filepath.Join(t.TempDir(), "log")
	command(t, func(_ context.Context, o *engine.Options, _ *counters.Set) (*engine.Summary, error) {
		o.Report(event.Event{Kind: event.Copied, Path: "a", Action: "created"})
		log, err := os.ReadFile(name)
		require.NoError(t, err)
		require.True(t, strings.HasSuffix(string(log), "\"bytes\":0}\n"), string(log))
		return &engine.Summary{}, nil
	}, "", "copy", "--log-format=json", "--log-file", name, "src", "dst")
}
