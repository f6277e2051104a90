// Package stream copies one stream (a file, a device or a pipe) to one or more outputs, and
// hashes it on the way.
//
//	input ──read──▶ buffer ──▶ lane: digest
//	                       ├─▶ lane: output 1 ──▶ writeback
//	                       └─▶ lane: output 2 ──▶ writeback
//
// Blocks are the unit of count, skip and seek. Bytes move in buffers that suit the
// processor's cache, whatever the size of a block. A block needs no allocation and no
// message. Devices with records are the exception: there, a block is one read and one
// write.
//
// Run opens and checks everything before it writes. For an output that fails, it reports
// how much is on the device, and the others continue. A failing input
// ends the copy at the first byte that cannot be read.
package stream
