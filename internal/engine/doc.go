// Package engine copies a source to one or more destinations and writes their manifests.
//
// Data flows one way. A walk lists the source, and workers read each file once. Each block
// goes to every digest and every destination. A complete file is committed and recorded:
//
//	walk ──jobs──▶ workers: one entry each ──results──▶ collector ──▶ manifests, summary
//	                 │
//	                 ├─ small files, or all cores busy: read → hash → write, in one buffer
//	                 ├─ otherwise: the worker reads ──block──▶ lane: digest
//	                 │                              ├────────▶ lane: writer of destination 1
//	                 │                              └────────▶ lane: writer of destination 2 ...
//	                 └─ a clone, or copied by the system: the file is read only to be hashed
//
// A directory gets its own metadata when all entries in it are done, so subdirectories come
// before their parent. At the end everything is flushed to the device, and then the
// manifests get their names.
//
// A run consists of parts. Each part uses only those above it in this list, and embeds them:
//
//   - reporter (report.go): what all parts need to know; sends results and failures to the collector
//   - placer (place.go): gives names at destinations, and keeps the files that had them
//   - comparer (compare.go): reads the source, and compares it with files at destinations
//   - mover (move.go): copies data
//   - copier (entry.go, copyfile.go): copies one entry, step by step
//   - linker (links.go): copies all names of a file together
//   - completer (finish.go): completes directories and destinations
//   - run (engine.go): walks the source, and begins and ends the copy
//
// The collector (collector.go) is one goroutine of its own. It records the results.
//
// Read these files first:
//
//   - engine.go: Run has the steps of a run in their order
//   - visitor.go: receives the entries of the walk
//   - entry.go: copyEntry copies one entry
//   - copyfile.go: the steps of one entry
//   - collector.go: records the results
//   - finish.go: ends the run
//
// Other packages do parts of a run:
//
//   - route resolves the paths; engine.go calls it
//   - source and dest are the two ends of the copy
//   - links collects the names of files with several names
//   - resume has the journal: resume.go, partial.go; dest makes its checkpoints
//   - record and catalog have the manifests: catalog.go
//   - readback reads the destinations again: verify.go
//
// # Five rules of the pipeline
//
//  1. Each channel is closed once, on every path: by its sender, or by the function
//     that has waited for all senders.
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
//   - entry: anything in the source that is not a directory
//   - target: a destination
//   - link group: all names of one file of the source that has several names (links.go)
//   - group of package resume: the files of one checkpoint
//   - group of package pipe: the unwritten small files of one destination
//   - message: sent to the collector by any other goroutine
//   - transfer: the copy of one entry to one target; transfer.go has its states
//   - observation: all that is known of an entry at a destination before content is compared
//   - decision: the actions that follow from an observation
//   - sink: the file that the bytes of a transfer are written to
//   - lane: a channel and the goroutine that drains it, for one digest or sink
//   - block, piece: a pooled buffer; a block's bytes, or a hole
//   - commit: giving a complete file its final name
//   - keep: leave an existing file that has the source's content, and update its metadata (policy.Keep,
//     stateKeeping, keep.go)
//   - leave: do not touch an existing entry (policy.Leave, outLeft). Reports call such an entry "kept"
//   - last file: a file of the source that a recorder copies when everything else is durable (last.go)
//   - result: the outcome of an entry at all targets, as the collector records it; a
//     targetResult is the part of one target
//   - primary link: the name of a file with several names that the others are linked to
package engine
