// Package pipe reads a file once, feeds its digests, and writes it to any
// number of sinks.
//
//   - sink: where the bytes of a file are written at one destination
//   - flow: sends a file's pieces to its digests and sinks, sequentially or through lanes
//   - lane: a channel and the goroutine behind it, for one digest or sink
//   - block, piece: a pooled buffer; a block's bytes, or a hole, on their way
//
// To follow a block, read Move and read in stream.go, send in flow.go, the loop of a lane in
// (*lanes).add, and take in sink.go. Device, Behind and Group bound what is unwritten on a
// device.
//
// The rules of the channels are those of the engine: the sender closes its channel, once,
// on every path; only the reader watches the context, lanes drain until close and release
// every block; a block has one writer until it is sent and is read-only from then on; no
// goroutine waits for a second block while holding one; no goroutine outlives the call.
package pipe
