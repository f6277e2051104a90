package pipe

import (
	"context"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
)

// Digest reads the whole of src and feeds the digests. It returns the number of
// bytes read; what is beyond info.Size is not looked for unless that is 0. The
// error is that of reading or of the context.
func (p *Pipe) Digest(ctx context.Context, src *fsys.File, info fsys.Info, set *hash.Set) (int64, error) {
	return p.Transfer(ctx, src, info, set, nil, Course{})
}
