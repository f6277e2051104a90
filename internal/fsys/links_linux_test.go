package fsys

import (
	"fmt"
	"io"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// A link of /proc to an object without a path is followed.
func TestTrustedLinkToAPipe(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	require.NoError(t, CheckLinks(fmt.Sprintf("/dev/fd/%d", w.Fd())))
	again, err := OpenTrusted(fmt.Sprintf("/dev/fd/%d", w.Fd()), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	_, err = again.WriteString("text")
	require.NoError(t, err)
	require.NoError(t, again.Close())
	text, err := io.ReadAll(r)
	require.NoError(t, err)
	require.Equal(t, "text", string(text))
}
