// Package pipe reads a file once, feeds its digests, and writes it to any
// number of sinks.
//
//   - sink: the file that is written at one destination
//   - flow: sends a file's pieces to its digests and sinks, sequentially or through lanes
//   - lane: a channel and the goroutine behind it, for one digest or sink
//   - taker: what a lane writes to: a sink, or an output of the command stream
//   - block: a pooled buffer
//   - piece: the bytes of a block, a hole, or a mark, for the digests and sinks
//   - mark: a point of a large file at which the digests save their states (mark.go)
//
// To follow a block, begin with Move and read (stream.go) and send (flow.go). Then read
// (*lanes).add, which has the loop of a lane, and take (sink.go), which writes the block. Of a
// large file, take passes the written range to Behind.Wrote (behind.go). That submits chunks to
// the Device (device.go), whose goroutine waits until they are on the device. Wrote waits while the
// device has too much unwritten data. When it returns, the lane releases the block. Small files
// count in a Group (group.go) instead.
//
// The rules of the channels are those of the engine:
//
//   - The sender closes its channel, once, on every path.
//   - Only the reader watches the context. Lanes drain until close and release every block.
//   - A block has one writer until it is sent and is read-only from then on.
//   - No goroutine waits for a second block while holding one.
//   - No goroutine outlives the call.
package pipe
