package fsys

// systemCalls are those that file systems lack: none.
type systemCalls struct{}

var system systemCalls
