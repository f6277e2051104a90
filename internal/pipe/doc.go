// Package pipe reads a file once, feeds its digests, and writes it to any
// number of sinks.
//
//   - sink: where the bytes of a file go at one destination
//   - flow: a file's way to its digests and sinks, in turn or through lanes
//   - lane: a channel and the goroutine behind it, for one digest or sink
//   - block, piece: a pooled buffer; a block's bytes, or a hole, on their way
//
// The rules that keep the channels honest are those of the engine: the sender
// closes its channel, once, on every path; only the reader watches the context,
// lanes drain until close and release every block; a block has one writer until
// it is sent and is read-only from then on; nobody waits for a second block
// while holding one; no goroutine outlives the call.
package pipe
