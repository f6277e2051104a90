// Package catalog has the recorders of a copy: line manifests, ASC MHL histories, bags and media hash
// lists. It decides which names the manifests have, which lines of an earlier manifest may be used
// again, and how a manifest is replaced. It also reads the digests that the source's own manifests,
// or a publisher's manifest beside a file, list. No other package knows that manifests are files.
//
// The rules are those of docs/manifest.md:
//
//  1. Sealift changes only its own manifests (existing.go). Those of other hashes lose the lines
//     of files that a run replaces (others.go), and those beside these files are removed
//     (sidecars.go). Other manifests are never changed; a warning says how many of their lines
//     a run has made out of date (stale.go).
//  2. There are two names, SHA256SUMS and sealift.sha256. Which one is used follows from the
//     entries of the source and the destination, before anything is written (tree.go).
//  3. Only an own manifest is replaced.
//  4. Files that are skipped keep their line (record.Book.Kept).
//  5. Lines of paths that the run did not touch are kept while there is a regular file
//     (manifests.go).
//  6. A manifest outside the destination takes no earlier lines (outside.go).
//  7. Beside a single file, NAME.sha256 may be a publisher's digest (single.go).
//  8. A manifest is replaced atomically, and has another name while files that it
//     lists are being replaced (aside.go).
//
// There are three kinds of line manifests: Tree, Single and Outside. They share manifests.go. A bag has
// other manifests, which are written once, when its payload is complete (bags.go, bag.go). Those of a
// source that is a bag are checked completely (bag_source.go).
// Generations of ASC MHL histories (histories.go, history.go) and media hash lists (medialist.go)
// are added to what is there.
//
// A line is the expected content of a file: the digest of bytes that Sealift read when
// it copied or compared the file. No time stamp makes a line appear, change or
// disappear.
package catalog
