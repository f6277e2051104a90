// Package dest is one destination of a copy. A Destination has these parts:
//
//   - its root, which it creates, locks and gives back (open.go, root.go)
//   - FileSystems: those of the root and of what is mounted below it; it probes each one when the
//     first directory on it is opened (filesystem.go)
//   - Journals: the records that let another run continue (journal.go)
//   - a flusher, which limits unwritten data and makes checkpoints; Background has its goroutines (flush.go,
//     sync.go, sync_list.go)
//   - Backups: the directory of replaced files (backup.go)
//   - Space: free space (space.go)
//
// It reports failures and is dropped after those that concern all of it (destination.go).
package dest
