package verify

import (
	"path"
	"strings"

	"github.com/seed65876f4f/sealift/internal/filter"
)

// selects reports whether the filters select the file that a manifest names. Each name on
// the path is judged as in a walk.
func (o *Options) selects(name string) bool {
	if o.Filter == nil && o.Only == nil {
		return true
	}
	if o.ConvertPaths && hasWindowsSeparators(name) {
		name = withSlashes(name)
	}
	name = strings.TrimLeft(path.Clean(name), "/")
	if name == "" { // "/"; refused later
		return true
	}
	verdict, only := o.Filter.Root(), o.Only.Root()
	for end := 0; end < len(name); end++ { // at a slash
		begin := end
		if n := strings.IndexByte(name[begin:], '/'); n >= 0 {
			end += n
		} else {
			end = len(name)
		}
		verdict = o.Filter.Match(name[:end], end < len(name), verdict)
		only = only.Child(name[begin:end])
	}
	return verdict == filter.Included && only.All()
}
