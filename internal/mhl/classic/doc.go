// Package classic reads and writes media hash lists of version 1 (MHL 1.1,
// https://mediahashlist.org). A list is an XML document in the root of a tree, with an
// entry for each file.
//
//	<hashlist version="1.1">
//	  <creatorinfo> name, username, hostname, tool, startdate, finishdate </creatorinfo>
//	  <hash>
//	    <file>path</file> <size>1234</size> <lastmodificationdate/> digests <hashdate/>
//	  </hash>
//	</hashlist>
//
// A document is hostile: it is read through package safexml, entry by entry, in memory
// that does not grow with it. The caller must still open paths without leaving the tree.
//
// The schema has the digests md5, sha1, xxhash, xxhash64, xxhash64be and null; programs
// also write xxhash3_64 and xxhash128.
package classic

import (
	"github.com/seed65876f4f/sealift/internal/hash"
)

// Extension is that of the names of media hash lists.
const Extension = ".mhl"

// An Entry is the information of a list about one file.
type Entry struct {
	Path string // relative path with "/" between names and without ".." elements
	Size int64  // size in bytes; -1 if the list does not say

	// Digests are those of known kinds, in the order of the list.
	Digests []hash.Expected

	// SizeOnly says that the list has the kind null: the size is all that it lists.
	SizeOnly bool

	Line   int   // line of the document, counted from 1
	Offset int64 // of the entry's first byte in the document
}

// kind is an element of a list that has a digest.
type kind struct {
	element   string
	algorithm hash.Algorithm
	decimal   bool // true if the digest is a decimal number
	anyOrder  bool // true if the bytes may be in the opposite order
	written   bool // true if Sealift writes this kind for the algorithm
}

// kinds are the kinds of digests, those that are written in the order in which they are offered.
var kinds = []kind{
	{element: "xxhash64be", algorithm: hash.XXH64, written: true},
	{element: "md5", algorithm: hash.MD5, written: true},
	{element: "sha1", algorithm: hash.SHA1, written: true},
	{element: "xxhash128", algorithm: hash.XXH128, written: true},
	{element: "xxhash3_64", algorithm: hash.XXH3, written: true},
	// Little-endian by the schema. Several programs write it big-endian.
	{element: "xxhash64", algorithm: hash.XXH64, anyOrder: true},
	{element: "xxhash", algorithm: hash.XXH32, decimal: true},
}

// kindOf returns the kind of an element, or nil.
func kindOf(element string) *kind {
	for i := range kinds {
		if kinds[i].element == element {
			return &kinds[i]
		}
	}
	return nil
}

// Algorithms lists the algorithms of which digests can be written, the usual one first.
func Algorithms() []hash.Algorithm {
	var list []hash.Algorithm
	for _, k := range kinds {
		if k.written {
			list = append(list, k.algorithm)
		}
	}
	return list
}

// elementFor returns the element in which digests of an algorithm are written, "" if
// there is none.
func elementFor(a hash.Algorithm) string {
	for _, k := range kinds {
		if k.written && k.algorithm == a {
			return k.element
		}
	}
	return ""
}
