package cli

// onSuspend does nothing: Windows does not suspend programs.
func onSuspend(func()) (stop func()) { return func() {} }
