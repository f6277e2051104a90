package verify

import (
	"path"
	"strings"
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
	if name == "" { // the name is "/", which is refused later
		return true
	}
	only := o.Only.Root()
	for element := range strings.SplitSeq(name, "/") {
		only = only.Child(element)
	}
	// A list of paths does not keep a repair from checking the manifests that it relies on.
	return o.Filter.MatchAll(name, false).Selected && (only.All() || o.Damaged != nil && o.isManifest(name))
}
