// Package rigs has the tests of the program in the form that users get: the scripts of
// scripts/, the release, the installation with go. It has only tests.
package rigs
