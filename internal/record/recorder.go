package record

// Recorder is one kind of record that a run writes.
type Recorder interface {
	// Open opens the record at one destination. It writes nothing. The error is a
	// *failure.RefusedError if the record cannot be written there.
	Open(d *Destination) (Book, error)
}
