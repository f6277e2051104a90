package cli

import "os"

// statusSignals is empty: Windows has no such signal.
var statusSignals []os.Signal
