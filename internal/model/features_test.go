//go:build linux

package model

// Rules of the contract that the program does not follow yet. To judge one, set its switch.
const (
	countsReplacedLinks = false // a directory in place of a link counts as replaced
	verifiesEachLine    = false // --verify compares a file with its line in each manifest, not only in the first
	resumesNever        = false // directories of an interrupted run with policy never get their metadata
	removesSidecarLines = false // NAME.sha256 counts among the other manifests of Sealift's own
	chainsOutdatedLines = false // lines of manifests that the run changed leave all manifests of Sealift's own
)
