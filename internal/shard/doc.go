// Package shard splits one copy into shards that different machines can copy at the same
// time. docs/adr/0005-plan-run-merge.md has the design.
//
//  1. A Planner collects what is in the source: Scan walks it. Write balances the entries and
//     writes the plan: shards, the table of directories, and plan.json last.
//  2. Open reads and checks a plan. Plan.Check refuses other copy options.
//  3. OpenShard and OpenDirs read its files as streams.
//  4. Begin makes an attempt at a shard. The attempt owns the shard until an observer considers
//     it dead.
//
// A plan is hostile input: another process may write anything into it. Every line is parsed
// strictly, and the digest of each file is compared with plan.json before the file is used.
package shard
