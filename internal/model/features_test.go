//go:build linux

package model

// Rules of the contract that the program does not follow yet. To judge one, set its switch.
const (
	removesSidecarLines = false // NAME.sha256 counts among the other manifests of Sealift's own
	chainsOutdatedLines = false // where own manifests list each other, exactly the lines of those that changed are removed
)
