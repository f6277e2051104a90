// Package stream copies one stream (a file, a device or a pipe) to one or more outputs, and
// hashes it on the way.
//
//	input ──read──▶ buffer ──▶ lane: digest
//	                       ├─▶ lane: output 1 ──▶ writeback
//	                       └─▶ lane: output 2 ──▶ writeback
//
// Blocks are only the unit of count, skip and seek. The stream moves in buffers that fit into
// the processor's cache, whatever the size of a block. Devices with records, such as tapes,
// are the exception: there, a block is one read and one write.
//
// Run opens and checks everything before it writes. If an output fails, Run reports how much
// is on its device, and continues with the others. If the input fails, the copy ends at the
// first byte that cannot be read.
package stream
