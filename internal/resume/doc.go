// Package resume continues an interrupted copy. It records which data is on the device of
// one destination, and judges the files that an interrupted run left there.
//
//  1. OpenJournal makes the journal in the destination and locks it.
//  2. Journal.ReadLogs reads the logs of interrupted runs. Journal.Begin begins or continues
//     the log of this copy, which is on the device before the first file gets its name.
//  3. Reader.Judge says whether a file is known to be complete, or may be incomplete.
//     Reader.TakeLeftover returns the temporary of a large file, to continue with.
//  4. Writer.Add adds a file that is complete. Writer.Track follows a large one while it is
//     written.
//  5. Writer.Checkpoint lets the caller flush what was added, and then records that it is on
//     the device. Writer.Due says when.
//  6. A run that completes removes the journal. One that was stopped leaves it, and the
//     same command continues.
//
// The package reports nothing to the user: it returns errors and warnings. Package journal
// has the format of the log.
package resume
