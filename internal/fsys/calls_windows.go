package fsys

// systemCalls would be the calls that file systems lack. Windows has none.
type systemCalls struct{}

var system systemCalls

// keepsDoubles is false: only macOS has AppleDouble files.
func (d *Dir) keepsDoubles() bool { return false }
