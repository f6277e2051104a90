//go:build unix

package fsys

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// BenchmarkCommit compares what a new file of 4 KiB costs without a name until
// it is complete (O_TMPFILE and linkat) and with a temporary one (create and
// rename). TMPDIR chooses the file system.
func BenchmarkCommit(b *testing.B) {
	data := make([]byte, 4096)
	for _, named := range []bool{false, true} {
		b.Run(fmt.Sprintf("named=%v", named), func(b *testing.B) {
			d, err := OpenRoot(b.TempDir())
			require.NoError(b, err)
			defer d.Close()
			for i := range b.N {
				if i%1000 == 0 { // a fresh directory, so that its size does not count
					name := fmt.Sprintf("d%d", i)
					require.NoError(b, d.Mkdir(name))
					sub, err := d.OpenDir(name)
					require.NoError(b, err)
					d.Close()
					d = sub
				}
				p, err := d.Create(named)
				if err == nil {
					err = p.WriteAt(data, 0)
				}
				if err == nil {
					err = p.Commit(fmt.Sprintf("f%d", i))
				}
				require.NoError(b, err)
			}
		})
	}
}
