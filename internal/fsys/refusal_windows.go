package fsys

const errNoFastPath = errNotSupported

// reachOf: there is no fast path whose errors could mean more.
func reachOf(err error) Refusal {
	if Unsupported(err) {
		return RefusedPair
	}
	return NotRefused
}
