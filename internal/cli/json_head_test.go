package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/engine"
	"github.com/seed65876f4f/sealift/internal/usage"
	"github.com/seed65876f4f/sealift/internal/verify"
)

// headPattern matches the first fields of JSON output, whose values differ from run to run.
var headPattern = regexp.MustCompile(`^\{"schema":1,"command":"[a-z]+","version":"[^"]+","host":"[^"]*","start":"[^"]+Z","end":"[^"]+Z","options":\[.*?\],`)

// headless removes the first fields of JSON output except the schema. A refusal has none of them.
func headless(t testing.TB, output string) string {
	t.Helper()
	if strings.HasPrefix(output, `{"schema":1,"exit_code"`) || !strings.HasPrefix(output, "{") {
		return output
	}
	if !headPattern.MatchString(output) {
		t.Errorf("the first fields are missing: %.300s", output)
	}
	return headPattern.ReplaceAllString(output, `{"schema":1,`)
}

// requireIndented compares JSON output without its first fields, indented, with want.
func requireIndented(t testing.TB, want, output string) {
	t.Helper()
	var got bytes.Buffer
	require.NoError(t, json.Indent(&got, []byte(headless(t, output)), "", "  "), output)
	require.Equal(t, want, got.String())
}

func TestJSONBeginsWithTheSameHead(t *testing.T) {
	before := time.Now().Truncate(time.Millisecond)
	slowly := func(context.Context, *engine.Options, *counters.Set) (*engine.Summary, error) {
		time.Sleep(5 * time.Millisecond)
		return &engine.Summary{}, nil
	}
	type option = optionJSON
	for _, c := range []struct {
		out  string
		name string
		want []option
	}{
		{
			command(t, slowly, "", "copy", "--json", "--exclude", "*.tmp", "-o", "c", "--include=a/*", "--exclude=*", "-q", "--overwrite-policy", "never", "-o", "d", "src", "b").stdout, "copy",
			[]option{{"json", "true"}, {"exclude", "*.tmp"}, {"include", "a/*"}, {"exclude", "*"}, {"output", "c"}, {"output", "d"}, {"quiet", "true"}, {"overwrite-policy", "never"}},
		},
		{verifyCommand(t, ends[verify.Options](&verify.Summary{}, nil), "", "--json", "x").stdout, "verify", []option{{"json", "true"}}},
		{duCommand(t, func(context.Context, *usage.Options) (*usage.Summary, error) { return &usage.Summary{}, nil }, "--exclude=x", "--exclude=y", "--json").stdout, "du", []option{{"exclude", "x"}, {"exclude", "y"}, {"json", "true"}}},
		{duCommand(t, func(context.Context, *usage.Options) (*usage.Summary, error) { return &usage.Summary{}, nil }, "-hk", "--json", "--bytes=false").stdout, "du", []option{{"human-readable", "true"}, {"kibibytes", "true"}, {"json", "true"}, {"bytes", "false"}}},
		{
			command(t, slowly, "", "copy", "--mhl=md5,c4", "--mhl-author", "Ann,email=ann@example.org", "--mhl-author=Bo", "--mhl-ignore", "*.tmp", "--mhl-location", "set", "--mhl-comment", "day 1", "--json", "a", "b").stdout, "copy",
			[]option{{"mhl", "md5,c4"}, {"mhl-author", "Ann,email=ann@example.org"}, {"mhl-author", "Bo"}, {"mhl-ignore", "*.tmp"}, {"mhl-location", "set"}, {"mhl-comment", "day 1"}, {"json", "true"}},
		},
	} {
		var head headJSON
		require.NoError(t, json.Unmarshal([]byte(c.out), &head), c.out)
		assert.Equal(t, c.name, head.Command)
		assert.Equal(t, c.want, head.Options)
		assert.Equal(t, readBuild().Version, head.Version)
		host, err := os.Hostname()
		require.NoError(t, err)
		assert.Equal(t, host, head.Host)
		start, err := time.Parse(time.RFC3339, head.Start)
		require.NoError(t, err)
		end, err := time.Parse(time.RFC3339, head.End)
		require.NoError(t, err)
		assert.False(t, start.Before(before) || end.After(time.Now()), "%v to %v", start, end)
		if c.name == "copy" {
			assert.GreaterOrEqual(t, end.Sub(start), 4*time.Millisecond)
		}
	}
}
