// Package engine copies a source to destinations and keeps account of it.
//
// Data flows one way. The source is walked, each file is read once, its blocks go to
// every digest and every destination, and a complete file is committed and recorded:
//
//	walk ──jobs──▶ workers: one entry each ──messages──▶ collector ──▶ manifests, summary
//	                 │
//	                 ├─ small files, or all cores busy: read → hash → write, in one buffer
//	                 ├─ otherwise: the worker reads ──piece──▶ lane: digest
//	                 │                              ├────────▶ lane: writer of destination 1
//	                 │                              └────────▶ lane: writer of destination 2 ...
//	                 └─ a clone, or copied by the system: only what has to be hashed is read
//
// A directory gets its own metadata when nothing in it is held any more, so subdirectories
// come before their parent. At the end everything is flushed to the device, and then the
// manifests get their names.
//
// Where to begin reading: Run in engine.go is the order of a run, visitor.go receives the
// walk, process in entry.go takes one entry, copyfile.go has its steps, collect.go records
// the results, and finish.go ends the run.
//
// Parts of a run are packages: route resolves the paths, resume has the journal, catalog
// the manifests, and readback reads the destinations again. The files here that have the
// names of such packages call them.
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
//   - group: the names of one file of the source with several names (links.go); a group of
//     package resume is what one checkpoint covers, one of pipe the unwritten small files
//   - message: what a goroutine sends to the collector
//   - transfer: the copy of one entry to one target; transfer.go has its states
//   - observation, decision: what is known before content is compared, and what follows
//   - sink: where the bytes of a transfer are written
//   - lane: a channel and the goroutine that drains it, for one digest or sink
//   - block, piece: a pooled buffer; a block's bytes, or a hole
//   - commit: giving a complete file its final name
//   - result: the outcome of an entry at all targets, as the collector records it; a
//     targetResult is the part of one target
//   - primary link: the name of a file with several names that the others are linked to
//   - pending links: groups of which the walk has not met all names yet
package engine
