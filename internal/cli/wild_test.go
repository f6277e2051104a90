package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/quote"
	"github.com/seed65876f4f/sealift/internal/treetest"
)

// Messages about any command line contain no control characters, for a terminal or a log.
func TestNoCommandLineReachesTheTerminalUnquoted(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, os.WriteFile("file", []byte("[\n"), 0o600))
	checkQuoted := func(args ...string) {
		t.Helper()
		r := command(t, succeeds, "\x1b\n", args...)
		require.Empty(t, treetest.Wild(r.stderr, false), "%q on standard error", args)
		require.Empty(t, treetest.Wild(r.stdout, false), "%q on standard output", args)
		if wantsReport := strings.Contains(strings.Join(args, " "), "--json"); wantsReport && r.stdout != "" {
			require.True(t, json.Valid([]byte(r.stdout)), "%q: %s", args, r.stdout)
		}
	}
	all := strings.Join(treetest.WildNames(), "")
	for _, name := range append(treetest.WildNames(), all) {
		checkQuoted(name)
		checkQuoted("help", name)
		checkQuoted("completion", name)
		checkQuoted("completion", "bash", name)
		checkQuoted("man", filepath.Join("file", name))
		checkQuoted("--"+name, name)
		checkQuoted("-x"+name, name)
		if name != all && (name != "\x1b[31mred" || !treetest.Large()) {
			continue // the rest runs for all names in one and, with SEALIFT_LARGE, for a short one
		}
		for _, cmd := range rootThat(runs{}).Commands() {
			checkQuoted(cmd.Name(), "--"+name)
			checkQuoted(cmd.Name(), "-"+name)
			checkQuoted(cmd.Name(), "--no"+name+"=x")
			checkQuoted(cmd.Name(), name, name, name, "")
			if cmd.Flags().Lookup("json") != nil {
				checkQuoted(cmd.Name(), "--json", "--"+name)
			}
			flags := 0
			cmd.Flags().VisitAll(func(f *pflag.Flag) {
				values := []string{name, "1" + name, "[" + name, f.DefValue + "," + name, "file/" + name}
				if !treetest.Large() { // two of them, other ones for the next flag
					flags++
					values = []string{values[flags%5], values[(flags+2)%5]}
				}
				for _, value := range values {
					checkQuoted(cmd.Name(), "--"+f.Name+"="+value)
					checkQuoted(cmd.Name(), "--"+f.Name, value, name, name)
				}
				if f.Shorthand != "" {
					checkQuoted(cmd.Name(), "-"+f.Shorthand+name)
				}
			})
		}
	}
}

// FuzzFlags gives any text to every flag. A flag that accepts a text accepts it again with the
// same result. The message about a refused text contains no control characters.
func FuzzFlags(f *testing.F) {
	for _, value := range []string{"", "1.5GiB", "80MB/s", "sha256,md5", "mode,times", "auto", "off", "**/[!a-z]/", "4096", "-1", "1e9", "9999999999999999999999"} {
		f.Add(value)
	}
	f.Fuzz(func(t *testing.T, value string) {
		for _, cmd := range rootThat(runs{}).Commands() {
			cmd.Flags().VisitAll(func(flag *pflag.Flag) {
				if flag.Name == "exclude-from" { // its value may name any file
					return
				}
				if err := cmd.Flags().Set(flag.Name, value); err != nil {
					text := quote.Text(flagError(cmd, err).Error())
					if wild := treetest.Wild(text, false); wild != "" || len(text) > 8*len(value)+1000 {
						t.Fatalf("%s: %s", flag.Name, text)
					}
					return
				}
				if _, once := flag.Value.(*onceValue); once {
					return
				}
				taken := flag.Value.String()
				if err := cmd.Flags().Set(flag.Name, value); err != nil {
					t.Fatalf("%s accepts %q only once: %v", flag.Name, value, err)
				}
				if _, many := flag.Value.(pflag.SliceValue); !many && flag.Value.String() != taken {
					t.Fatalf("%s is %q and then %q", flag.Name, taken, flag.Value)
				}
			})
		}
	})
}
