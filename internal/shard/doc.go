// Package shard has the files of a copy that is split over many machines. docs/adr/0005-plan-run-merge.md
// has the design. A shard is a list of names, a task copies that list, and a merge sorts what the
// tasks have recorded.
//
//  1. A Planner collects what is in the source. Write balances the entries and writes the plan: the
//     lists, the table of directories, and plan.json last.
//  2. Open reads a plan. OpenList and OpenDirs read its files, after they compared the digests.
//  3. Begin makes an attempt at a shard, and Attempt.Finish links the record of its part.
//  4. Store.Part reads the part of a finished shard.
package shard
