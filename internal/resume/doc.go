// Package resume continues an interrupted copy. It records which data is on the device of
// one destination, and judges the files that an interrupted run left there.
//
//  1. OpenJournal makes the journal in the destination and locks it.
//  2. Journal.OpenLog reads the logs of interrupted runs, and begins or continues that of
//     this copy. The log is on the device before the first file gets its name.
//  3. Log.Judge says whether a file is known to be complete, or may be incomplete.
//     Log.TakeLeftover returns the temporary of a large file, to continue with.
//  4. Log.Add adds a file that is complete. Log.Track follows a large one while it is
//     written.
//  5. Log.Checkpoint lets the caller flush what was added, and then records that it is on
//     the device. Log.Due says when.
//  6. A run that completes removes the journal. One that was stopped leaves it, and the
//     same command continues.
//
// The package reports nothing to the user: it returns errors and warnings. Package journal
// has the format of the log.
package resume
