//go:build unix

package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The log and the report of a command are none of its other files. Nothing is created or changed.
func TestALogOrReportThatIsAnotherFileIsRefused(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, dir := range []string{"src/sub", "dst", "other", "payload/data"} {
		require.NoError(t, os.MkdirAll(filepath.FromSlash(dir), 0o700))
	}
	for _, file := range []string{"src/f", "dst/old", "list", "file"} {
		require.NoError(t, os.WriteFile(filepath.FromSlash(file), []byte("f\n"), 0o600))
	}
	require.NoError(t, os.Symlink("dst/SHA256SUMS", "dangling"))
	require.NoError(t, os.Symlink("other", "elsewhere"))
	require.NoError(t, os.Link("list", "hard"))
	before := treeOf(t)

	for _, line := range []string{
		"copy --log-file dst/SHA256SUMS src dst",
		"copy --log-file dangling src dst",
		"copy --log-file dst/sealift-2.sha256 src dst",
		"copy --log-file other/md5sums.txt src dst",
		"copy --log-file dst/SEALIFT-INCOMPLETE-src.txt src dst",
		"copy --log-file dst/.sealift-journal src dst",
		"copy --log-file dst/.sealift-journal/log src dst",
		"copy --bag --log-file dst/bag-info.txt src dst",
		"copy --mhl --log-file dst/ascmhl_chain.xml src dst",
		"copy --log-file src/sub/log src dst",
		"copy --log-file dst/f src dst",
		"copy --log-file dst/f src/f dst",
		"copy --log-file file.sha256 src/f file",
		"copy --manifest lines --log-file dst/lines src dst",
		"copy --manifest ../lines --log-file lines src dst",
		"copy --manifest lines --log-file dst/lines src/f dst",
		"copy --manifest " + filepath.Join(workingDirectory(t), "other", "lines") + " --log-file elsewhere/lines src dst",
		"copy --report page --log-file page src dst",
		"copy --report elsewhere/page --log-file other/page src dst",
		"copy --report dst/page --log-file other/../dst/page src dst",
		"copy --report dst/SHA256SUMS src dst",
		"copy --report src/page src dst",
		"copy --report dst/f src dst",
		"copy --metrics page --log-file page src dst",
		"copy --metrics page --report elsewhere/../page src dst",
		"copy --metrics src/page src dst",
		"copy --metrics dst/f src dst",
		"copy --files-from list --log-file hard src dst",
		"copy --exclude-from list --log-file list src dst",
		"plan --into other --log-file other/log src dst",
		"plan --into other --log-file src/log src dst",
		"verify --log-file hard --manifest list src",
		"verify --log-file dst/old --manifest old dst",
		"verify --log-file list list",
		"verify --report page --log-file page src",
		"verify --report dst/MD5SUMS dst",
		"verify --files-from list --log-file list src",
		"compare --log-file src/log src dst",
		"compare --log-file dst/log src dst",
		"compare --report dst/page src dst",
		"compare --report page --log-file page src dst",
		"compare --exclude-from list --log-file hard src dst",
		"sum --log-file list list",
		"sum --manifest lines --log-file lines src",
		"sum --log-file SHA256SUMS src",
		"sum --files-from list --log-file hard src",
		"du --log-file hard list",
		"du --exclude-from list --log-file list src",
		"stream --log-file list hard new",
		"stream --log-file new list new",
		"stream --log-file old --manifest old list new",
		"stream --log-file dst/SHA256SUMS list new",
	} {
		root := rootThat(runs{})
		var stdout, stderr strings.Builder
		code := execute(t.Context(), root, strings.Fields(line), strings.NewReader(""), &stdout, &stderr)
		require.Equal(t, 2, code, "%s: %s", line, stderr.String())
		require.Regexp(t, `^sealift: --(log-file|report|metrics) '[^']*' (is|has)[^\n]*; choose another[^\n]*\n$`, stderr.String(), line)
		require.Equal(t, before, treeOf(t), line)
	}

	for _, line := range []string{
		"copy --log-file log src dst",
		"copy --log-file dst/log --report dst/page src dst",
		"copy --log-file dst/other src/f dst",
		"verify --log-file dst/log --manifest list dst",
		"sum --log-file src/log src",
		"du --log-file src/log src",
		"stream --log-file log list new",
		"compare --log-file dst.log src dst",
		"compare --log-file /dev/null /dev dst",
		"copy --log-file /dev/null /dev other",
	} {
		var stdout, stderr strings.Builder
		code := execute(t.Context(), rootThat(runs{}), strings.Fields(line), strings.NewReader(""), &stdout, &stderr)
		require.Zero(t, code, "%s: %s", line, stderr.String())
	}
}

func workingDirectory(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	require.NoError(t, err)
	return dir
}

// treeOf returns the files of the working directory with their content.
func treeOf(t *testing.T) map[string]string {
	t.Helper()
	files := map[string]string{}
	require.NoError(t, filepath.WalkDir(".", func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			var text []byte
			text, err = os.ReadFile(path)
			files[path] = string(text)
		}
		return err
	}))
	return files
}
