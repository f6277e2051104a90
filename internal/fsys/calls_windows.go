package fsys

// systemCalls would be the calls that file systems lack. Windows has none.
type systemCalls struct{}

var system systemCalls
