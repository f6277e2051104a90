package incomplete

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// written returns the lines of a marker that follow the text for people, and its head.
func written(t *testing.T, m *Missing) (Head, []string) {
	t.Helper()
	var b strings.Builder
	require.NoError(t, m.write(&b, Head{Source: "'/src'", Filters: NoFilters}))
	head, err := ReadHead(strings.NewReader(b.String()), int64(b.Len()))
	require.NoError(t, err)
	_, list, _ := strings.Cut(b.String(), "copy is complete.\n\n")
	return head, strings.Split(strings.TrimSuffix(list, "\n"), "\n")
}
