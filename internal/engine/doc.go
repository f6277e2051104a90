// Package engine copies a source to destinations and keeps account of it.
//
// Data flows one way. The source is walked, each file is read once, its blocks
// go to a lane for each digest and one for each destination, and a finished
// file is committed and recorded:
//
//	walk ──jobs──▶ workers: one entry each ──messages──▶ collector ──▶ manifests, summary
//	                 │
//	                 ├─ at most one block: read → hash → write, in turn, in one buffer
//	                 ├─ longer: the worker reads ──piece──▶ lane: digest
//	                 │                           ├────────▶ lane: writer of destination 1
//	                 │                           └────────▶ lane: writer of destination 2 ...
//	                 └─ a clone, or copied by the system: only what has to be hashed is read
//
// A directory is completed, with its own metadata, when nothing in it is held
// any more; that is deepest first by itself. At the end everything is forced to
// the device and the manifests get their names, in this order.
//
// Parts of it are packages: route resolves the paths, catalog owns the manifests, readback
// reads the destinations again.
//
// # Five rules of the pipeline
//
//  1. The sender closes its channel, once, in the function that made it, on
//     every path.
//  2. Only producers watch the context. Consumers drain until close, even after
//     their own error, and release every block.
//  3. A block has one writer until it is sent. From then on it is read-only; the
//     last release returns it to the pool.
//  4. No goroutine waits for a second block while holding one, so the smallest
//     pool cannot deadlock.
//  5. No goroutine outlives Run.
//
// # Glossary
//
//   - entry: one thing in the source that is not a directory
//   - target: a destination
//   - transfer: the copy of one entry to one target; transfer.go has its states
//   - observation, decision: what is known before content is compared, and what follows
//   - sink: where the bytes of a transfer are written
//   - lane: a channel and the goroutine that drains it, for one digest or sink
//   - block, piece: a pooled buffer; a block's bytes, or a hole
//   - commit: giving a complete file its final name
//   - result: the outcome of an entry at all targets, as the collector records it
//   - primary link: the name of a file with several names that the others are linked to
//   - pending links: files with several names of which some were not met yet
package engine
