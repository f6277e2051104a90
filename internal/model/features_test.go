//go:build linux

package model

// The rules of the contract that the program is to follow soon. A history contains what such a rule is
// about only if its switch is on.
const (
	absentIsMismatch     = false // a file that the source's manifest lists and that is absent is a mismatch
	removesOutdatedLines = false // lines of replaced files leave the other manifests of Sealift's own
	reservesNames        = false // markers and the journal of a source are not copied, all else is
	firstRuleDecides     = true  // filters: the first rule that matches decides
	manifestNames        = false // SHA256SUMS, sealift.sha256, and nothing else
	linksByOutcome       = false // hard links
	countsReplacedLinks  = false // a directory in place of a link counts as replaced
	verifiesEachLine     = false // --verify compares a file with its line in each manifest, not only in the first
	resumesNever         = false // directories of an interrupted run with policy never get their metadata
	judgesSingleFiles    = false // a single file has NAME.sha256 beside it, in any form
	keepsOwnOfSameHash   = false // no manifest of Sealift's own at a destination is replaced by an entry of the source
	removesSidecarLines  = false // NAME.sha256 counts among the other manifests of Sealift's own
)
