// Package metadata copies what an entry has besides its content: owner, group, mode, times, extended
// attributes and ACLs.
//
// A Reader reads the values of entries of the source. A Store describes what a file system of a
// destination can keep of them, compares them with those of an existing object there, and sets them.
package metadata
