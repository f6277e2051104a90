// Package stream copies one stream, a file, a device or what comes out of a pipe, to
// one or more outputs, and hashes it on the way.
//
//	input ──read──▶ buffer ──▶ lane: digest
//	                       ├─▶ lane: output 1 ──▶ writeback
//	                       └─▶ lane: output 2 ──▶ writeback
//
// Blocks are what is counted, skipped and sought; bytes move in buffers that suit
// the processor's cache, whatever the size of a block. Nothing is allocated and no
// message is sent for a block. The exception are devices that keep records: there,
// a block is one read and one write.
//
// Everything is opened and looked at before anything is written. An output that
// fails says what of it is on its device, and the others go on. A failing input
// ends the copy at the first byte that cannot be read.
package stream
